"""Statements and names of one Python function that is being written."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

__all__ = ["CodeWriter"]

# Python reads at most 200 parentheses inside one another.
_DEEPEST_EXPRESSION: Final = 30
_LONGEST_TEXT: Final = 60
_BUILTINS: Final[dict[str, object]] = {"iter": iter, "len": len}
"""All that generated code can reach by a name of its own, besides what it was given."""


class CodeWriter:
    """The lines so far, and the values that their names stand for.

    Attributes:
        lines: the statements.
        indent: spaces before the next one.
        blocks: loops and tries around the next one.

    Locals are `v1`, `v2` …, values `k0`, `k1` …, functions `f1`, `f2` …: no name of an expression is among them.
    """

    def __init__(self, given: Mapping[str, object]) -> None:
        """Begin with an empty body.

        Args:
            given: what the code may use under names of the caller's choice.
        """
        self.lines: list[str] = []
        self.indent = 1
        self.blocks = 0
        self._counter = 0
        self._globals: dict[str, object] = dict(given)
        self._constants: dict[int, str] = {}
        self._functions: list[str] = []

    def local(self) -> str:
        """A new name."""
        self._counter += 1
        return f"v{self._counter}"

    def line(self, text: str) -> None:
        """One statement."""
        self.lines.append(" " * self.indent + text)

    @contextmanager
    def block(self, head: str) -> Iterator[None]:
        """A compound statement around the lines that are written inside of the context."""
        self.line(head)
        counts = head.startswith(("for", "try", "except"))
        self.indent += 1
        self.blocks += counts
        before = len(self.lines)
        yield
        if len(self.lines) == before:
            self.line("pass")
        self.indent -= 1
        self.blocks -= counts

    def constant(self, value: object) -> str:
        """A name for a value that source cannot spell."""
        name = self._constants.get(id(value))
        if name is None:
            name = self._constants[id(value)] = f"k{len(self._constants)}"
            # Which also keeps the value, so that no other one has its id.
            self._globals[name] = value
        return name

    def literal(self, value: object) -> str:
        """A literal's spelling."""
        if value is None or type(value) in {bool, int} or (isinstance(value, str) and len(value) < _LONGEST_TEXT):
            return f"({value!r})" if type(value) is int and value < 0 else repr(value)
        return self.constant(value)

    def spilled(self, text: str) -> str:
        """An expression, through a local where it has become deep."""
        if text.count("(") + text.count("[") < _DEEPEST_EXPRESSION:
            return text
        name = self.local()
        self.line(f"{name} = {text}")
        return name

    def put(self, lines: Sequence[str]) -> None:
        """Add detached statements at the current depth."""
        if lines:
            shift = self.indent - (len(lines[0]) - len(lines[0].lstrip(" ")))
            self.lines.extend(" " * shift + line if shift >= 0 else line[-shift:] for line in lines)

    def outlined(self, parameters: str, write: Callable[[], str]) -> str:
        """A function of its own around an expression: Python limits how deep blocks stand inside one another.

        Args:
            parameters: its parameters, and what it is called with.
            write: writes what the expression needs, and returns it.
        """
        self._counter += 1
        name = f"f{self._counter}"
        state = self.lines, self.indent, self.blocks
        self.lines, self.indent, self.blocks = [], 1, 0
        text = write()
        self._functions.append("\n".join([f"def {name}({parameters}):", *self.lines, f" return {text}"]))
        self.lines, self.indent, self.blocks = state
        return f"{name}({parameters})"

    def function(self, parameters: str, result: str) -> Callable[..., object]:
        """All that was written, compiled.

        Args:
            parameters: of the function.
            result: the expression that it returns.
        """
        source = "\n".join([*self._functions, f"def expression({parameters}):", *self.lines, f" return {result}"])
        names = {**self._globals, "__builtins__": _BUILTINS}
        exec(compile(source, "<cel>", "exec"), names)  # noqa: S102 -- the source is made here, of names and literals only
        function: Callable[..., object] = names["expression"]  # type: ignore[assignment]
        return function
