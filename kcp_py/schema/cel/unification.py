"""Which type may stand where another is wanted, and what type variables become (cel-go `checker/types.go`)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from kcp_py.schema.cel.types import DYN, Type, type_parameter

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Substitution", "has_parameters"]

_ANYTHING: Final = frozenset({"dyn", "error"})
_UNKNOWN: Final = frozenset({"dyn", "error", "parameter"})
_NULLABLE: Final = frozenset({"null", "object", "timestamp", "duration", "opaque"})


class Substitution:
    """What the type variables of one check stand for, as far as it is known; grows while the tree is walked."""

    __slots__ = ("_bound", "_fresh")

    def __init__(self) -> None:
        """Know nothing yet."""
        self._bound: dict[str, Type] = {}
        self._fresh = 0

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
        if not kind.parameters:
            return kind
        return replace(kind, parameters=tuple(self._renamed(inner, fresh) for inner in kind.parameters))

    def of(self, kind: Type, *, free_as_dyn: bool = False) -> Type:
        """`kind` with everything that is known put in.

        Args:
            kind: any type.
            free_as_dyn: variables that nothing is known of become `dyn`.
        """
        if kind.kind == "parameter":
            bound = self._bound.get(kind.name)
            if bound is not None:
                return self.of(bound, free_as_dyn=free_as_dyn)
            return DYN if free_as_dyn else kind
        if not kind.parameters or not any(map(has_parameters, kind.parameters)):
            return kind
        return replace(kind, parameters=tuple(self.of(inner, free_as_dyn=free_as_dyn) for inner in kind.parameters))

    def assign(self, given: Sequence[Type], wanted: Sequence[Type]) -> bool:
        """Whether values of the types `given` may stand where `wanted` are asked for; what that says of variables is kept if so."""
        if len(given) != len(wanted):
            return False
        before = dict(self._bound)
        if all(self._assignable(one, other) for one, other in zip(given, wanted, strict=True)):
            return True
        self._bound = before
        return False

    def join(self, known: Type | None, other: Type) -> Type:
        """The type of a thing that is `known` here and `other` there."""
        if known is None:
            return other
        if self.assign((known,), (other,)):
            if "null" in {known.kind, other.kind}:
                return other if known.kind == "null" else known
            return known if _is_as_general(self._resolved(known), self._resolved(other)) else other
        return DYN

    def _assignable(self, given: Type, wanted: Type) -> bool:
        """The rule for one pair; may bind variables."""
        given_variable, given = self._last(given)
        wanted_variable, wanted = self._last(wanted)
        if wanted.kind == "parameter":
            return self._bind(wanted, given)
        if given.kind == "parameter":
            return self._bind(given, wanted)
        if not self._fits(given, wanted):
            return False
        # A variable that was something narrower becomes what takes in both.
        if wanted_variable is not None and _is_as_general(given, wanted):
            self._bind(wanted_variable, given)
        elif given_variable is not None and _is_as_general(wanted, given):
            self._bind(given_variable, wanted)
        return True

    def _fits(self, given: Type, wanted: Type) -> bool:
        """The same for two types that are no variables."""
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
        variable = None
        while kind.kind == "parameter" and (bound := self._bound.get(kind.name)) is not None:
            variable, kind = kind, bound
        return variable, kind

    def _bind(self, variable: Type, kind: Type) -> bool:
        """Let an unbound variable stand for `kind`, unless it occurs in it."""
        if variable == kind:
            return True
        if self._occurs(variable, kind):
            return False
        self._bound[variable.name] = kind
        return True

    def _occurs(self, variable: Type, kind: Type) -> bool:
        """Whether `variable` is a part of `kind`."""
        kind = self._resolved(kind)
        return kind == variable or any(self._occurs(variable, inner) for inner in kind.parameters)


def _is_as_general(one: Type, other: Type) -> bool:
    """Whether `one` takes in everything that `other` does; both fit each other (cel-go `checker/types.go`, `isEqualOrLessSpecific`)."""
    if one.kind in _UNKNOWN:
        return True
    if other.kind in _UNKNOWN or one.kind != other.kind:
        return False
    return one.kind == "type" or all(map(_is_as_general, one.parameters, other.parameters))


def has_parameters(kind: Type) -> bool:
    """Whether a type variable is anywhere in a type."""
    return kind.kind == "parameter" or any(map(has_parameters, kind.parameters))
