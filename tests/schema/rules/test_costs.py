"""What rules are estimated to cost for the sizes that their schemas give: upstream's own cases, where the corpus is present."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from kcp_py.cel.estimate import estimate
from kcp_py.cel.limits import EXPRESSION_ESTIMATE_LIMIT, TotalEstimate
from kcp_py.cel.values import UINT_MAX
from tests.corpus import needs_corpus
from tests.schema.go_tables import GoTable
from tests.schema.reading import compile_tree
from tests.schema.rules.go_schemas import CelTable, Schema, lists, objects, primitive, with_rule

TABLE = "pkg/apiserver/schema/cel/compilation_test.json"
DEFINITIONS = "pkg/apis/apiextensions/validation/validation_test.json"

Sized = Callable[[int | None], Schema]

RECORD = {**objects({"required": primitive("string"), "optional": primitive("string")}), "required": ["required"]}


def typed(name: str) -> Schema:
    """What upstream's generators call a type: one of JSON's, a format of texts, or both a number and a text."""
    if name == "int-or-string":
        return {"x-kubernetes-int-or-string": True}
    return primitive("string", name) if name in {"duration", "date", "date-time"} else primitive(name)


def mapping(values: Schema) -> Schema:
    return {"type": "object", "additionalProperties": values}


def limited(schema: Schema, limit: int | None) -> Schema:
    """A schema with a limit of the sort that its type has."""
    keyword = {"array": "maxItems", "object": "maxProperties"}.get(schema.get("type", ""), "maxLength")
    return schema if limit is None else {**schema, keyword: limit}


def ruled(schema: Schema, rule: str) -> Sized:
    return lambda limit: with_rule(limited(schema, limit), rule)


def texts(rule: str) -> Sized:
    """A list of texts: both are limited."""
    return lambda limit: with_rule(limited(lists("atomic", None, limited(primitive("string"), limit)), limit), rule)


GENERATORS: dict[str, Callable[..., Sized]] = {
    "genArrayWithRule": lambda kind, rule: ruled(lists("atomic", None, typed(kind)), rule),
    "genArrayOfArraysWithRule": lambda kind, rule: ruled(lists("atomic", None, lists("atomic", None, typed(kind))), rule),
    "genObjectArrayWithRule": lambda rule: ruled(lists("atomic", None, RECORD), rule),
    "getMapArrayWithRule": lambda kind, rule: ruled(lists("atomic", None, mapping(typed(kind))), rule),
    "genMapWithRule": lambda kind, rule: ruled(mapping(typed(kind)), rule),
    "genMapWithCustomItemRule": lambda values, rule: ruled(mapping(values), rule),
    "genStringWithRule": lambda rule: ruled(primitive("string"), rule),
    "genBytesWithRule": lambda rule: ruled(primitive("string", "byte"), rule),
    "genEnumWithRuleAndValues": lambda rule, *values: ruled({**primitive("string"), "enum": list(values)}, rule),
    "genNestedSpecWithRule": lambda rule: lambda limit: with_rule(limited(mapping(limited(primitive("string"), limit)), limit), rule),
    "genAllMaxNestedSpecWithRootRule": lambda rule: (
        lambda limit: with_rule(limited(lists("atomic", None, limited(mapping(limited(RECORD, limit)), limit)), limit), rule)
    ),
    "genOneMaxNestedSpecWithRootRule": lambda rule: lambda limit: with_rule(lists("atomic", None, mapping(limited(RECORD, limit))), rule),
}
ITEMS = {
    "genObjectForMap": RECORD,
    "genMapForMap": mapping(primitive("number")),
    "genArrayForMap": lists("atomic", None, primitive("number")),
}
WRITTEN_OUT: dict[str, Sized] = {
    "extended library join": texts("self.join(' ') == 'aa bb'"),
    "extended library isSorted": texts("self.isSorted() == true"),
    "extended library replace": lambda limit: with_rule(
        objects(
            {
                "str": limited(primitive("string"), limit),
                "before": limited(primitive("string"), 2),
                "after": limited(primitive("string"), 4),
            }
        ),
        "self.str.replace(self.before, self.after) == 'does not matter'",
    ),
    "extended library split": lambda limit: with_rule(
        objects({name: limited(primitive("string"), limit) for name in ("str", "separator")}), "self.str.split(self.separator) == []"
    ),
    "extended library lowerAscii": ruled(primitive("string"), "self.lowerAscii() == 'lower!'"),
    "IntOrString type with quantity rule": ruled({"x-kubernetes-int-or-string": True}, "isQuantity(self)"),
}
"""Cases whose schemas are made by functions of their own."""


def generator(row: dict[str, Any]) -> Sized:
    if row["name"] in WRITTEN_OUT:
        return WRITTEN_OUT[row["name"]]
    call = row["schemaGenerator"]
    return GENERATORS[call["$call"]](*(ITEMS[part["$call"]] if isinstance(part, dict) else part for part in call["args"]))


def most(schema: Schema, *, resource: bool = False) -> int:
    """The estimate of a schema's only rule, once."""
    tree = compile_tree(schema, resource=resource)
    assert tree is not None
    program = tree.rules[0].program
    assert program is not None
    return estimate(program.checked).max


@needs_corpus
def test_every_rule_of_upstream_is_estimated_as_there() -> None:
    """With the sizes that a request has at most, and with those of the schema; upstream looks at no estimate of zero."""
    rows = CelTable(TABLE).rows("TestCostEstimation")
    wrong = {}
    for row in rows:
        make = generator(row)
        found = most(make(None)), most(make(row["setMaxElements"]))
        wanted = row.get("expectedCalcCost"), row["expectedSetCost"]
        if any(cost != (expected or cost) for cost, expected in zip(found, wanted, strict=True)):
            wrong[row["name"]] = (found, wanted)
        if "expectCalcCostExceedsLimit" in row:
            assert found[0] > EXPRESSION_ESTIMATE_LIMIT
    assert not wrong
    assert len(rows) >= 68


@needs_corpus
def test_estimates_that_must_not_change() -> None:
    """A rule that a release accepts is accepted by the next: upstream pins what its libraries are estimated to cost."""
    table = CelTable("pkg/apiserver/schema/cel/celcoststability_test.json")
    passed = 0
    for row in table.rows("TestCelEstimatedCostStability"):
        schema = table.value(row["schema"])
        for literal, expected in row["expectCost"].items():
            rule = table.value(json.loads(literal)) if literal.startswith('{"$call"') else literal
            assert most(with_rule(schema, rule), resource=bool(row.get("isRoot"))) == expected, (row["name"], rule)
            passed += 1
    assert passed >= 301


@needs_corpus
def test_sums_of_upstream() -> None:
    """What all expressions of a definition cost together, and which are named."""
    for row in GoTable(DEFINITIONS).rows("TestPerCRDEstimatedCost"):
        costs = [UINT_MAX // 2 if isinstance(cost, dict) else cost for cost in row["costs"]]
        expensive = [UINT_MAX // 2 if isinstance(cost, dict) else cost for cost in row["expectedExpensive"]]
        total = TotalEstimate()
        for place, cost in enumerate(costs):
            total.add(str(place), cost)
        assert [cost for _, cost in total.most_expensive] == expensive, row["name"]
        assert total.total == (UINT_MAX if isinstance(row["expectedTotal"], dict) else row["expectedTotal"]), row["name"]
