"""The built-in kinds and the OpenAPI models of their types, read from `kinds.json` and `models/*.json`.

Both are written by `hack/update_builtin_kinds.py`; `core.kcp.io.v1alpha1.json` is written by hand. The generated files carry no
descriptions: see `descriptions`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

REFERENCE_PREFIX: Final = "#/components/schemas/"
"""The text before the name of a model in a `$ref`, as in OpenAPI v3 documents."""

_FOLDER: Final = Path(__file__).parent


class BuiltinKind(NamedTuple):
    """One built-in kind in one version."""

    group: str
    version: str
    kind: str
    plural: str
    namespaced: bool
    short_names: Sequence[str]
    categories: Sequence[str]
    verbs: Sequence[str]
    """Sorted, as in discovery."""
    subresources: Mapping[str, Sequence[str]]
    """Name -> verbs, sorted."""
    model: str
    """The name of its type in `models()`; the list's has `List` appended."""

    @property
    def singular(self) -> str:
        return self.kind.lower()

    @property
    def list_kind(self) -> str:
        return self.kind + "List"


@cache
def builtin_kinds() -> tuple[BuiltinKind, ...]:
    """Every built-in kind, in the order of the file."""
    return tuple(BuiltinKind(**row) for row in orjson.loads((_FOLDER / "kinds.json").read_bytes()))


@cache
def models() -> Mapping[str, Mapping[str, Any]]:
    """Name -> schema in the form of OpenAPI v3, of all built-in kinds, their lists and the meta kinds. Shared: do not change it."""
    merged: dict[str, Mapping[str, Any]] = {}
    for file in sorted((_FOLDER / "models").glob("*.json")):
        merged.update(orjson.loads(file.read_bytes()))
    return merged


@cache
def models_by_kind() -> Mapping[tuple[str, str, str], str]:
    """(group, version, kind) -> the name of its model in `models()`."""
    return {
        (one["group"], one["version"], one["kind"]): name
        for name, schema in models().items()
        for one in schema.get("x-kubernetes-group-version-kind", ())
    }
