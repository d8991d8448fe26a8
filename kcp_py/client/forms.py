"""Names and values in the JSON of typed objects: fields in camelCase, bytes as base64, timedeltas as durations of Go."""

from __future__ import annotations

import base64
from datetime import timedelta
from typing import Final

from kcp_py.golang.durations import format_duration, parse_duration

_MICROSECOND: Final = 1_000
"""In nanoseconds."""
_LONGEST: Final = timedelta(microseconds=(2**63 - 1) // _MICROSECOND)


def camel_case(name: str) -> str:
    """The name of a field in camelCase: `replica_count` is `replicaCount`, and `from_` is `from`."""
    first, *others = name.strip("_").split("_")
    return first + "".join(part[:1].upper() + part[1:] for part in others)


def to_base64(value: bytes) -> str:
    """Bytes as text in JSON: the standard alphabet, with padding, as `encoding/json` of Go writes them."""
    return base64.b64encode(value).decode("ascii")


def to_duration(value: timedelta) -> str:
    """A timedelta as text in JSON, as Go prints a duration: `1h30m0s`.

    Raises:
        ValueError: it is longer than 292 years, which is the longest duration of Go.
    """
    if not -_LONGEST <= value <= _LONGEST:
        raise ValueError(f"{value} is longer than 292 years, the longest duration of Go")
    return format_duration(value // timedelta(microseconds=1) * _MICROSECOND)


def from_duration(text: str) -> timedelta:
    """A timedelta from its text in JSON. Parts of a microsecond are cut off.

    Raises:
        DurationError: it is not a duration of Go (`ValueError`).
    """
    nanoseconds = parse_duration(text)
    whole = abs(nanoseconds) // _MICROSECOND
    return timedelta(microseconds=whole if nanoseconds >= 0 else -whole)
