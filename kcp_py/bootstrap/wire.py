"""The protobuf tables of the built-in kinds, read from `protobuf/*.json`, which `hack/update_protobuf_tables.py` writes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

from kcp_py.bootstrap.kinds import builtin_kinds

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_V1_KINDS: Final = (
    "APIGroup",
    "APIGroupList",
    "APIResourceList",
    "APIVersions",
    "CreateOptions",
    "DeleteOptions",
    "GetOptions",
    "ListOptions",
    "PatchOptions",
    "Status",
    "UpdateOptions",
    "WatchEvent",
)
_META_KINDS: Final = ("PartialObjectMetadata", "PartialObjectMetadataList")
_FOLDER: Final = Path(__file__).parent / "protobuf"


def message_fields(name: str) -> Mapping[str, Sequence[str]]:
    """Field number -> (JSON name, type, rule) of a message, such as `io.k8s.api.core.v1.ConfigMap`.

    Raises:
        KeyError: no such message.
    """
    package, _, message = name.rpartition(".")
    fields: Mapping[str, Sequence[str]] = _package(package)[message]
    return fields


@cache
def message_of() -> Mapping[tuple[str, str], str]:
    """(apiVersion, kind) -> message, of the built-in kinds and their lists, options, Status and metadata alone."""
    found = {("v1", kind): META + kind for kind in _V1_KINDS}
    found.update({(f"meta.k8s.io/{version}", kind): META + kind for version in ("v1", "v1beta1") for kind in _META_KINDS})
    for kind in builtin_kinds():
        # The kinds that are not Kubernetes' own have no wire form.
        if kind.definition.startswith("io.k8s."):
            version = f"{kind.group}/{kind.version}" if kind.group else kind.version
            found[version, kind.kind] = kind.definition
            found[version, kind.list_kind] = kind.definition + "List"
    return found


@cache
def _package(name: str) -> Mapping[str, Any]:
    tables: Mapping[str, Any] = orjson.loads((_FOLDER / f"{name}.json").read_bytes())
    return tables
