"""Upstream's own cases for what schemas do to values, where the corpus is present."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from kcp_py.schema.structural.default import MAX_FILLED, Allowance, DefaultCompiler
from kcp_py.schema.structural.nodes import META_FIELDS, Node, read_schema
from kcp_py.schema.structural.predicate import PredicateCompiler
from kcp_py.schema.structural.prune import CleanCompiler, Pruner
from kcp_py.schema.structural.report import Reporter, structure_errors
from tests.corpus import needs_corpus
from tests.schema.go_tables import GoTable, NotLiteralError

pytestmark = needs_corpus

FOLDER = "pkg/apiserver/"


def positional(table: GoTable, function: str) -> Iterator[list[Any]]:
    for row in table.rows(function):
        yield row["$pos"]


def test_validation_of_values():
    """Verdicts, and where upstream gives them, whole messages."""
    table = GoTable(FOLDER + "validation/validation_test.json")
    values = 0
    for row in table.rows("TestValidateCustomResource"):
        if "XValidations" in json.dumps(row["schema"]):
            # CEL rules are not the schema's own.
            continue
        try:
            node = read_schema(table.value(row["schema"]))
        except NotLiteralError:
            continue
        is_valid = PredicateCompiler({}).child(node)[1]
        for valid in table.value(row.get("objects")) or ():
            assert is_valid(valid), row["name"]
            assert Reporter({}).report(node, valid) == []
            values += 1
        for failing in row.get("failingObjects") or ():
            if failing.get("oldObject") is not None:
                # About ratcheting.
                continue
            value = table.value(failing["object"])
            assert not is_valid(value), row["name"]
            found = [str(error) for error in Reporter({}).report(node, value)]
            assert sorted(failing["expectErrs"]) == sorted(found), row["name"]
            values += 1
    assert values > 60


def test_pruning():
    """Which fields are dropped, and how they are named."""
    table = GoTable(FOLDER + "schema/pruning/algorithm_test.json")
    rows = table.rows("TestPrune")
    for row in rows:
        value, expected = json.loads(row["json"]), json.loads(row["expectedObject"])
        if "schema" not in row:
            continue
        node = read_schema(table.structural(row["schema"]))
        # Of the fields of every object upstream's function passes over, as ours does at the root of a custom resource.
        skip = META_FIELDS if row["name"].startswith("x-kubernetes-embedded-resource") else frozenset[str]()
        pruner = Pruner({})
        clean = CleanCompiler({}, metadata=False).clean(node, skip=skip)(value)
        pruner.prune(node, value, skip=skip)
        # Upstream's function leaves metadata to another.
        named = [path for path in pruner.dropped(custom=True) if "metadata" not in path]
        assert sorted(named) == sorted(path for path in row.get("expectedPruned") or () if "metadata" not in path), row["name"]
        assert clean == (not named), row["name"]
        if not any("metadata" in path for path in pruner.dropped(custom=True)):
            assert value == expected, row["name"]


def defaulted(node: Node, value: Any) -> Any:
    fill = DefaultCompiler({}).compile(node)
    if fill is not None:
        fill(value, Allowance(MAX_FILLED))
    return value


def test_defaulting():
    """Which fields are filled, and which nulls replaced."""
    table = GoTable(FOLDER + "schema/defaulting/algorithm_test.json")
    cases = 0
    for name, text, schema, expected in positional(table, "TestDefault"):
        if schema is None:
            continue
        assert defaulted(read_schema(table.structural(schema)), json.loads(text)) == json.loads(expected), name
        cases += 1
    assert cases >= 11


def test_dropping_of_nulls():
    """Which nulls are dropped."""
    table = GoTable(FOLDER + "schema/defaulting/prunenulls_test.json")
    for name, text, schema, expected in positional(table, "TestPruneNonNullableNullsWithoutDefaults"):
        if schema is None or "efault" in json.dumps(schema):
            # Ours fills defaults in the same pass.
            continue
        assert defaulted(read_schema(table.structural(schema)), json.loads(text)) == json.loads(expected), name


def test_list_types():
    """Which repetitions are found."""
    table = GoTable(FOLDER + "schema/listtype/validation_test.json")
    cases = 0
    for row in table.rows("TestValidateListSetsAndMaps"):
        try:
            value, schema = table.value(row.get("obj")), table.structural(row.get("schema"))
            expected = {(literal["$call"], tuple(map(str, literal["args"]))) for literal in row.get("errors") or ()}
        except NotLiteralError:
            continue
        node = read_schema(schema)
        errors = structure_errors({}, node, value, "", list_types=True)
        assert len(errors) == len(expected), (row["name"], [str(error) for error in errors], expected)
        assert (errors == []) == PredicateCompiler({}).child(node)[1](value) or value is None or not schema, row["name"]
        cases += 1
    assert cases >= 12


def test_embedded_metadata():
    """Which embedded resources are refused, and for what."""
    table = GoTable(FOLDER + "schema/objectmeta/validation_test.json")
    for row in table.rows("TestValidate"):
        try:
            node = read_schema(table.structural(row.get("schema")))
        except NotLiteralError:
            continue
        if row.get("includeRoot"):
            continue
        found = {(error.reason, error.field) for error in structure_errors({}, node, json.loads(row["object"]), "", list_types=False)}
        expected = table.errors(row.get("errors"))
        if not row.get("schema"):
            continue
        assert found == expected, row["name"]
