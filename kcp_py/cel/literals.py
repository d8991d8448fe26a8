"""What literals must be, although their types fit (cel-go's AST validators, which Kubernetes turns on).

Constant durations, timestamps and patterns have to be readable, and the elements of a list or map literal of one type.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from kcp_py.cel.errors import Issue
from kcp_py.cel.syntax import Call, Constant, ListLiteral, MapLiteral, children
from kcp_py.cel.times import duration_of, timestamp_of
from kcp_py.golang.regexp import PatternError, check_pattern

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from kcp_py.cel.checked import Checked
    from kcp_py.cel.syntax import Expression
    from kcp_py.cel.types import Type

__all__ = ["literal_issues"]


def _is_pattern(text: str) -> bool:
    """Whether RE2 can read a pattern."""
    try:
        check_pattern(text)
    except PatternError:
        return False
    return True


# Function -> (where its text stands among receiver and arguments, what can read it).
_READERS: Final[dict[str, tuple[int, Callable[[str], object]]]] = {
    "duration": (0, lambda text: duration_of(text) is not None),
    "timestamp": (0, lambda text: timestamp_of(text) is not None),
    "matches": (1, _is_pattern),
}
_MIXING: Final = frozenset({"format"})


def literal_issues(checked: Checked) -> list[Issue]:
    """Everything that is wrong with the literals of a checked expression."""
    return list(_issues(checked))


def _issues(checked: Checked) -> Iterator[Issue]:
    """The problems of all literals, one after the other, without recursion."""
    pending: list[tuple[Expression, bool]] = [(checked.root, False)]
    while pending:
        node, mixing = pending.pop()
        match node:
            case Call():
                yield from _unreadable(node)
                mixing = node.function in _MIXING
            case ListLiteral() if not mixing:
                optional = frozenset(node.optional_indices)
                elements = [item for index, item in enumerate(node.elements) if index not in optional]
                yield from _mixed(checked, elements)
            case MapLiteral() if not mixing:
                yield from _mixed(checked, [entry.key for entry in node.entries])
                yield from _mixed(checked, [entry.value for entry in node.entries if not entry.optional])
        pending.extend((child, mixing and isinstance(child, ListLiteral | MapLiteral)) for child in children(node))


def _unreadable(node: Call) -> Iterator[Issue]:
    """A constant argument that its function cannot read."""
    place, readable = _READERS.get(node.function, (0, None))
    arguments = node.args if node.target is None else (node.target, *node.args)
    if readable is None or place >= len(arguments):
        return
    argument = arguments[place]
    if isinstance(argument, Constant) and isinstance(argument.value, str) and not readable(argument.value):
        yield Issue(f"invalid {node.function} argument", argument.position)


def _mixed(checked: Checked, nodes: Sequence[Expression]) -> Iterator[Issue]:
    """Elements of another type than the first; `dyn` goes with everything."""
    wanted = None
    for node in nodes:
        kind = checked.types[node.id]
        if wanted is None or wanted.kind == "dyn":
            wanted = kind
        elif not _alike(kind, wanted):
            yield Issue(f"expected type '{wanted}' but found '{kind}'", node.position)


def _alike(one: Type, other: Type) -> bool:
    """Whether two types differ only where one of them is `dyn`."""
    if "dyn" in {one.kind, other.kind} or one == other:
        return True
    return one.name == other.name and len(one.parameters) == len(other.parameters) and all(map(_alike, one.parameters, other.parameters))
