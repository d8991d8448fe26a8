"""Upstream's tables of structured-merge-diff: their types, sets of fields and objects, as this package has them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

import pytest
import yaml

from kcp_py.apimachinery.managedfields.fieldsets import FieldSet, key_element, union, value_element
from kcp_py.apimachinery.managedfields.types import DEDUCED, SCALAR, MergeType
from tests.corpus import CORPUS

FOLDER = "tables/go-tables/kubernetes-sigs+structured-merge-diff"


def tables(path: str) -> list[dict[str, Any]]:
    """All tables of one file."""
    assert CORPUS is not None
    found: list[dict[str, Any]] = json.loads((CORPUS / FOLDER / path).read_text())
    return found


def rows(path: str, function: str | None, name: str) -> Any:
    """The rows of one table."""
    return next(table["data"] for table in tables(path) if table["func"] == function and table["name"] == name)


def constants(path: str) -> dict[str, str]:
    """The texts that a file's tables refer to by name."""
    return {table["name"]: table["data"] for table in tables(path) if table.get("const")}


def document(text: Any) -> Any:
    """An object: YAML text, indented by tabs."""
    source = str(text or "").replace("\t", "  ")
    # Some rows close a brace too many, which upstream's parser does not see.
    return yaml.safe_load(source[:-1] if source.endswith("}}") and source.count("}") > source.count("{") else source)


class Schema:
    """The types of one schema of structured-merge-diff."""

    def __init__(self, text: str) -> None:
        self._types = {entry["name"]: entry for entry in yaml.safe_load(text.replace("\t", "  "))["types"]}
        self._known: dict[str, MergeType] = {}

    def named(self, name: str) -> MergeType:
        """A type by name; a recursive one refers to itself."""
        if name.startswith("__untyped_deduced"):
            return DEDUCED
        if name.startswith("__untyped_atomic"):
            return SCALAR
        if name not in self._known:
            fields: dict[str, MergeType] = {}
            body = self._types[name]
            if "map" in body and (element := (body["map"].get("elementType") or {}).get("namedType")) == name:
                known = MergeType(kind="map", fields=fields)
                object.__setattr__(known, "element", known)
                assert element == name
                self._known[name] = known
                return known
            self._known[name] = self._type(body)
        return self._known[name]

    def _type(self, body: Mapping[str, Any]) -> MergeType:
        if (name := body.get("namedType")) is not None:
            return self.named(name)
        if (shape := body.get("map")) is not None:
            fields = {field["name"]: self._type(field["type"]) for field in shape.get("fields") or ()}
            element = self._type(shape["elementType"]) if shape.get("elementType") else None
            return MergeType(kind="map", atomic=shape.get("elementRelationship") == "atomic", fields=fields, element=element)
        if (shape := body.get("list")) is not None:
            return self._list(shape)
        return SCALAR

    def _list(self, shape: Mapping[str, Any]) -> MergeType:
        element = self._type(shape["elementType"])
        if shape.get("elementRelationship") != "associative":
            return MergeType(kind="list", atomic=True, element=element)
        keys = tuple(shape.get("keys") or ())
        inner = shape["elementType"]
        inner = self._types[inner["namedType"]] if "namedType" in inner else inner
        defaults = {field["name"]: field["default"] for field in (inner.get("map") or {}).get("fields") or () if "default" in field}
        return MergeType(
            kind="list",
            list_type="map" if keys else "set",
            element=element,
            keys=keys,
            key_defaults={name: defaults[name] for name in keys if name in defaults},
        )


def element(part: Any) -> str:
    """One element of a path."""
    if isinstance(part, str):
        return f"f:{part}"
    if isinstance(part, int):
        return f"i:{part}"
    call, args = part["$call"].rpartition(".")[2], part["args"]
    if call == "FieldNameElement":
        return f"f:{args[0]}"
    if call == "IndexElement":
        return f"i:{args[0]}"
    if call == "KeyElement":
        return key_element({field["Name"]: value(field["Value"]) for field in args})
    if call in {"_KBF", "KeyByFields"}:
        return key_element({name: value(item) for name, item in zip(args[::2], args[1::2], strict=True)})
    if call in {"_V", "ValueElement"}:
        return value_element(value(args[0]))
    if call == "NewValueInterface":
        return value_element(value(part))
    raise AssertionError(part)


def value(part: Any) -> Any:
    """A value."""
    if isinstance(part, dict) and str(part.get("$call", "")).endswith("NewValueInterface"):
        return part["args"][0]
    return part


def field_set(literal: Any) -> FieldSet:
    """A set of paths."""
    result: FieldSet = {}
    for path in (literal or {}).get("args") or ():
        leaf: FieldSet = {}
        for part in reversed(path["args"]):
            leaf = {element(part): leaf}
        result = union(result, leaf)
    return result


def positions(path: str, function: str | None, name: str) -> Iterator[list[Any]]:
    """The cells of each row that is written without names."""
    for row in rows(path, function, name):
        yield row["$pos"]


def typed(path: str, name: str, cells: str) -> Iterator[tuple[str, MergeType, Any]]:
    """Each cell of a table, with its case's type."""
    named = constants(path)
    for case in rows(path, None, name):
        schema = case["schema"]
        if isinstance(schema, dict):
            schema = named[schema["args"][0]["$id"]]
        if "__untyped_separable_" in schema:
            continue  # a type that may be a granular list of anything: no schema of Kubernetes becomes one
        kind = Schema(schema).named(case["rootTypeName"])
        for number, row in enumerate(case[cells]):
            yield f"{case['name']}-{number}", kind, row


def deduced(function: str, name: str) -> Iterator[tuple[str, MergeType, Any]]:
    for number, row in enumerate(rows("typed/deduced_test.json", function, name)):
        yield f"deduced-{number}", DEDUCED, row


def parameters(found: Iterator[tuple[str, MergeType, Any]]) -> list[Any]:
    return [pytest.param(kind, row, id=name) for name, kind, row in found]
