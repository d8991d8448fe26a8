"""JSON merge patch (RFC 7386), as evanphx/json-patch v4 applies it.

Beyond the RFC, and as upstream: nulls are also dropped from objects inside lists, where the list is new or replaces a value that is not a
object.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcp_py.apimachinery import errors
from kcp_py.golang.types import json_type


def apply(original: Mapping[str, Any], patch: Any) -> dict[str, Any]:
    """A new object with the patch merged in; both arguments are decoded JSON, nested no deeper than decoders allow, and are not changed.

    Raises:
        StatusError: 400, the patch is not an object.
    """
    if patch is None:
        raise errors.bad_request("Invalid JSON Patch")
    if not isinstance(patch, dict):
        raise errors.bad_request(
            f"error decoding patch: json: cannot unmarshal {json_type(patch)} into Go value of type map[string]interface {{}}"
        )
    return _merge(original, patch)


def _merge(original: Mapping[str, Any], patch: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(original)
    for key, value in patch.items():
        if value is None:
            merged.pop(key, None)
            continue
        current = merged.get(key)
        if type(value) is dict and type(current) is dict:
            merged[key] = _merge(current, value)
        elif type(current) is dict:
            merged[key] = value
        else:
            merged[key] = without_nulls(value)
    return merged


def without_nulls(value: Any) -> Any:
    """A decoded value without the null members of its objects. Nulls in lists stay."""
    if type(value) is dict:
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if type(value) is list:
        return [without_nulls(item) for item in value]
    return value
