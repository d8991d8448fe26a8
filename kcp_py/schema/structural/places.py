"""Where a value is inside an object, as a chain of steps.

Texts are only made for errors and dropped fields: names can be a megabyte long, and a walk visits many values below them.
"""

from __future__ import annotations

Path = tuple["Path", str] | None
"""The place of the container and the step from there, such as `.spec` or `[0]`; None is the object itself."""


def step(path: Path, name: str) -> Path:
    """The place of a field; the first one is written without a dot."""
    return (path, f".{name}" if path else name)


def render(path: Path) -> str:
    """The text of a path."""
    pieces = []
    while path is not None:
        path, piece = path
        pieces.append(piece)
    return "".join(reversed(pieces))
