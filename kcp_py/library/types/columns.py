"""`Column`: a column of the Table form, which `kubectl get` prints."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

from kcp_py.library.types.fields import DefinitionError

_AGE: Final = ".metadata.creationTimestamp"
_TYPES: Final = {"integer": "integer", "number": "number", "boolean": "boolean", "string": "string"}


@dataclass(frozen=True)
class Column:
    """One column. Its name is the last field of the path by default, and its type that of the field."""

    path: str
    """JSONPath, such as `.spec.replicas`."""
    name: str = ""
    type: Literal["", "string", "integer", "number", "boolean", "date"] = ""
    format: str = ""
    description: str = ""
    priority: int = 0
    """Above 0: only `kubectl get -o wide` prints it."""


def column_document(column: Column | str, schema: Mapping[str, Any], place: str) -> dict[str, Any]:
    """An entry of `additionalPrinterColumns` of a CRD.

    Raises:
        DefinitionError: the schema does not have the field, and the column does not say its type.
    """
    column = Column(column) if isinstance(column, str) else column
    if not isinstance(column, Column):
        raise DefinitionError(f'{place}: the column {column!r} is neither a path nor a Column, such as Column(".spec.home", name="Home")')
    path = column.path
    name = column.name or ("Age" if path == _AGE else path.rpartition(".")[2][:1].upper() + path.rpartition(".")[2][1:])
    found: dict[str, Any] = {"jsonPath": path, "name": name, "type": column.type or _type(path, schema, place)}
    for member in ("format", "description", "priority"):
        if value := getattr(column, member):
            found[member] = value
    return found


def _type(path: str, schema: Mapping[str, Any], place: str) -> str:
    if path == _AGE:
        return "date"
    if path.startswith(".metadata."):
        return "string"
    found: Mapping[str, Any] | None = schema
    for name in path.lstrip(".").split("."):
        found = (found or {}).get("properties", {}).get(name)
    if found is None:
        raise DefinitionError(f"{place}: the column {path} is of no field; a column of another path needs a `name` and a `type`")
    return "date" if found.get("format") == "date-time" else _TYPES.get(found.get("type", ""), "string")
