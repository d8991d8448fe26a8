"""The types of merges: which maps and lists are merged part by part, and which keys identify the elements of lists."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

__all__ = ["ANYTHING", "BOOLEAN", "DEDUCED", "NUMERIC", "SCALAR", "STRING", "UNTYPED", "MergeType"]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class MergeType:
    """One type. Immutable; a type may refer to itself through `fields`.

    Attributes:
        kind: `scalar`, `map`, `list`, or `deduced`: the value decides; its maps are granular and its lists atomic.
        atomic: a map or list that is owned as a whole.
        fields: of a map: those that have types of their own.
        element: of a list, and of a map's other entries; None: scalar; each value is owned as a whole.
        list_type: of a list that is not atomic: `set` or `map`.
        keys: of a list of type `map`.
        key_defaults: the values of keys that an element leaves out.
        scalar: the type that an applied scalar must have: `string`, `numeric`, `boolean`, `untyped` (any of them); empty: any value.
    """

    kind: str
    atomic: bool = False
    fields: Mapping[str, MergeType] = field(default_factory=dict)
    element: MergeType | None = None
    list_type: str = ""
    keys: tuple[str, ...] = ()
    key_defaults: Mapping[str, Any] = field(default_factory=dict)
    scalar: str = ""


SCALAR: Final = MergeType(kind="scalar")
STRING: Final = MergeType(kind="scalar", scalar="string")
NUMERIC: Final = MergeType(kind="scalar", scalar="numeric")
BOOLEAN: Final = MergeType(kind="scalar", scalar="boolean")
UNTYPED: Final = MergeType(kind="scalar", scalar="untyped")
DEDUCED: Final = MergeType(kind="deduced")
ANYTHING: Final = MergeType(kind="deduced", atomic=True)
"""Whatever it is, it is owned as a whole."""
