"""When two decoded JSON values are equal. Python alone would say so of true and 1.

Source: Go's `reflect.DeepEqual` on what its decoder makes of JSON; JSON patch (RFC 6902, section 4.6) and OpenAPI compare numbers by value.
"""

from __future__ import annotations

from typing import Any, Final

import orjson

__all__ = ["equal", "identical"]

_CONTAINERS: Final = frozenset({dict, list})


def equal(one: Any, other: Any) -> bool:
    """Whether two values are equal where numbers are compared by value: 1 equals 1.0, true does not equal 1."""
    kind = type(one)
    if kind is bool or type(other) is bool:
        return one is other
    if kind is dict:
        if one is other:
            return True
        return type(other) is dict and one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    if kind is list:
        return one is other or (type(other) is list and len(one) == len(other) and all(map(equal, one, other)))
    return bool(one == other)


def identical(one: Any, other: Any) -> bool:
    """Whether two values are the same JSON, whatever the order of keys: neither 1.0 nor true is the same as 1."""
    if type(one) is not type(other) or one != other:
        return False
    # What remains are numbers and booleans below maps and lists.
    return type(one) not in _CONTAINERS or orjson.dumps(one, option=orjson.OPT_SORT_KEYS) == orjson.dumps(
        other, option=orjson.OPT_SORT_KEYS
    )
