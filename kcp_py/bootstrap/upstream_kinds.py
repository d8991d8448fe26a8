"""The kinds of Kubernetes that the server does not serve by itself but knows: any of them can come to a cluster as a CRD.

Read from `upstream/*.json`, which `hack/update_upstream_kinds.py` writes, when the first of them is asked for: never at start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.bootstrap.kinds import models

_FOLDER: Final = Path(__file__).parent / "upstream"


class UpstreamKind(NamedTuple):
    """One kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: Sequence[str]
    categories: Sequence[str]
    verbs: Sequence[str]
    """Sorted, as in discovery."""
    subresources: Sequence[str]
    """Of `scale` and `status`, those that it has."""
    field_labels: Sequence[str]
    """What field selectors can name beyond metadata."""
    model: str
    """The name of its type in `upstream_models()`; the list's has `List` appended."""

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        return self.kind + "List"

    @property
    def group_resource(self) -> str:
        """As users write it: `pods`, `deployments.apps`."""
        return f"{self.plural}.{self.group}" if self.group else self.plural


@cache
def upstream_kinds() -> Mapping[tuple[str, str, str], UpstreamKind]:
    """(group, version, kind) -> the kind, in order of group, kind and version."""
    rows = [UpstreamKind(**row) for row in orjson.loads((_FOLDER / "kinds.json").read_bytes())]
    return {(row.group, row.version, row.kind): row for row in rows}


@cache
def upstream_models() -> Mapping[str, Mapping[str, Any]]:
    """Name -> schema in the form of OpenAPI v3, of all upstream kinds and all that they refer to. Shared: do not change it.

    Other than in published documents, fields have defaults, as far as they do not depend on other fields.
    """
    return {**models(), **orjson.loads((_FOLDER / "models.json").read_bytes())}
