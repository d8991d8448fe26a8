"""JSON as Go's `encoding/json` writes it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final

import orjson

_SMALLEST_PLAIN: Final = 1e-6
_LARGEST_PLAIN: Final = 1e21
# Go's encoder keeps its output harmless inside of HTML.
_HTML: Final = {ord(character): f"\\u{ord(character):04x}" for character in "<>&\u2028\u2029"}


def go_json(value: Any, *, sort: bool = False) -> str:
    """A value as Go's `json.Marshal` prints it; `sort`: as a map, whose keys come in order, not as a struct."""
    if _has_floats(value):
        return _encode(value, sort=sort).translate(_HTML)
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS if sort else None, default=str).decode().translate(_HTML)


def _has_floats(value: Any) -> bool:
    pending = [value]
    while pending:
        current = pending.pop()
        if type(current) is float:
            return True
        if type(current) is dict:
            pending.extend(current.values())
        elif type(current) is list:
            pending.extend(current)
    return False


def _encode(value: Any, *, sort: bool) -> str:
    """JSON with the doubles that Go writes."""
    if type(value) is float:
        return _json_float(value)
    if type(value) is list:
        return f"[{','.join([_encode(part, sort=sort) for part in value])}]"
    if type(value) is dict:
        members = sorted(value.items()) if sort else value.items()
        return "{" + ",".join([f"{orjson.dumps(name).decode()}:{_encode(part, sort=sort)}" for name, part in members]) + "}"
    return orjson.dumps(value, default=str).decode()


def _json_float(value: float) -> str:
    """The fewest digits that read back the same; whole numbers have no point, an exponent comes below 1e-6 and from 1e21."""
    shown = Decimal(repr(value)).normalize()
    return f"{shown:e}" if value and not _SMALLEST_PLAIN <= abs(value) < _LARGEST_PLAIN else f"{shown:f}"
