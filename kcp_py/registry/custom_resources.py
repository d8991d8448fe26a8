"""What custom resources have in common: the rules that their schemas do not hold, and the columns that their CRDs declare."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apimachinery.meta.objectmeta import finalizer_warnings
from kcp_py.apimachinery.meta.table import CUSTOM_RESOURCE_COLUMNS, NAME, UNKNOWN, Column, LastingCell, Plain, since
from kcp_py.golang.floats import format_float
from kcp_py.golang.json import go_json
from kcp_py.registry.scale import read_paths, replica_problems, status_problems
from kcp_py.registry.strategy import Strategy
from kcp_py.schema.jsonpath.parser import beginning_of, compile_path

_INT64_END: Final = 2**63
_USUAL_TYPES: Final[Mapping[str, type]] = {"string": str, "integer": int, "boolean": bool}
"""Type of a column -> type of the values that it shows unchanged."""
_USUAL_NAMES: Final = 2
"""Of an expression, as in `.spec.replicas`."""


class CustomResourceStrategy(Strategy):
    """The rules of custom resources that their schemas do not hold."""

    allow_unconditional_update = False
    checks_malformed = True

    def __init__(self, version: Mapping[str, Any]) -> None:
        """The rules of one version, as its CRD has it."""
        self._scale = read_paths((version.get("subresources") or {}).get("scale"))

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        """What `/scale` shows has to fit into it."""
        if self._scale is None:
            return []
        return [*replica_problems(obj, self._scale), *status_problems(obj, self._scale)]

    def validate_status_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        """An update through `/status` is not held to the replicas that are asked for elsewhere."""
        del old
        return status_problems(obj, self._scale) if self._scale is not None else []

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
        """Finalizers that others could mistake for theirs."""
        metadata = obj["metadata"]
        return finalizer_warnings(metadata, old["metadata"] if old else None) if "finalizers" in metadata else []


def printer_columns(columns: Sequence[Mapping[str, Any]] | None) -> tuple[Column, ...]:
    """The Table columns of a CRD version: the name, then those declared, or the age where none are."""
    if not columns:
        return CUSTOM_RESOURCE_COLUMNS
    return (NAME, *map(_column, columns))


def _column(document: Mapping[str, Any]) -> Column:
    description = document.get("description") or f"Custom resource definition column (in JSONPath format): {document['jsonPath']}"
    return Column(
        document["name"],
        document["type"],
        document.get("format", ""),
        description,
        document.get("priority", 0),
        _cell(document["type"], document["jsonPath"]),
    )


def _cell(column_type: str, json_path: str) -> LastingCell:
    names, complete = beginning_of(json_path)
    usual = _USUAL_TYPES.get(column_type)

    def printed(value: Any) -> Any:
        return value if value is None or type(value) is usual else _printed(value, column_type)

    show = _date if column_type == "date" else printed
    path = compile_path(json_path)

    def cell(obj: Mapping[str, Any]) -> Any:
        found = path(obj)
        return show(found[0]) if found else None

    if not complete or len(names) != _USUAL_NAMES:
        return LastingCell(cell, reads=(names,))
    return LastingCell(cell, reads=(names,), plain=Plain(*names, usual, show))


def _date(value: Any) -> Any:
    return since(value, "<invalid>") if type(value) is str and value != "null" else UNKNOWN if value == "null" else None


def _printed(value: Any, column_type: str) -> Any:
    """A value as its column's type shows it; null where the types do not agree.

    Source: k8s.io/apiextensions-apiserver `pkg/registry/customresource/tableconvertor`, and client-go's JSONPath for texts.
    """
    match column_type, value:
        case _, None:
            return None
        case "string", str():
            return value
        case "string", float():
            return format_float(value)
        case "string", dict() | list():
            return go_json(value, sort=True)
        case "string", _:
            return orjson.dumps(value).decode()
        case "boolean", bool():
            return value
        case _, bool():
            return None
        case "integer", int():
            return value
        case "integer", float():
            # Towards zero; what does not fit becomes the lowest number, as the processors do that upstream runs on.
            return int(value) if -_INT64_END <= value < _INT64_END else -_INT64_END
        case "number", int() | float():
            return value
        case _:
            return None
