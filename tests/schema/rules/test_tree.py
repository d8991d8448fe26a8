"""The rules of a schema, and who shares them."""

from __future__ import annotations

import copy

from kcp_py.schema.compilation import compile_schema
from kcp_py.schema.structural.nodes import read_schema
from tests.schema.reading import compile_tree
from tests.schema.rules.go_schemas import lists, objects, primitive, with_rule


def test_there_are_nodes_only_where_there_are_rules():
    """A schema without any has no tree; rules are counted."""
    ruled = with_rule(primitive("string"), "true")
    schema = objects({"a": lists("atomic", None, ruled), "b": primitive("string"), "c": {"type": "object", "additionalProperties": ruled}})
    tree = compile_tree(schema)
    assert tree is not None
    assert tree.properties.keys() == {"a", "c"}
    assert tree.count == 2
    assert compile_tree(objects({"b": primitive("string")})) is None
    assert not read_schema(objects({"b": primitive("string")})).has_rules


def test_equal_schemas_are_compiled_once():
    """For the check of a definition and for serving it, in whatever cluster."""
    schema = with_rule(objects({"a": primitive("string")}), "self.a != 'shared'")
    assert compile_tree(schema) is compile_tree(copy.deepcopy(schema))
    assert compile_schema(schema).rules is compile_tree(schema)
    assert compile_tree({**schema, "description": "other"}) is not compile_tree(schema)


def test_what_cel_cannot_see_has_no_rules():
    """Nor have its descendants."""
    hidden = {"x-kubernetes-preserve-unknown-fields": True, "properties": {"a": with_rule(primitive("string"), "true")}}
    assert compile_tree(objects({"hidden": hidden})) is None
    embedded = with_rule(
        {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True}, "has(self.metadata.name)"
    )
    tree = compile_tree(objects({"embedded": embedded}))
    assert tree is not None
    assert tree.properties["embedded"].rules[0].error == ""
