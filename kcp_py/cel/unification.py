"""Which type may stand where another is wanted, and what type variables become (cel-go `checker/types.go`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.types import DYN, Type, type_parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Substitution", "TypeTooLargeError"]

_ANYTHING: Final = frozenset({"dyn", "error"})
_UNKNOWN: Final = frozenset({"dyn", "error", "parameter"})
_NULLABLE: Final = frozenset({"null", "object", "timestamp", "duration", "opaque"})
_LARGEST: Final = 500
"""Types inside one type. A loop's variable doubles it with each loop that uses the variable twice."""
_MOST_STEPS: Final = 1_000_000
_LONGEST_CHAIN: Final = 2


class TypeTooLargeError(Exception):
    """Types have become so large that what remains to be compared is out of proportion to the text."""


class Substitution:
    """What the type variables of one check stand for, as far as it is known; grows while the tree is walked.

    Every method raises `TypeTooLargeError` when a type has more than `_LARGEST` parts, or all walks together took `_MOST_STEPS`.

    Attributes:
        steps: how many types were looked at.
    """

    __slots__ = ("_bound", "_fresh", "_replaced", "steps")

    def __init__(self) -> None:
        """Know nothing yet."""
        self._bound: dict[str, Type] = {}
        self._fresh = 0
        # What bindings were before the assignment that is being tried, to be put back when it fails.
        self._replaced: list[tuple[str, Type | None]] = []
        self.steps = 0

    def variable(self) -> Type:
        """A new type variable."""
        self._fresh += 1
        return type_parameter(f"_var{self._fresh}")

    def instance(self, signature: Sequence[Type]) -> tuple[Type, ...]:
        """The types of a generic signature with new variables for its parameters."""
        fresh: dict[str, Type] = {}
        return tuple(self._renamed(kind, fresh) for kind in signature)

    def _renamed(self, kind: Type, fresh: dict[str, Type]) -> Type:
        """`kind` with the variables of one instance."""
        if kind.kind == "parameter":
            if kind.name not in fresh:
                fresh[kind.name] = self.variable()
            return fresh[kind.name]
        if not kind.generic:
            return kind
        return kind.with_parameters(tuple([self._renamed(inner, fresh) for inner in kind.parameters]))

    def of(self, kind: Type, *, free_as_dyn: bool = False) -> Type:
        """`kind` with everything that is known put in.

        Args:
            kind: any type.
            free_as_dyn: unbound variables become `dyn`.
        """
        if not kind.generic:
            return kind
        self._step()
        kind = self._resolved(kind)
        if kind.kind == "parameter":
            return DYN if free_as_dyn else kind
        if not kind.generic:
            return kind
        return self.checked(kind.with_parameters(tuple([self.of(inner, free_as_dyn=free_as_dyn) for inner in kind.parameters])))

    def checked(self, kind: Type) -> Type:
        """A type that was made of others, unless it is too large."""
        if kind.size > _LARGEST:
            raise TypeTooLargeError
        return kind

    def _step(self) -> None:
        """Count one look at a type."""
        self.steps += 1
        if self.steps > _MOST_STEPS:
            raise TypeTooLargeError

    def assign(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Whether values of the types `given` can be used as `wanted`. If so, the types found for variables are kept."""
        if len(given) != len(wanted):
            return False
        self._replaced.clear()
        for one, other in zip(given, wanted, strict=True):
            if not self._assignable(one, other):
                self._put_back()
                return False
        return True

    def _put_back(self) -> None:
        """Remove the bindings since the assignment began."""
        for name, kind in reversed(self._replaced):
            if kind is None:
                del self._bound[name]
            else:
                self._bound[name] = kind

    def _set(self, name: str, kind: Type) -> None:
        """Bind a variable so that it can be undone."""
        self._replaced.append((name, self._bound.get(name)))
        self._bound[name] = kind

    def join(self, known: Type | None, other: Type) -> Type:
        """The type of a thing that is `known` here and `other` there."""
        if known is None:
            return other
        if self.assign((known,), (other,)):
            if "null" in {known.kind, other.kind}:
                return other if known.kind == "null" else known
            return known if self._is_as_general(self._resolved(known), self._resolved(other)) else other
        return DYN

    def _assignable(self, given: Type, wanted: Type) -> bool:
        """The rule for one pair; may bind variables."""
        self._step()
        if given is wanted and not given.generic:
            return True
        given_variable, given = self._last(given)
        wanted_variable, wanted = self._last(wanted)
        if wanted.kind == "parameter":
            return self._bind(wanted, given)
        if given.kind == "parameter":
            return self._bind(given, wanted)
        if not self._fits(given, wanted):
            return False
        # A variable that was something narrower becomes what takes in both.
        if wanted_variable is not None and self._is_as_general(given, wanted):
            self._bind(wanted_variable, given)
        elif given_variable is not None and self._is_as_general(wanted, given):
            self._bind(given_variable, wanted)
        return True

    def _fits(self, given: Type, wanted: Type) -> bool:
        """Whether a value of one type can be used as another type; neither is a variable."""
        if given.kind in _ANYTHING or wanted.kind in _ANYTHING:
            return True
        if given.kind == "null":
            return wanted.kind in _NULLABLE
        if wanted.kind == "null":
            return given.kind in _NULLABLE
        if given.kind != wanted.kind:
            return False
        if given.kind == "type":
            return True
        if given.name != wanted.name or len(given.parameters) != len(wanted.parameters):
            return False
        return all(self._assignable(one, other) for one, other in zip(given.parameters, wanted.parameters, strict=True))

    def _resolved(self, kind: Type) -> Type:
        """What a variable is bound to, however many variables are between."""
        return self._last(kind)[1]

    def _last(self, kind: Type) -> tuple[Type | None, Type]:
        """The last variable of a chain, and what it is bound to; no variable where there is no chain."""
        variable, first, length = None, kind, 0
        while kind.kind == "parameter" and (bound := self._bound.get(kind.name)) is not None:
            variable, kind, length = kind, bound, length + 1
        if length > _LONGEST_CHAIN and variable is not None:
            self._shorten(first, variable)
        return variable, kind

    def _shorten(self, first: Type, last: Type) -> None:
        """Let all variables of a chain lead to the last one, so that no chain is followed twice."""
        while first is not last:
            following = self._bound[first.name]
            self._set(first.name, last)
            first = following

    def _bind(self, variable: Type, kind: Type) -> bool:
        """Let an unbound variable stand for `kind`, unless it occurs in it."""
        if variable == kind:
            return True
        if self._occurs(variable, kind):
            return False
        self._set(variable.name, kind)
        return True

    def _occurs(self, variable: Type, kind: Type) -> bool:
        """Whether `variable` is a part of `kind`."""
        if not kind.generic:
            return False
        self._step()
        kind = self._resolved(kind)
        if kind.kind == "parameter":
            return kind.name == variable.name
        return any(self._occurs(variable, inner) for inner in kind.parameters)

    def _is_as_general(self, one: Type, other: Type) -> bool:
        """Whether `one` takes in everything that `other` does; both fit each other (cel-go `checker/types.go`, `isEqualOrLessSpecific`)."""
        self._step()
        if one is other or one.kind in _UNKNOWN:
            return True
        if other.kind in _UNKNOWN or one.kind != other.kind:
            return False
        return one.kind == "type" or all(map(self._is_as_general, one.parameters, other.parameters))
