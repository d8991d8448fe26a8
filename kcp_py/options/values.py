"""`check_value`: whether a value that a program gives is one of its setting."""

from __future__ import annotations

import math
import types
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal, Union, get_args, get_origin

_WORDS: Final[dict[object, str]] = {
    bool: "True or False",
    int: "a whole number",
    float: "a number",
    str: "a text",
    Path: "a pathlib.Path",
    types.NoneType: "None",
}


def check_value(name: str, value: object, expected: Any, default: object) -> None:
    """Check a value of a setting.

    Args:
        name: of the setting.
        value: given by a program.
        expected: the type of the setting.
        default: its default value.

    Raises:
        TypeError: the value has another type.
        ValueError: the setting does not have it.
    """
    if get_origin(expected) is tuple and isinstance(value, str):
        raise TypeError(f"{name} is a sequence of texts, and not a text: {name}=[{value!r}]")
    if not _is(value, expected):
        choices = [one for one in _parts(expected) if get_origin(one) is Literal]
        error = ValueError if choices and isinstance(value, str) else TypeError
        raise error(f"{name} is {_described(expected)}, and not {value!r}")
    if isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} is a finite number, and not {value!r}")
    # The defaults below zero have a meaning of their own.
    if type(value) in {int, float} and value < 0 and not (isinstance(default, int | float) and value == default):  # type: ignore[operator]
        raise ValueError(f"{name} is not below zero: {value!r}")


def _parts(expected: Any) -> tuple[Any, ...]:
    return get_args(expected) if get_origin(expected) in {Union, types.UnionType} else (expected,)


def _is(value: object, expected: Any) -> bool:
    match get_origin(expected):
        case origin if origin in {Union, types.UnionType}:
            return any(_is(value, one) for one in get_args(expected))
        case origin if origin is Literal:
            return any(value == one and type(value) is type(one) for one in get_args(expected))
        case origin if origin is tuple:
            element = get_args(expected)[0]
            return isinstance(value, Sequence) and not isinstance(value, str | bytes) and all(_is(one, element) for one in value)
        case None if expected is float:
            return isinstance(value, int | float) and not isinstance(value, bool)
        case None if expected is int:
            return isinstance(value, int) and not isinstance(value, bool)
        case None:
            return isinstance(value, expected)
        case origin:
            return isinstance(value, origin)


def _described(expected: Any) -> str:
    parts: list[str] = []
    for one in _parts(expected):
        if get_origin(one) is Literal:
            parts += map(repr, get_args(one))
        elif get_origin(one) is tuple:
            parts.append(f"a sequence, each of it {_described(get_args(one)[0])}")
        else:
            parts.append(_WORDS.get(one, str(one)))
    return " or ".join(parts)
