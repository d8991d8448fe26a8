"""Tables (`as=Table;g=meta.k8s.io`): columns, cells and rows for objects as `kubectl get` shows them.

Source: apimachinery `pkg/apis/meta/v1`, `pkg/util/duration`; apiserver `pkg/registry/rest/table.go`, `endpoints/handlers/response.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple

from kcp_py.apimachinery.meta import timestamps
from kcp_py.apimachinery.meta.partial import META_V1, partial_object_metadata

Cell = Callable[[Mapping[str, Any], float], Any]
"""The value of a column for an object; the second argument is now in unix seconds."""
IncludeObject = Literal["None", "Metadata", "Object"]
INCLUDE_OBJECT: Final = ("None", "Metadata", "Object")
"""The values of the query parameter `includeObject`; the empty text means Metadata."""

UNKNOWN: Final = "<unknown>"
_KNOWN_LENGTH: Final = 40
"""Characters of a time whose cell is cached."""

_MINUTE: Final = 60
_HOUR: Final = 60
_DAY: Final = 24
_YEAR: Final = 365

_NAME_DESCRIPTION: Final = (
    "Name must be unique within a namespace. Is required when creating resources, although some resources may allow a client to request "
    "the generation of an appropriate name automatically. Name is primarily intended for creation idempotence and configuration "
    "definition. Cannot be updated. More info: https://kubernetes.io/docs/concepts/overview/working-with-objects/names#names"
)
_CREATED_DESCRIPTION: Final = (
    "CreationTimestamp is a timestamp representing the server time when this object was created. It is not guaranteed to be set in "
    "happens-before order across separate operations. Clients may not set this value. It is represented in RFC3339 form and is in UTC.\n\n"
    "Populated by the system. Read-only. Null for lists. More info: "
    "https://git.k8s.io/community/contributors/devel/sig-architecture/api-conventions.md#metadata"
)


class Since(NamedTuple):
    """A cell that shows the time since a moment, as `human_duration` writes it, possibly between other texts."""

    moment: str
    """A time that `parse_time` takes."""
    before: str = ""
    behind: str = ""

    def shown(self, now: float) -> str:
        """The text at a time in unix seconds."""
        return f"{self.before}{shown_since(self.moment, now)}{self.behind}"


class Plain(NamedTuple):
    """A cell that shows a member of a member, which tables find for many objects at once."""

    first: str
    """The name of the outer member; the value is missing where this is not an object."""
    second: str
    usual: type | None
    """The type of values that are shown as they are."""
    show: Callable[[Any], Any]
    """Shows any other value; None for a missing one.

    Raises:
        LookupError: the cell has to be found by `LastingCell.find`.
    """


class LastingCell:
    """A `Cell` that changes only when its object does, except for the age that it may be. Lists keep such cells with their objects."""

    __slots__ = ("find", "of", "plain", "reads")

    def __init__(
        self,
        find: Callable[[Any], Any],
        *,
        of: Callable[[Mapping[str, Any]], Any] | None = None,
        reads: Iterable[tuple[str, ...]] = ((),),
        plain: Plain | None = None,
    ) -> None:
        """A cell by a function of the object alone.

        Args:
            find: gives the value, or a `Since`, from the object or from the result of `of`.
            of: what several cells of a row have in common, worked out once for them in lists.
            reads: paths to all members that both functions look at; the empty one for the object itself. Lists leave out other members.
            plain: another way to find the same.
        """
        self.find = find
        self.of = of
        self.reads = frozenset(reads)
        self.plain = plain

    def __call__(self, obj: Mapping[str, Any], now: float) -> Any:
        found = self.find(obj if self.of is None else self.of(obj))
        return found.shown(now) if type(found) is Since else found


class Column(NamedTuple):
    """One column of a table."""

    name: str
    type: str
    """An OpenAPI type: string, integer, number, boolean, date."""
    format: str
    description: str
    priority: int
    """0 is always shown, anything greater only in wide output."""
    cell: Cell


def human_duration(seconds: float) -> str:
    """A duration with two or three significant figures, as `duration.HumanDuration`."""
    # Go cuts towards zero; two seconds in the future count as clocks that disagree.
    whole = int(seconds)
    if whole < 0:
        return "<invalid>" if whole < -1 else "0s"
    if whole < _MINUTE * 2:
        return f"{whole}s"
    minutes = whole // _MINUTE
    if minutes < 10:
        rest = whole % _MINUTE
        return f"{minutes}m{rest}s" if rest else f"{minutes}m"
    if minutes < _HOUR * 3:
        return f"{minutes}m"
    hours = minutes // _HOUR
    if hours < 8:
        rest = minutes % _HOUR
        return f"{hours}h{rest}m" if rest else f"{hours}h"
    if hours < _DAY * 2:
        return f"{hours}h"
    days = hours // _DAY
    if days < 8:
        rest = hours % _DAY
        return f"{days}d{rest}h" if rest else f"{days}d"
    if days < _YEAR * 2:
        return f"{days}d"
    years = days // _YEAR
    if years < 8:
        rest = days % _YEAR
        return f"{years}y{rest}d" if rest else f"{years}y"
    return f"{years}y"


def since(timestamp: Any, invalid: str = UNKNOWN) -> Since | str:
    """The cell with the time since an RFC 3339 `timestamp`: `<unknown>` when there is none, `invalid` for another text."""
    if type(timestamp) is not str or len(timestamp) > _KNOWN_LENGTH:
        return _since(timestamp, invalid)
    return _known_since(timestamp, invalid)


def _since(timestamp: Any, invalid: str) -> Since | str:
    if not timestamp or not isinstance(timestamp, str):
        return UNKNOWN
    try:
        timestamps.parse_time(timestamp)
    except ValueError:
        return invalid
    return Since(timestamp)


_known_since: Final = lru_cache(maxsize=1024)(_since)
"""The cells of usual times: many objects are made in the same seconds."""


def shown_since(moment: str, now: float) -> str:
    """The text of a `Since`."""
    return human_duration(now - timestamps.parse_time(moment))


def age_of(timestamp: Any, now: float) -> str:
    """The time since an RFC 3339 `timestamp`; `<unknown>` when there is none."""
    if not timestamp or not isinstance(timestamp, str):
        return UNKNOWN
    try:
        return shown_since(timestamp, now)
    except ValueError:
        return UNKNOWN


def _name(obj: Mapping[str, Any]) -> Any:
    return obj["metadata"].get("name", "")


def _age(obj: Mapping[str, Any]) -> Any:
    return since(obj["metadata"].get("creationTimestamp"))


def _created_at(obj: Mapping[str, Any]) -> Any:
    return obj["metadata"].get("creationTimestamp") or UNKNOWN


def _refused(value: Any) -> Any:
    raise LookupError(value)


_NAME: Final = ("metadata", "name")
_CREATED: Final = ("metadata", "creationTimestamp")
name_cell: Final = LastingCell(_name, reads=(_NAME,), plain=Plain(*_NAME, str, _refused))
"""The name of the object."""
age_cell: Final = LastingCell(_age, reads=(_CREATED,), plain=Plain(*_CREATED, None, since))
"""The time since the creation of the object, such as `5d`."""
created_at_cell: Final = LastingCell(_created_at, reads=(_CREATED,))
"""The time of the creation of the object, in RFC 3339."""

NAME: Final = Column("Name", "string", "name", _NAME_DESCRIPTION, 0, name_cell)
AGE: Final = Column("Age", "string", "", _CREATED_DESCRIPTION, 0, age_cell)
"""The age column of built-in kinds."""
CUSTOM_RESOURCE_AGE: Final = Column("Age", "date", "", _CREATED_DESCRIPTION, 0, age_cell)
"""The age column of custom resources without printer columns."""
CREATED_AT: Final = Column("Created At", "date", "", _CREATED_DESCRIPTION, 0, created_at_cell)
"""The second column of kinds without a printer."""
DEFAULT_COLUMNS: Final = (NAME, CREATED_AT)
CUSTOM_RESOURCE_COLUMNS: Final = (NAME, CUSTOM_RESOURCE_AGE)


def column_definitions(columns: Iterable[Column]) -> list[dict[str, Any]]:
    """The `columnDefinitions` of a Table."""
    return [
        {
            "name": column.name,
            "type": column.type,
            "format": column.format,
            "description": column.description,
            "priority": column.priority,
        }
        for column in columns
    ]


def table_row(
    obj: Mapping[str, Any],
    columns: Sequence[Column],
    now: float,
    *,
    include_object: IncludeObject = "Metadata",
    api_version: str = META_V1,
) -> dict[str, Any]:
    """One row. `obj` must carry its kind and apiVersion when `include_object` is Object."""
    included: Any = None
    if include_object == "Metadata":
        included = partial_object_metadata(obj, api_version)
    elif include_object == "Object":
        included = obj
    return {"cells": [column.cell(obj, now) for column in columns], "object": included}


def table_rows(
    objects: Iterable[Mapping[str, Any]],
    columns: Sequence[Column],
    now: float,
    *,
    include_object: IncludeObject = "Metadata",
    api_version: str = META_V1,
) -> list[dict[str, Any]]:
    """A row for each object."""
    return [table_row(obj, columns, now, include_object=include_object, api_version=api_version) for obj in objects]


def object_table(
    obj: Mapping[str, Any],
    columns: Sequence[Column],
    *,
    now: float,
    include_object: IncludeObject = "Metadata",
    api_version: str = META_V1,
    headers: bool = True,
) -> dict[str, Any]:
    """The Table of one object, also for watch events, of which only the first has `headers`."""
    version = obj["metadata"].get("resourceVersion")
    return {
        "kind": "Table",
        "apiVersion": api_version,
        "metadata": {"resourceVersion": version} if version else {},
        "columnDefinitions": column_definitions(columns) if headers else None,
        "rows": [table_row(obj, columns, now, include_object=include_object, api_version=api_version)],
    }
