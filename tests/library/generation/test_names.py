"""Names in Python."""

from __future__ import annotations

import pytest

from kcp_py.library.generation.names import class_name, field_name


@pytest.mark.parametrize(
    ("name", "field"),
    [
        ("homePort", "home_port"),
        ("clusterIP", "cluster_ip"),
        ("podCIDRs", "pod_cid_rs"),
        ("from", "from_"),
        ("list", "list_"),
        ("json", "json_"),
        ("mro", "mro_"),
        ("model_config", "model_config_"),
        ("$ref", "ref"),
        ("x-kubernetes-list-type", "x_kubernetes_list_type"),
        ("1st", "field_1st"),
        ("_", "field_"),
        ("größe", "gr__e"),
    ],
)
def test_a_field_is_a_free_identifier(name: str, field: str) -> None:
    """In snake_case; keywords, names that annotations use, and attributes of models get an underscore."""
    assert field_name(name, ()) == field
    assert field_name(name, {field}) == f"{field}_2"


@pytest.mark.parametrize(
    ("words", "name"),
    [("Ship", "Ship"), ("Ship-v1alpha1", "ShipV1alpha1"), ("Rule", "RuleModel"), ("Exception", "ExceptionModel"), ("9p", "Class9p")],
)
def test_a_class_is_a_free_identifier(words: str, name: str) -> None:
    """In CamelCase; names that a module imports, and those of Python, get another end."""
    assert class_name(words, ()) == name
    assert class_name(words, {name}) == f"{name}2"
