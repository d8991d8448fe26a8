"""Errors about the rules of a definition at its write."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.crd.openapi_schema import SchemaRules
from kcp_py.schema.crd.versions import VersionRules, validation_errors
from tests.schema.rules.go_schemas import lists, objects, primitive, with_rule

ROOT = "spec.validation.openAPIV3Schema"


def judge(schema: dict[str, Any], *, unchanged: bool = False) -> list[str]:
    rules = VersionRules(schema=SchemaRules(), unchanged_schemas=frozenset({"v1"} if unchanged else ()))
    errors = validation_errors({"openAPIV3Schema": schema}, "spec.validation", rules, has_status=False, version="v1")
    return [str(error) for error in errors]


def test_a_rule_that_does_not_compile_is_printed_whole():
    """The members of upstream's internal type, in their order, as Go's encoder writes them."""
    (text,) = judge(with_rule(objects({"a": primitive("integer")}), "self.b > 1 && true", optionalOldSelf=None))
    assert text == (
        f'{ROOT}.x-kubernetes-validations[0].rule: Invalid value: {{"Rule":"self.b \\u003e 1 \\u0026\\u0026 true","Message":"",'
        '"MessageExpression":"","Reason":null,"FieldPath":"","OptionalOldSelf":null}: compilation failed: '
        "ERROR: <input>:1:5: undefined field 'b'\n | self.b > 1 && true\n | ....^"
    )


@pytest.mark.parametrize(
    ("rule", "more", "field", "text"),
    [
        ("self.a", {}, "rule", "cel expression must evaluate to a bool"),
        ("true", {"messageExpression": "1"}, "messageExpression", "messageExpression must evaluate to a string"),
        ("true", {"optionalOldSelf": True}, "optionalOldSelf", "Invalid value: true: may not be set if oldSelf is not used in rule"),
        ("true", {"optionalOldSelf": False}, "optionalOldSelf", "Invalid value: false: may not be set if oldSelf is not used in rule"),
    ],
)
def test_a_rule_has_a_type_and_refers_to_what_it_says(rule: str, more: dict[str, Any], field: str, text: str):
    """Rules are bool, messages text, and only rules of transitions say what they do without an old value."""
    (found,) = judge(with_rule(objects({"a": primitive("integer")}), rule, **more))
    assert found.startswith(f"{ROOT}.x-kubernetes-validations[0].{field}: ")
    assert found.endswith(text)


def test_the_outermost_place_without_old_values_is_named():
    """Below a list that is not a map no rule may ask for the old value, however it goes on."""
    inner = {**lists("map", ["k"], with_rule(objects({"k": primitive("string")}), "self == oldSelf")), "maxItems": 1}
    inner["items"]["required"] = ["k"]
    schema = objects({"outer": {**lists("atomic", None, objects({"inner": inner})), "maxItems": 1}})
    (text,) = judge(schema)
    place = f"{ROOT}.properties[outer].items.properties[inner].items.x-kubernetes-validations[0].rule"
    detail = f"oldSelf cannot be used on the uncorrelatable portion of the schema within {ROOT}.properties[outer]"
    assert text == f'{place}: Invalid value: "self == oldSelf": {detail}'
    assert judge(objects({"inner": inner})) == []


def test_what_rules_may_cost_depends_on_how_often_they_run():
    """An expression, its message and all of them together have limits; the places that cost most are named."""
    texts = {**lists("atomic", None, primitive("string")), "x-kubernetes-list-type": "atomic"}
    schema = objects({"a": with_rule(texts, "self.all(x, x.contains('gpu'))")})
    place = f"{ROOT}.properties[a].x-kubernetes-validations[0].rule"
    advice = "(try simplifying the rule, or adding maxItems, maxProperties, and maxLength where arrays, maps, and strings are declared)"
    total = "x-kubernetes-validations estimated rule cost total for entire OpenAPIv3 schema"
    contribution = f"{place}: Forbidden: contributed to estimated rule cost total exceeding cost limit for entire OpenAPIv3 schema"
    assert judge(schema) == [
        f"{place}: Forbidden: estimated rule cost exceeds budget by factor of more than 100x {advice}",
        contribution,
        f"{ROOT}: Forbidden: {total} exceeds budget by factor of more than 100x {advice}",
    ]
    assert judge(schema, unchanged=True)[0] == contribution
    bounded = objects({"a": with_rule({**texts, "maxItems": 10, "items": {"type": "string", "maxLength": 10}}, "self.all(x, x == 'y')")})
    assert judge(bounded) == []


def test_rules_above_and_at_a_fault_are_not_judged():
    """Elsewhere they are."""
    broken = with_rule({**primitive("string"), "x-kubernetes-map-type": "atomic"}, "1")
    fine = with_rule(primitive("string"), "1")
    fields = [text.partition(": ")[0] for text in judge(with_rule(objects({"broken": broken, "fine": fine}), "1"))]
    assert fields == [f"{ROOT}.properties[broken].type", f"{ROOT}.properties[fine].x-kubernetes-validations[0].rule"]


def test_defaults_keep_the_rules():
    """As values that stay, and as values that are new."""
    kept = with_rule({**primitive("integer"), "default": 1}, "self > 1")
    (text,) = judge(objects({"a": kept}))
    assert text == f"{ROOT}.properties[a].default: Invalid value: 1: failed rule: self > 1"
    new = with_rule({**primitive("integer"), "default": 1}, "oldSelf.hasValue()", optionalOldSelf=True)
    (text,) = judge(objects({"a": new}))
    assert text == f"{ROOT}.properties[a].default: Invalid value: 1: failed rule: oldSelf.hasValue()"


def test_what_has_no_type_has_no_rules():
    """CEL cannot see it."""
    schema = objects({"a": with_rule({"x-kubernetes-preserve-unknown-fields": True}, "true")})
    (text,) = judge(schema)
    assert text.startswith(f"{ROOT}.properties[a].x-kubernetes-validations: Internal error: internal error: failed to construct type")
