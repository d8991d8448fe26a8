"""Schemas of definitions in the form in which Go writes them."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.crd.form import normalize_crd

RULE = "x-kubernetes-validations"


def normalized(schema: Any) -> Any:
    definition = {"spec": {"versions": [{"name": "v1", "schema": {"openAPIV3Schema": schema}}]}}
    normalize_crd(definition)
    (version,) = definition["spec"]["versions"]
    return version["schema"]


@pytest.mark.parametrize(
    ("schema", "written"),
    [
        pytest.param({"not": None, "items": None, "default": None, "maximum": None, "properties": None}, {}, id="nulls"),
        pytest.param({"properties": {"a": None}, "allOf": [None]}, {"properties": {"a": {}}, "allOf": [{}]}, id="null schemas"),
        pytest.param({"required": ["a", None], "enum": ["a", None]}, {"required": ["a", ""], "enum": ["a", None]}, id="null elements"),
        pytest.param(
            {"description": "", "nullable": False, "required": [], "enum": [], "properties": {}, "anyOf": [], RULE: []}, {}, id="zeros"
        ),
        pytest.param(
            {"minProperties": 0, "default": False, "x-kubernetes-preserve-unknown-fields": False, "externalDocs": {"url": ""}},
            {"minProperties": 0, "default": False, "x-kubernetes-preserve-unknown-fields": False, "externalDocs": {}},
            id="pointers stay",
        ),
        pytest.param({"default": {"a": None, "b": ""}}, {"default": {"a": None, "b": ""}}, id="values are left alone"),
        pytest.param({"items": {"title": ""}}, {"items": {}}, id="items"),
        pytest.param({"items": [{"title": ""}, None]}, {"items": [{}, {}]}, id="items are a list"),
        pytest.param({"items": []}, {"items": None}, id="no items"),
        pytest.param({"items": True}, {"items": None}, id="items are neither"),
        pytest.param({"additionalProperties": False}, {"additionalProperties": False}, id="flag"),
        pytest.param({"additionalItems": {"id": ""}}, {"additionalItems": {}}, id="schema instead of a flag"),
        pytest.param(
            {"dependencies": {"a": ["b", None], "c": None, "d": [], "e": {"type": ""}}},
            {"dependencies": {"a": ["b", ""], "c": None, "d": None, "e": {}}},
            id="dependencies",
        ),
        pytest.param(
            {RULE: [{"rule": "true", "message": "", "reason": None, "fieldPath": "", "optionalOldSelf": False}, None]},
            {RULE: [{"rule": "true", "optionalOldSelf": False}, {"rule": ""}]},
            id="rules",
        ),
        pytest.param({"type": 1, "properties": 1, RULE: [1]}, {"type": 1, "properties": 1, RULE: [1]}, id="mistakes"),
        pytest.param({"foo": None}, {"foo": None}, id="unknown"),
    ],
)
def test_schemas(schema: Any, written: Any) -> None:
    """Nulls and what `omitempty` leaves out go; everything else stays."""
    assert normalized({"properties": {"a": schema}}) == {"openAPIV3Schema": {"properties": {"a": written}}}


def test_a_schema_that_is_null_is_none() -> None:
    """It is not an empty one, which would be allowed."""
    assert normalized(None) == {}


@pytest.mark.parametrize("spec", [None, 1, {}, {"versions": None}, {"versions": [None, 1, {}, {"schema": None}, {"schema": 1}]}])
def test_other_documents_are_left_alone(spec: Any) -> None:
    """Whatever stands where schemas should be."""
    definition = {"spec": spec}
    normalize_crd(definition)
    assert definition == {"spec": spec}
