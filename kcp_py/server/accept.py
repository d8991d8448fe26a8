"""Accept headers, parsed as upstream's server does: its rules are neither RFC 9110's nor obvious, and clients rely on them.

Types are compared as written, blanks alone are cut off, a parameter without a value is dropped, quotes belong to the value, and `q=0` is a
preference and no refusal. Named types come before wildcards, independent of their quality.

Source: github.com/munnerz/goautoneg; for routes, github.com/emicklei/go-restful `route.go`.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

_QUALITY: Final = re.compile(r"[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]{1,9})?|[+-]?(?:inf|infinity)", re.ASCII | re.IGNORECASE)
_INSERTION_SORTED: Final = 12
"""Go's sort inserts one by one up to this number. The result depends on that, as the order of clauses is not a total one."""
_MAX_CLAUSES: Final = 256
"""More are not looked at: no client sends as many."""


class Clause(NamedTuple):
    """One of the alternatives."""

    type: str
    subtype: str
    quality: float
    parameters: Mapping[str, str]

    def includes(self, subtype: str) -> bool:
        """Whether `application/<subtype>` is accepted."""
        if self.type == "application":
            return self.subtype in {subtype, "*"}
        return self.type == "*" and self.subtype == "*"


def parse_accept(header: str) -> Sequence[Clause]:
    """The clauses of a header, the preferred one first."""
    clauses = [clause for part in header.split(",", _MAX_CLAUSES)[:_MAX_CLAUSES] if (clause := _parse(part.strip(" "))) is not None]
    if len(clauses) < 2:
        return clauses
    if len(clauses) > _INSERTION_SORTED:
        return sorted(clauses, key=lambda clause: (-clause.quality, clause.type == "*", clause.subtype == "*"))
    for start in range(1, len(clauses)):
        for at in range(start, 0, -1):
            if not _before(clauses[at], clauses[at - 1]):
                break
            clauses[at - 1], clauses[at] = clauses[at], clauses[at - 1]
    return clauses


def names_any_of(header: str, produced: Collection[str]) -> bool:
    """Whether a header names one of these media types, or `*/*`: what a route asks before its handler is called."""
    for part in header.split(","):
        media_type = part.partition(";")[0].strip(" ")
        if media_type == "*/*" or media_type in produced:
            return True
    return False


def _before(clause: Clause, other: Clause) -> bool:
    return clause.quality > other.quality or (clause.type != "*" and other.type == "*") or (clause.subtype != "*" and other.subtype == "*")


def _parse(text: str) -> Clause | None:
    media_type, *pairs = text.split(";")
    kind, *subtypes = media_type.split("/")
    kind = kind.strip(" ")
    match subtypes:
        case [] | [""] if kind == "*":
            subtype = "*"
        case [subtype] if subtype:
            subtype = subtype.strip(" ")
        case [subtype, ""] if subtype:
            subtype = subtype.strip(" ")
        case _:
            return None
    quality = 1.0
    parameters: dict[str, str] = {}
    for pair in pairs:
        name, *values = pair.split("=")
        if len(values) == 2 and not values[1]:
            values.pop()
        if len(values) != 1 or not values[0]:
            continue
        name = name.strip(" ")
        if name == "q":
            quality = float(values[0]) if _QUALITY.fullmatch(values[0]) else 0.0
        else:
            parameters[name] = values[0].strip(" ")
    return Clause(kind, subtype, quality, parameters)
