"""What cells of tables are made of: the same few ways to look into an object, whatever its kind.

Objects may be of the wrong types where they were stored under another definition of their kind: such a value is shown as nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.selectors import label_selector_of
from kcp_py.apimachinery.meta.table import Column, LastingCell, since
from kcp_py.apimachinery.quantity import canonical

Object = Mapping[str, Any]

NONE: Final = "<none>"
UNSET: Final = "<unset>"


def text(value: Any) -> str:
    """A text; empty for any other value."""
    return value if isinstance(value, str) else ""


def integer(value: Any) -> int:
    """A number; zero for any other value."""
    return value if isinstance(value, int) and not isinstance(value, bool) else 0


def at(obj: Any, *path: str) -> Any:
    """The value at a path; None where there is none."""
    for name in path:
        obj = obj.get(name) if isinstance(obj, Mapping) else None
    return obj


def object_at(obj: Any, *path: str) -> Object:
    """The object at a path; an empty one where there is none."""
    found = at(obj, *path)
    return found if isinstance(found, Mapping) else {}


def list_at(obj: Any, *path: str) -> Sequence[Any]:
    """The list at a path; an empty one where there is none."""
    found = at(obj, *path)
    return found if isinstance(found, list) else ()


def objects_at(obj: Any, *path: str) -> list[Object]:
    """The objects in the list at a path."""
    return [element for element in list_at(obj, *path) if isinstance(element, Mapping)]


def quantity(value: Any) -> str:
    """A quantity in its canonical form; other texts unchanged."""
    try:
        return canonical(value) if value is not None else "0"
    except (TypeError, ValueError):
        return text(value)


def joined(texts: Iterable[Any], none: str = "") -> str:
    """Texts with commas between them."""
    return ",".join(map(text, texts)) or none


Find = Callable[[Any], Any]
"""Gives the value of a cell, or a `Since`, from the object or from what several cells have in common."""
Path = tuple[str, ...]


def lasting(find: Find, *reads: Path, of: Callable[[Object], Any] | None = None) -> LastingCell:
    """A cell that changes only when its object does.

    Args:
        find: the function.
        reads: paths to all that the functions read; the whole object where none is given.
        of: what several cells have in common, for `find`.
    """
    return LastingCell(find, of=of, reads=reads or ((),))


def column(name: str, cell: Find | LastingCell, kind: str = "string", *, wide: bool = False) -> Column:
    """A column without a description, which kubectl does not print. A function other than a cell may read the whole object."""
    return Column(name, kind, "", "", int(wide), cell if isinstance(cell, LastingCell) else lasting(cell))


def count(*members: str) -> LastingCell:
    """A cell with the number of elements in fields of the object."""

    def find(obj: Object) -> int:
        return sum(len(obj.get(member) or ()) for member in members)

    return lasting(find, *((member,) for member in members))


def count_at(*path: str) -> LastingCell:
    """A cell with the number of elements of the list at a path."""
    return lasting(lambda obj: len(list_at(obj, *path)), path)


def field(*path: str, none: str = "") -> LastingCell:
    """A cell with the text at a path."""
    return lasting(lambda obj: text(at(obj, *path)) or none, path)


def number(*path: str) -> LastingCell:
    """A cell with the number at a path."""
    return lasting(lambda obj: integer(at(obj, *path)), path)


def flag(*path: str, missing: bool = False) -> LastingCell:
    """A cell with a boolean."""

    def find(obj: Object) -> bool:
        found = at(obj, *path)
        return found if isinstance(found, bool) else missing

    return lasting(find, path)


def age(*path: str, none: str = "") -> LastingCell:
    """A cell with the time since a timestamp."""

    def find(obj: Object) -> Any:
        found = at(obj, *path)
        return since(found) if found else none

    return lasting(find, path)


def labels_text(labels: Any) -> str:
    """Labels as a selector is written (`labels.FormatLabels`)."""
    if not isinstance(labels, Mapping):
        return NONE
    return ",".join(f"{key}={text(labels[key])}" for key in sorted(labels)) or NONE


def selector_text(selector: Any, *, none: str = NONE, wrong: str = "<error>") -> str:
    """A LabelSelector as it is written in queries (`metav1.FormatLabelSelector`)."""
    if not isinstance(selector, Mapping):
        return none
    try:
        return str(label_selector_of(selector)) or none
    except (AttributeError, StatusError, TypeError, ValueError):
        return wrong
