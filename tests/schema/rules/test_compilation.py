"""Rules as they are compiled: upstream's own cases where the corpus is present."""

from __future__ import annotations

from typing import Any

from kcp_py.schema.rules.compilation import CompiledRule
from tests.corpus import needs_corpus
from tests.schema.reading import compile_tree
from tests.schema.rules.go_schemas import CelTable, objects, primitive, with_rule

TABLE = "pkg/apiserver/schema/cel/compilation_test.json"

FUTURE = "unmodified expression may use CEL environment features planned to be added in future releases"
"""There is one environment, and it has no function of a future one."""


def first(schema: dict[str, Any]) -> CompiledRule:
    tree = compile_tree(schema, resource=False)
    assert tree is not None
    return tree.rules[0]


def matches(rule: CompiledRule, matcher: dict[str, Any]) -> bool:
    """What one of upstream's matchers says."""
    match matcher.get("$call"):
        case "noError":
            return not rule.error and not rule.message_error
        case "transitionRule":
            return rule.transition is matcher["args"][0]
        case "invalidError":
            return matcher["args"][0] in rule.error
        case "messageExpressionError":
            return matcher["args"][0] in rule.message_error
        case "matchesAll":
            return all(matches(rule, part) for part in matcher["args"])
        case _:
            return rule.program is None


@needs_corpus
def test_every_rule_of_upstream_compiles_or_not_as_there():
    """With the same words, and the same answer to whether the old value is asked for."""
    table = CelTable(TABLE)
    passed = 0
    for row in table.rows("TestCelCompilation"):
        if row["name"] == FUTURE:
            continue
        tree = compile_tree(table.value(row["input"]), resource=False)
        assert tree is not None
        for rule, matcher in zip(tree.rules, row["expectedResults"], strict=True):
            assert matches(rule, matcher), (row["name"], rule.rule, rule.error, rule.message_error)
            passed += 1
    assert passed >= 40


def test_places_are_told_in_the_text_as_it_was_written():
    """Blanks before a rule are counted."""
    assert first(with_rule(primitive("string"), "  self.x")).error.startswith("compilation failed: ERROR: <input>:1:7: ")


def test_a_message_is_text():
    """An expression of another type, or of none, leaves the message that there is."""
    schema = objects({"a": primitive("string")})
    assert first(with_rule(schema, "true", messageExpression="1")).message_error == "messageExpression must evaluate to a string"
    error = first(with_rule(schema, "true", messageExpression="self.b")).message_error
    assert error.startswith("messageExpression compilation failed: ERROR: <input>:1:5: undefined field 'b'")


def test_paths_are_told_as_errors_tell_them():
    """A name in brackets is a field of an object and a key of a map; an invalid path is left out."""
    labels = {"type": "object", "additionalProperties": primitive("string")}
    schema = objects({"a": objects({"b.c": primitive("string"), "labels": labels})})
    for path, field in ((".a['b.c']", "a.b.c"), (".a.labels.x", "a.labels[x]"), (".a.labels['y']", "a.labels[y]"), (".z", ""), ("", "")):
        assert first(with_rule(schema, "true", fieldPath=path)).field_path == field


def test_constants_that_cannot_be_computed() -> None:
    """They are faults of the program, as upstream says it, not of the text."""
    rule = with_rule(primitive("string"), "self.find('(') == ''")
    assert first(rule).error.startswith("program instantiation failed: ")
    rule = with_rule(primitive("string"), "true", messageExpression="'a'.find('(')")
    assert first(rule).message_error.startswith("messageExpression instantiation failed: ")
