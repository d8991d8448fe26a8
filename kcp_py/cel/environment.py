"""What an expression may use: variables with their types, and the functions, macros and type names of libraries."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kcp_py.cel.declarations import Function

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from kcp_py.cel.declarations import Library, Macro, Overload
    from kcp_py.cel.types import Type

__all__ = ["Environment"]


class Environment:
    """An immutable set of declarations; expressions see nothing else.

    Attributes:
        variables: name -> type.
        functions: name -> function, with the overloads of all libraries in the order of the libraries.
        macros: (name, number of arguments or None for any, written on a receiver) -> macro.
        types: names that stand for types.
        matches: run-time classes of opaque values by the name of their type.
    """

    __slots__ = ("functions", "macros", "matches", "types", "variables")

    def __init__(self, variables: Mapping[str, Type], libraries: Sequence[Library]) -> None:
        """Join the libraries' declarations.

        Args:
            variables: name -> type.
            libraries: later ones add overloads to functions of earlier ones.

        Raises:
            ValueError: two libraries declare the same overload id or macro.
        """
        self.variables: Mapping[str, Type] = dict(variables)
        self.functions: Mapping[str, Function] = _join(function for library in libraries for function in library.functions)
        self.macros: Mapping[tuple[str, int | None, bool], Macro] = _macros(libraries)
        self.types: Mapping[str, Type] = {name: kind for library in libraries for name, kind in library.types.items()}
        self.matches: Mapping[str, type] = {name: kind for library in libraries for name, kind in library.matches.items()}

    def with_variables(self, variables: Mapping[str, Type]) -> Environment:
        """An environment with these libraries and other variables. It costs one small object."""
        other = Environment.__new__(Environment)
        other.variables = dict(variables)
        other.functions, other.macros, other.types, other.matches = self.functions, self.macros, self.types, self.matches
        return other


def _join(functions: Iterable[Function]) -> dict[str, Function]:
    """One function for each name."""
    overloads: dict[str, dict[str, Overload]] = {}
    for function in functions:
        known = overloads.setdefault(function.name, {})
        for overload in function.overloads:
            if overload.id in known:
                msg = f"overload {overload.id} of {function.name} is declared twice"
                raise ValueError(msg)
            known[overload.id] = overload
    return {name: Function(name, tuple(known.values())) for name, known in overloads.items()}


def _macros(libraries: Sequence[Library]) -> dict[tuple[str, int | None, bool], Macro]:
    """The macros of all libraries by the form of their call."""
    macros: dict[tuple[str, int | None, bool], Macro] = {}
    for library in libraries:
        for macro in library.macros:
            form = (macro.function, macro.arguments, macro.receiver)
            if form in macros:
                msg = f"macro {macro.function} is declared twice"
                raise ValueError(msg)
            macros[form] = macro
    return macros
