"""The protobuf tables of the built-in kinds, read from `protobuf/*.json`, which `hack/update_protobuf_tables.py` writes and describes."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any, Final

import orjson

META: Final = "io.k8s.apimachinery.pkg.apis.meta.v1."
_FOLDER: Final = Path(__file__).parent / "protobuf"

Fields = Mapping[str, tuple[str, str, str]]
"""Field number -> (JSON name, type, rule)."""


def message_fields(name: str) -> Fields:
    """The fields of a message, such as `io.k8s.api.core.v1.ConfigMap`.

    Raises:
        KeyError: no such message.
    """
    package, _, message = name.rpartition(".")
    return {number: (member, _full(kind, package), rule) for number, (member, kind, rule) in _package(package)[message].items()}


@cache
def message_of() -> Mapping[tuple[str, str], str]:
    """(apiVersion, kind) -> message, of every kind that Kubernetes' own clients know, their lists, options, Status and metadata alone."""
    index: Mapping[str, Mapping[str, list[str]]] = _table("kinds")
    common = index["*"]
    return {
        (version, kind): message + kind if message.endswith(".") else message
        for version, of in index.items()
        if version != "*"
        for messages in (common, of)
        for message, kinds in messages.items()
        for kind in kinds
    }


def _full(kind: str, package: str) -> str:
    if kind.startswith("."):
        return package + kind
    if kind[:3] in {"[].", "{}."}:
        return kind[:2] + package + kind[2:]
    return kind


@cache
def _package(name: str) -> Mapping[str, Any]:
    try:
        tables: Mapping[str, Any] = _table(name)
    except FileNotFoundError:
        raise KeyError(name) from None
    return tables


def _table(name: str) -> Any:
    return orjson.loads((_FOLDER / f"{name}.json").read_bytes())
