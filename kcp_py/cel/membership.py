"""Which values are in a list, without comparing each with each where the values can be hashed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.equality import contains
from kcp_py.cel.errors import CostExceededError

if TYPE_CHECKING:
    from collections.abc import Hashable, Iterable

__all__ = ["Members"]

# To upstream, n elements cost 2n², and an evaluation has a million units.
_MOST_COMPOUND: Final = 1000


def _identity(value: object) -> Hashable | None:
    """A key that two scalars share exactly when they are equal; None: the value is not a scalar, or unequal to itself.

    Python's numbers hash and compare by what they stand for, as CEL's do, but its bools are numbers.
    """
    kind = type(value)
    if kind is bool:
        return (value,)
    if kind is list or kind is dict or (kind is float and value != value):  # noqa: PLR0124
        return None
    try:
        hash(value)
    except TypeError:
        return None
    return ("",) if value is None else value


class Members:
    """A growing collection of values that can be asked for one."""

    __slots__ = ("_compound", "_scalars")

    def __init__(self, values: Iterable[object] = ()) -> None:
        """Begin with `values`."""
        self._scalars: set[Hashable] = set()
        self._compound: list[object] = []
        for value in values:
            identity = _identity(value)
            if identity is None:
                self._compound.append(value)
            else:
                self._scalars.add(identity)

    def add(self, value: object) -> bool:
        """Take a value in; False: an equal one was there.

        Raises:
            CostExceededError: so many lists and maps were taken in that to compare one more with all of them is beyond every budget.
        """
        identity = _identity(value)
        if identity is None:
            if contains(value, self._compound):
                return False
            if len(self._compound) >= _MOST_COMPOUND:
                raise CostExceededError
            self._compound.append(value)
            return True
        before = len(self._scalars)
        self._scalars.add(identity)
        return len(self._scalars) > before

    def __contains__(self, value: object) -> bool:
        """Whether an equal value was taken in."""
        identity = _identity(value)
        return contains(value, self._compound) if identity is None else identity in self._scalars
