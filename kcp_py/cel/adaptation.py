"""JSON as CEL sees it: what a declared type makes of a decoded value.

Objects stay as they are, their fields are adapted when they are selected; so most expressions adapt nothing at all.
"""

from __future__ import annotations

import base64
import binascii
import datetime as dt
from typing import TYPE_CHECKING, Any, Final

from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.times import duration_of, timestamp_of
from kcp_py.cel.values import Duration, Timestamp

if TYPE_CHECKING:
    from collections.abc import Callable

    from kcp_py.cel.types import Type

__all__ = ["adapter"]


def adapter(kind: Type) -> Callable[[Any], Any] | None:
    """The function that turns decoded JSON into a value of `kind`; None where JSON is used as it is.

    The function returns null and values that are CEL values already unchanged. It raises `EvaluationError` for text that cannot be read.
    """
    match kind.kind:
        case "list":
            return _elementwise(adapter(kind.element))
        case "map":
            return _valuewise(adapter(kind.value))
        case _:
            return _LEAVES.get(kind.kind)


def _elementwise(inner: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """A list whose elements have to be adapted."""
    if inner is None:
        return None
    return lambda value: value if value is None else [inner(item) for item in value]


def _valuewise(inner: Callable[[Any], Any] | None) -> Callable[[Any], Any] | None:
    """A map whose values have to be adapted."""
    if inner is None:
        return None
    return lambda value: value if value is None else {key: inner(item) for key, item in value.items()}


def _double(value: Any) -> Any:
    """JSON writes 1.0 as 1."""
    return float(value) if type(value) is int else value


def _timestamp(value: Any) -> Any:
    """RFC 3339, or a date alone."""
    if not isinstance(value, str):
        return value
    moment = timestamp_of(value)
    if moment is None:
        try:
            day = dt.date.fromisoformat(value)
        except ValueError as error:
            msg = f"Invalid date formatted string {value}"
            raise EvaluationError(msg) from error
        return Timestamp((day - _EPOCH).days * _DAY)
    return moment


def _duration(value: Any) -> Any:
    """Go's `time.ParseDuration`."""
    if not isinstance(value, str):
        return value
    length: Duration | None = duration_of(value)
    if length is None:
        msg = f"Invalid duration formatted string {value}"
        raise EvaluationError(msg)
    return length


def _bytes(value: Any) -> Any:
    """Base64."""
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError) as error:
        msg = f"Invalid byte formatted string {value[:40]}"
        raise EvaluationError(msg) from error


_EPOCH: Final = dt.date(1970, 1, 1)
_DAY: Final = 86_400 * 1_000_000_000
_LEAVES: Final[dict[str, Callable[[Any], Any]]] = {"double": _double, "timestamp": _timestamp, "duration": _duration, "bytes": _bytes}
