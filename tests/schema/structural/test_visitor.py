"""Visits of trees of nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kcp_py.schema.structural.nodes import Node, NodesByName, read_schema
from kcp_py.schema.structural.visitor import References, nodes_of, parts_of

TEXT = {"type": "string"}


def test_every_node_is_visited_once():
    """Equal nodes are one, wherever they stand; parts of logical junctors are nodes too."""
    root = read_schema({"properties": {"a": TEXT, "b": {"items": TEXT}}, "additionalProperties": TEXT, "anyOf": [{"minLength": 1}]})
    assert sorted(node.kind or "-" for node in nodes_of(root)) == ["-", "-", "-", "string"]
    assert parts_of(root)[0].min_length == 1


def test_references_are_compiled_when_their_closure_is_called():
    """A definition that refers to itself is compiled once, and its closure is shared; variants have closures of their own."""
    definitions = NodesByName({"Tree": {"properties": {"left": {"$ref": "#/definitions/Tree"}}}})
    compiled: list[Node] = []
    references: References[Callable[[Any], int]] = References(definitions)

    def depth_of(node: Node) -> Callable[[Any], int]:
        compiled.append(node)
        left = references.closure(node.properties["left"].ref, depth_of)
        return lambda value: 1 + left(value["left"]) if value else 0

    depth = references.closure("Tree", depth_of)
    assert not compiled
    assert depth({"left": {"left": {}}}) == 2
    assert compiled == [definitions["Tree"]]
    assert references.closure("Tree", depth_of) is depth
    assert references.closure("Tree", depth_of, variant=True) is not depth
