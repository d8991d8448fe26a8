"""A checked expression: the tree, what each node has as its type, and what each name and call stands for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from kcp_py.cel.declarations import Overload
    from kcp_py.cel.environment import Environment
    from kcp_py.cel.syntax import Expression
    from kcp_py.cel.types import Type

__all__ = ["Checked"]


@dataclass(frozen=True, slots=True, eq=False)
class Checked:
    """The checker's result for an expression; immutable, so that estimate and generator can share it.

    Attributes:
        text: the source.
        environment: what it was checked in.
        root: the tree.
        types: node id -> type. `Type.max_size`, `list_type` and `list_keys` are kept where the node is a variable's or field's value.
        overloads: id of a call -> the overloads that can apply; several where arguments are `dyn`.
        names: id of an Identifier, or of a Select that is a qualified name -> the variable or type name it stands for. A node that is
            missing here is an ordinary selection.
    """

    text: str
    environment: Environment
    root: Expression
    types: Mapping[int, Type]
    overloads: Mapping[int, tuple[Overload, ...]]
    names: Mapping[int, str]

    @property
    def result(self) -> Type:
        """The type of the whole."""
        return self.types[self.root.id]
