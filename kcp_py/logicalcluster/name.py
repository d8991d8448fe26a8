"""`Name`, `Path` and `WILDCARD`, and the one parser for each."""

from __future__ import annotations

import re
from enum import Enum
from typing import Final, NewType, final

Name = NewType("Name", str)
"""The name of one logical cluster, already validated. Build it with `parse_name`."""

Path = NewType("Path", str)
"""A validated path of more than one segment that still has to be resolved to a `Name`. Build it with `parse_path`."""


@final
class Wildcard(Enum):
    """Every logical cluster at once: the type of the single value `WILDCARD`.

    An enumeration, because type checkers narrow `Name | Wildcard` by `is WILDCARD` only for the members of one.
    """

    WILDCARD = "*"

    # The hash of an enumeration is a function in Python, which the lookups of each request would call.
    __hash__ = object.__hash__

    def __str__(self) -> str:
        return "*"

    def __repr__(self) -> str:
        return "WILDCARD"


WILDCARD: Final = Wildcard.WILDCARD
ROOT: Final = Name("root")

ClusterSelection = Name | Wildcard
"""The target of a request after its path is resolved: one cluster or all of them."""

_SEGMENT: Final = r"[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?"
_PATH: Final = re.compile(rf"{_SEGMENT}(?::{_SEGMENT})*")
_SYSTEM_PREFIX: Final = "system:"


class InvalidClusterError(ValueError):
    """The text is not a cluster path. `str()` is the message for clients with status 400, worded as in kcp."""

    def __init__(self, text: str) -> None:
        super().__init__(f'invalid cluster: "{text}" does not match the regex')


def parse_path(text: str) -> Name | Path | Wildcard:
    """Parse the text between `/clusters/` and the next slash of a URL.

    Returns:
        `WILDCARD` for `*`, a `Name` for a single segment or a `system:` path, else a `Path`.

    Raises:
        InvalidClusterError: the text does not match kcp's path regex.
    """
    if text == "*":
        return WILDCARD
    if _PATH.fullmatch(text) is None:
        raise InvalidClusterError(text)
    if ":" not in text or text.startswith(_SYSTEM_PREFIX):
        return Name(text)
    return Path(text)


def parse_name(text: str) -> Name:
    """Parse the name of one logical cluster; paths and the wildcard are refused.

    Raises:
        InvalidClusterError: the text is not a name.
    """
    match parse_path(text):
        case str() as parsed if ":" not in parsed or is_system(parsed):
            return Name(parsed)
        case _:
            raise InvalidClusterError(text)


def is_system(name: str) -> bool:
    """Whether the name belongs to the server itself (`system:admin`): such clusters always exist."""
    return name.startswith(_SYSTEM_PREFIX)
