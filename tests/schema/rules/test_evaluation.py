"""Rules on objects: upstream's own cases where the corpus is present, and what they leave out."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cel.limits import OBJECT_BUDGET
from kcp_py.schema.rules.evaluation import Outcome, evaluate
from kcp_py.schema.structural.correlated import ABSENT
from kcp_py.schema.structural.nodes import read_schema
from tests.corpus import needs_corpus
from tests.schema.go_tables import NotLiteralError
from tests.schema.reading import compile_tree
from tests.schema.rules.go_schemas import CelTable, objects, primitive, with_rule

TABLE = "pkg/apiserver/schema/cel/validation_test.json"
ROOT = (None, "root")

CHECKED_BEFORE = "objects are valid by the rest of their schema before rules see them"
FLOATS = "Go's %f"
TEXTS_OF_TIMES = "a time forgets in which zone it was written"
MERGED_LISTS = "what + makes of two lists of type map is compared in order"
CONSTANTS = "constant arguments are judged when they are evaluated"
COSTS = "what a call costs"
SPECIAL = {
    "numbers": FLOATS,
    "unicode strings": "the words of string formats",
    "date-time format": CONSTANTS,
    "conversions": TEXTS_OF_TIMES,
    "listMaps": MERGED_LISTS,
    "invalid data": CHECKED_BEFORE,
    "stdlib regex functions": CONSTANTS,
    "cost for extended lib calculated correctly: isSorted": COSTS,
    "cost for extended lib calculated correctly: url": COSTS,
}
"""Cases of which not every rule is evaluated as upstream evaluates it, and why."""

NESTED = "structural schemas have no rules inside of allOf"


def run(document: dict[str, Any], obj: Any, old: Any = ABSENT, *, resource: bool = False, **more: Any) -> Outcome:
    tree = compile_tree(document, resource=resource)
    return Outcome() if tree is None else evaluate(tree, obj, ABSENT if old is None else old, path=ROOT, **more)


def texts(outcome: Outcome) -> list[str]:
    return [str(error) for error in outcome.errors]


@needs_corpus
def test_every_expression_of_upstream_holds_or_fails_as_there():
    """Valid rules give no error and have upstream's cost; others have upstream's message."""
    table = CelTable(TABLE)
    passed = 0
    failed: dict[str, list[str]] = {}
    for row in table.rows("TestValidationExpressions"):
        schema, obj, old = table.value(row["schema"]), table.value(row["obj"]), table.value(row.get("oldObj"))
        for literal in row.get("valid") or ():
            rule = table.value(literal)
            outcome = run(with_rule(schema, rule), obj, old, resource=bool(row.get("isRoot")))
            cost = OBJECT_BUDGET - outcome.left
            if outcome.errors or cost != row.get("expectedCost", cost) or (row.get("expectSkipped") and cost):
                failed.setdefault(row["name"], []).append(f"{rule}: {texts(outcome)}, cost {cost}")
            else:
                passed += 1
        for rule, literal in (row.get("errors") or {}).items():
            wanted = table.value(literal)
            outcome = run(with_rule(schema, rule), obj, old, resource=True)
            if not outcome.errors or not all(wanted in str(error) for error in outcome.errors):
                failed.setdefault(row["name"], []).append(f"{rule}: {texts(outcome)} instead of {wanted}")
            else:
                passed += 1
    assert failed.keys() <= SPECIAL.keys(), {name: failed[name] for name in failed.keys() - SPECIAL.keys()}
    assert sum(map(len, failed.values())) <= 21
    assert passed >= 769


@needs_corpus
@pytest.mark.parametrize(
    ("function", "least"),
    [
        ("TestValidationExpressionsAtSchemaLevels", 19),
        ("TestRatcheting", 16),
        ("TestOptionalOldSelf", 11),
        ("TestOptionalOldSelfCheckForNull", 10),
        ("TestOptionalOldSelfIsOptionalType", 5),
        ("TestReasonAndFldPath", 4),
    ],
)
def test_every_schema_of_upstream_is_judged_as_there(function: str, least: int):
    """Errors and warnings, with their reasons and fields where the case names them."""
    table = CelTable(TABLE)
    passed = 0
    for row in table.rows(function):
        try:
            schema, obj, old = table.value(row["schema"]), table.value(row.get("obj", row.get("newObj"))), table.value(row.get("oldObj"))
        except NotLiteralError:
            continue
        if function.startswith("TestOptional"):
            schema["x-kubernetes-validations"] = [{**rule, "optionalOldSelf": True} for rule in schema["x-kubernetes-validations"]]
        if compile_tree(schema, resource=False) is None:
            assert "allOf" in row["name"], NESTED
            continue
        ratcheting = function == "TestRatcheting"
        limit = row.get("runtimeCostBudget") or OBJECT_BUDGET
        outcome = run(schema, obj, old, schema=read_schema(schema) if ratcheting else None, limit=limit)
        if function == "TestReasonAndFldPath":
            wanted = [(table.value(error["Type"]), error["Field"]) for error in row["errors"]["$pos"]]
            assert sorted((error.reason, error.field) for error in outcome.errors) == sorted(wanted), row["name"]
        else:
            wanted_texts = [table.value(error) for error in row.get("errors") or ()]
            assert len(outcome.errors) == len(wanted_texts), (row["name"], texts(outcome))
            assert all(any(wanted in text for text in texts(outcome)) for wanted in wanted_texts), (row["name"], texts(outcome))
        if ratcheting:
            assert sorted(outcome.warnings) == sorted(row.get("warnings") or ()), row["name"]
        passed += 1
    assert passed >= least


@needs_corpus
def test_every_message_of_upstream_is_given_as_there():
    """The message's expression where it gives one line, else the message; its cost counts, and may end the walk."""
    table = CelTable(TABLE)
    passed = 0
    for row in table.rows("TestMessageExpression"):
        if "perCallLimit" in row:
            continue
        more = {"message": row["message"]} if "message" in row else {}
        schema = with_rule(objects({"str": primitive("string")}), "false", messageExpression=table.value(row["messageExpression"]), **more)
        limit = table.value(row["costBudget"])
        outcome = run(schema, {"str": "a string"}, limit=limit)
        assert row["expectedValidationErr"] in texts(outcome)[0], row["name"]
        # What an expression costs that ends in an error is charged up to the error.
        if isinstance(left := row.get("expectedRemainingBudget"), int) and left > 0 and "fails during" not in row["name"]:
            assert outcome.left == left, row["name"]
        passed += 1
    assert passed >= 10


def test_a_field_that_is_null_is_not_there():
    """Null where it is allowed is to `has`, to selections and to optional selections as if the field were missing."""
    schema = objects({"a": {**primitive("string"), "nullable": True}})
    for rule in ("!has(self.a)", "!self.?a.hasValue()", "!has(self.a) || self.a == 'x'"):
        assert texts(run(with_rule(schema, rule), {"a": None})) == []
    assert "no such key: a evaluating rule" in texts(run(with_rule(schema, "self.a == 'x'"), {"a": None}))[0]
    assert texts(run(with_rule(schema, "self.a == 'x'"), {"a": "x"})) == []


def test_a_rule_that_does_not_compile_is_told_with_every_object():
    """A stored definition may have rules of another version: they hold for nothing."""
    schema = with_rule(objects({"a": primitive("string")}), "self.b")
    (text,) = texts(run(schema, {"a": "x"}))
    assert text.startswith('root: Invalid value: "object": rule compile error: compilation failed: ERROR: <input>:1:5: undefined field')


def test_the_budget_of_an_object_ends_the_walk():
    """The parts after it are not validated, and no rule of the object is run again."""
    schema = objects({name: with_rule(primitive("string"), "size(self + self) < 0") for name in "abc"})
    outcome = run(schema, {"a": "x" * 50, "b": "x", "c": "x"}, limit=3)
    assert outcome.exhausted
    assert texts(outcome) == [
        'root.a: Invalid value: "string": validation failed due to running out of cost budget, no further validation rules will be run'
    ]


@pytest.mark.parametrize(
    ("reason", "text"),
    [
        (None, "root.a: Invalid value: 1: no"),
        ("FieldValueRequired", "root.a: Required value: no"),
        ("FieldValueForbidden", "root.a: Forbidden: no"),
        ("FieldValueDuplicate", "root.a: Duplicate value: 1"),
    ],
)
def test_reasons_decide_what_is_printed(reason: str | None, text: str):
    """Scalars are printed with the reasons that have a value."""
    more = {"reason": reason} if reason else {}
    assert texts(run(objects({"a": with_rule(primitive("integer"), "false", message="no", **more)}), {"a": 1})) == [text]


def test_containers_are_not_printed():
    """An object or list is only named."""
    assert texts(run(with_rule(objects({}), "false", reason="FieldValueDuplicate"), {})) == ["root: Duplicate value"]
    assert texts(run(with_rule(objects({}), "false"), {})) == ["root: Invalid value: failed rule: false"]


def test_a_small_budget_has_no_room_for_long_searches() -> None:
    """Upstream's cost of a search is a fraction of the work of some; the event loop leaves them to a thread."""
    text = {"type": "string", "maxLength": 10_000, "x-kubernetes-validations": [{"rule": "self.findAll('a*b|a').size() > 0"}]}
    document = {"type": "object", "properties": {"text": text}}
    assert not run(document, {"text": "a" * 900}, limit=20_000).exhausted
    assert run(document, {"text": "a" * 9000}, limit=20_000).exhausted
    assert not run(document, {"text": "a" * 9000}).exhausted
