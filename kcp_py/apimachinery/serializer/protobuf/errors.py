"""What goes wrong when protobuf is decoded or encoded."""

from __future__ import annotations

from typing import Any, Final


class ProtobufError(ValueError):
    """Bytes that are not such a message, or an object that does not fit one.

    The text is, for bytes, that of Go's generated decoders, for the caller to frame; for objects it begins with the path of the value.
    """


END: Final = "unexpected EOF"


class Misfit(Exception):  # noqa: N818  # never leaves this package
    """A value that does not fit its field, on its way up to where its path is known."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text
        self.path: list[str] = []

    def within(self, part: str) -> Misfit:
        """The error with the path from one level up."""
        self.path.append(part)
        return self

    def __str__(self) -> str:
        path = "".join(reversed(self.path)).removeprefix(".")
        return f"{path}: {self.text}" if path else self.text


_NAMES: Final = {bool: "a boolean", dict: "an object", float: "a number", int: "an integer", list: "an array", str: "a string"}


def found(value: Any) -> str:
    """The JSON type of a value in words."""
    return _NAMES.get(type(value), "null" if value is None else type(value).__name__)
