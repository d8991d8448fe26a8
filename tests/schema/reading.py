"""Schemas as documents, for tests of what works on their nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kcp_py.apimachinery.managedfields.types import MergeType
from kcp_py.schema.rules import declared_types, tree
from kcp_py.schema.rules.declared_types import DeclaredType
from kcp_py.schema.rules.tree import RuleNode
from kcp_py.schema.structural import field_paths, merge_types
from kcp_py.schema.structural.field_paths import FieldPath
from kcp_py.schema.structural.nodes import NodesByName, read_schema

Schema = Mapping[str, Any]


def merge_type(document: Schema, definitions: Mapping[str, Schema] | None = None, *, resource: bool = False) -> MergeType:
    """`merge_types.merge_type` of a document."""
    return merge_types.merge_type(read_schema(document), NodesByName(definitions or {}), resource=resource)


def compile_tree(document: Schema, *, resource: bool = True) -> RuleNode | None:
    """`tree.compile_tree` of a document."""
    return tree.compile_tree(read_schema(document), document, resource=resource)


def declare(document: Schema, *, resource: bool = False) -> DeclaredType | None:
    """`declared_types.declare` of a document."""
    return declared_types.declare(read_schema(document), resource=resource)


def find_field(text: str, document: Schema) -> FieldPath:
    """`field_paths.find_field` in a document."""
    return field_paths.find_field(text, read_schema(document))
