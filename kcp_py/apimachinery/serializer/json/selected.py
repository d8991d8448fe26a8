"""Some members of JSON objects, decoded without the others, which are skipped in a fraction of the time and take no memory.

The values are those of `orjson.loads`, except for integers of more than 64 bits, which stay exact; `orjson.dumps` refuses them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import lru_cache
from itertools import takewhile
from typing import Any, Final, TypedDict

import msgspec

Path = tuple[str, ...]
"""The names of members, from the outermost object on."""
Raw = msgspec.Raw
"""A value as its bytes, for everything that takes a buffer."""
Decoder = Callable[[bytes | Raw], dict[str, Any]]
"""Decodes an object. A dict on the way to a path has no members but those that lead to a path; those that are missing are missing.

Raises:
    ValueError: not JSON, or a value on the way to a path is not an object.
    RecursionError: nested too deeply.
"""

_MOST_NAMES: Final = 4
"""Of a path that are looked for; the value behind them is decoded as a whole."""
_MOST_OBJECTS: Final = 16
"""On the way to paths; where there were more, the first members of all paths are decoded as a whole. An object takes 4 KB of a decoder."""
_MOST_DECODERS: Final = 128
"""That are kept. A usual one takes 13 KB, one with the most objects 100 KB."""


@lru_cache(maxsize=_MOST_DECODERS)
def decoder(paths: frozenset[Path], raw: str = "") -> Decoder:
    """Make a decoder, which takes about 100 us, and up to a millisecond for many paths.

    Args:
        paths: to the members that are decoded; the empty one to the object itself.
        raw: a member of the object that stays as its bytes, as a `Raw`. No path leads to it.
    """
    members = _tree(paths)
    if members is None:
        # The object itself, and the bytes of a member of it.
        return _with_raw(raw) if raw else msgspec.json.Decoder(dict[str, Any]).decode
    return msgspec.json.Decoder(_type_of(members, {raw: Raw} if raw else {})).decode


def _with_raw(raw: str) -> Decoder:
    whole = msgspec.json.Decoder(dict[str, Any]).decode
    only = msgspec.json.Decoder(_type_of({}, {raw: Raw})).decode

    def decode(document: bytes | Raw) -> dict[str, Any]:
        return {**whole(document), **only(document)}

    return decode


_Tree = dict[str, Any]
"""Name -> the tree of the members that are decoded; None for all."""


def _tree(paths: Collection[Path]) -> _Tree | None:
    """The tree of paths; None for all members."""
    # msgspec compares other names than those in ASCII with the wrong bytes: the object around them is decoded as a whole.
    paths = {tuple(takewhile(str.isascii, path[:_MOST_NAMES])) for path in paths}
    if () in paths:
        return None
    if len({path[:end] for path in paths for end in range(1, len(path))}) > _MOST_OBJECTS:
        return dict.fromkeys(path[0] for path in paths)
    tree: _Tree = {}
    for path in sorted(paths):
        at = tree
        *outer, last = path
        for name in outer:
            inner = at.setdefault(name, {})
            if inner is None:
                break
            at = inner
        else:
            at[last] = None
    return tree


def _type_of(tree: _Tree, others: dict[str, Any]) -> Any:
    members = {name: Any if inner is None else _type_of(inner, {}) for name, inner in tree.items()}
    return TypedDict("Members", {**members, **others}, total=False)  # type: ignore[operator]
