"""What a library declares: functions with typed overloads, macros, and the Python that runs them.

Overload ids are cel-go's: they key the cost tables and are the only names that survive checking.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from kcp_py.cel.syntax import Expression
    from kcp_py.cel.types import Type

__all__ = ["Function", "Library", "Macro", "Overload"]


@dataclass(frozen=True, slots=True)
class Overload:
    """One signature of a function.

    Attributes:
        id: cel-go's overload id, `starts_with_string`.
        parameters: the types of the arguments; of a member function the receiver comes first.
        result: the type of the value; may use the type parameters of `parameters`.
        member: called as `x.f(…)`; otherwise `f(x, …)`.
        implementation: takes run-time values (`values.py`) in the order of `parameters`, returns one, raises `EvaluationError`.
            None: the generator writes code of its own (`&&`, `?:`, comparisons of known types …).
    """

    id: str
    parameters: tuple[Type, ...]
    result: Type
    member: bool = False
    implementation: Callable[..., object] | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Function:
    """A name and all of its overloads; the overloads of one name from several libraries are joined."""

    name: str
    overloads: tuple[Overload, ...]


@dataclass(frozen=True, slots=True)
class Macro:
    """A call that the parser rewrites before anything is checked.

    Attributes:
        function: the name.
        arguments: how many; None: any number (`cel.bind` has three, `optMap` two).
        receiver: written `x.f(…)`; otherwise `f(…)`.
        expand: (parser's `Expander`, target, args) -> the tree in its place, or None where this is an ordinary call after all. Raises
            `parser.MacroError` with the node that is at fault.
    """

    function: str
    arguments: int | None
    receiver: bool
    expand: Callable[..., Expression | None] = field(compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Library:
    """One named set of functions, macros and constants that an environment can take in.

    Attributes:
        name: cel-go's or Kubernetes' name, `cel.lib.ext.strings`, `kubernetes.quantity`.
        functions: what it declares.
        macros: what it expands.
        types: names that are types in expressions (`net.IP`), with their type.
        matches: run-time classes of its opaque values by type name: how `dyn` arguments find their overload.
    """

    name: str
    functions: tuple[Function, ...] = ()
    macros: tuple[Macro, ...] = ()
    types: Mapping[str, Type] = field(default_factory=dict)
    matches: Mapping[str, type] = field(default_factory=dict)
