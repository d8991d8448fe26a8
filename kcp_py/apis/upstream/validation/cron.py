"""Schedules of cron jobs: five fields, or a descriptor such as `@daily`.

Source: github.com/robfig/cron `parser.go`, whose texts these are.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from kcp_py.golang.quoting import go_quote

_DESCRIPTORS: Final = frozenset({"@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"})
_MONTHS: Final = {
    name: number for number, name in enumerate(("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"), 1)
}
_DAYS: Final = {name: number for number, name in enumerate(("sun", "mon", "tue", "wed", "thu", "fri", "sat"))}
_EVERY: Final = "@every "


class _Bounds(NamedTuple):
    low: int
    high: int
    names: Mapping[str, int] = {}


_FIELDS: Final = (_Bounds(0, 59), _Bounds(0, 23), _Bounds(1, 31), _Bounds(1, 12, _MONTHS), _Bounds(0, 6, _DAYS))


class _ScheduleError(Exception):
    pass


def schedule_problem(schedule: str) -> str:
    """The problem of a schedule; empty where it is valid."""
    text = schedule
    if text.startswith(("TZ=", "CRON_TZ=")):
        text = text.partition(" ")[2].strip()
    if text.startswith("@"):
        return "" if text in _DESCRIPTORS or text.startswith(_EVERY) else f"unrecognized descriptor: {text}"
    parts = text.split()
    if len(parts) != len(_FIELDS):
        return f"expected exactly {len(_FIELDS)} fields, found {len(parts)}: [{' '.join(parts)}]"
    try:
        for part, bounds in zip(parts, _FIELDS, strict=True):
            for expression in filter(None, part.split(",")):
                _check_range(expression, bounds)
    except _ScheduleError as error:
        return str(error)
    return ""


def _check_range(expression: str, bounds: _Bounds) -> None:
    """One of the values, ranges and steps between commas."""
    span, *steps = expression.split("/")
    ends = span.split("-")
    if ends[0] in {"*", "?"}:
        start, end = bounds.low, bounds.high
    else:
        start = _value(ends[0], bounds.names)
        if len(ends) > 2:
            raise _ScheduleError(f"too many hyphens: {expression}")
        end = _value(ends[1], bounds.names) if len(ends) == 2 else start
    if len(steps) > 1:
        raise _ScheduleError(f"too many slashes: {expression}")
    step = _number(steps[0]) if steps else 1
    if steps and len(ends) == 1:
        end = bounds.high
    if start < bounds.low:
        raise _ScheduleError(f"beginning of range ({start}) below minimum ({bounds.low}): {expression}")
    if end > bounds.high:
        raise _ScheduleError(f"end of range ({end}) above maximum ({bounds.high}): {expression}")
    if start > end:
        raise _ScheduleError(f"beginning of range ({start}) beyond end of range ({end}): {expression}")
    if step == 0:
        raise _ScheduleError(f"step of range should be a positive number: {expression}")


def _value(text: str, names: Mapping[str, int]) -> int:
    return names[text.lower()] if text.lower() in names else _number(text)


def _number(text: str) -> int:
    sign, digits = (text[0], text[1:]) if text[:1] in {"-", "+"} else ("", text)
    if not digits.isascii() or not digits.isdigit():
        raise _ScheduleError(f"failed to parse int from {text}: strconv.Atoi: parsing {go_quote(text)}: invalid syntax")
    number = int(sign + digits)
    if number < 0:
        raise _ScheduleError(f"negative number ({number}) not allowed: {text}")
    return number
