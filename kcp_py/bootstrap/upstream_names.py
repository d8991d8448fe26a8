"""Upstream kinds by the names that people give them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Final

from kcp_py.bootstrap.kinds import builtin_kinds
from kcp_py.bootstrap.upstream_kinds import UpstreamKind, upstream_kinds

ALL: Final = "all"
"""every upstream kind."""


class UnknownKindError(ValueError):
    """A name does not belong to an upstream kind; the message suggests similar names."""


def find_kinds(names: Iterable[str]) -> list[UpstreamKind]:
    """The kinds that names stand for, in every version of each, in the order of the names and without repetition.

    Args:
        names: of one kind as kubectl takes it (`pods`, `pod`, `Pod`, `po`, `deployments.apps`, `deployments.v1.apps`), of all kinds of a
            group (`*.apps`, `*.core`), or `all`.

    Raises:
        UnknownKindError: a name does not belong to an upstream kind.
    """
    found: dict[tuple[str, str, str], UpstreamKind] = {}
    for name in names:
        for kind in _find(name):
            found[kind.group, kind.version, kind.kind] = kind
    return list(found.values())


def is_served(name: str) -> bool:
    """Whether a name is of a kind that every cluster serves without being told to."""
    served = {
        written
        for kind in builtin_kinds()
        for short in (kind.plural, kind.singular, *kind.short_names)
        for written in (short, f"{short}.{kind.group or 'core'}")
    }
    return name.lower() in served


def _find(name: str) -> Sequence[UpstreamKind]:
    if name == ALL:
        return tuple(upstream_kinds().values())
    plain, _, group = name.lower().partition(".")
    if plain == "*":
        wanted = "" if group == "core" else group
        if kinds := [kind for kind in upstream_kinds().values() if kind.group == wanted]:
            return kinds
        groups = ", ".join(sorted({kind.group or "core" for kind in upstream_kinds().values()}))
        raise UnknownKindError(f'no known kind is in the group "{group}"; there are {groups}')
    if known := _by_name().get(name.lower()):
        return known
    if is_served(name):
        raise UnknownKindError(f"{name} is served by every cluster already")
    similar = difflib.get_close_matches(name.lower(), _by_name(), n=1)
    hint = f"; did you mean {similar[0]}?" if similar else ""
    raise UnknownKindError(f'"{name}" is not a kind of Kubernetes that can be installed{hint}')


@cache
def _by_name() -> Mapping[str, Sequence[UpstreamKind]]:
    """Every way to write each kind. No two kinds share one."""
    names: dict[str, list[UpstreamKind]] = {}
    for kind in upstream_kinds().values():
        group = kind.group or "core"
        for plain in {kind.plural, kind.singular, *kind.short_names}:
            for name in (plain, f"{plain}.{group}", f"{plain}.{kind.version}.{group}"):
                names.setdefault(name, []).append(kind)
    return names
