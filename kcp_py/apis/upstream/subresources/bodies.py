"""The bodies of evictions and bindings, and the answer to them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.errors import DecodingError
from kcp_py.apimachinery.meta.decoding import mismatch

SUCCESS: Final[Mapping[str, Any]] = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}
"""To a create."""


def struct_at(obj: Mapping[str, Any], field: str, go_type: str) -> dict[str, Any]:
    """A struct in a body of a kind; empty where it is missing.

    Raises:
        DecodingError: 400, it has another type.
    """
    value = obj.get(field)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise DecodingError(obj["kind"], "v1", mismatch(value, f"{obj['kind']}.{field}", go_type))
    return value


def text_at(obj: Mapping[str, Any], field: str, name: str) -> str:
    """A text in a struct of a body; empty where it is missing.

    Raises:
        DecodingError: 400, it has another type.
    """
    value = struct_at(obj, field, "").get(name)
    if value is not None and not isinstance(value, str):
        raise DecodingError(obj["kind"], "v1", mismatch(value, f"{obj['kind']}.{field}.{name}", "string"))
    return value or ""
