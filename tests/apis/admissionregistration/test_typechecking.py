"""Type checks of policies, compared with the warnings of kube-controller-manager 1.37.2 (recorded with kube-apiserver 1.37.2)."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from kcp_py.apis.admissionregistration.typechecking import (
    LONGEST_WARNINGS,
    CheckedKind,
    ServedKind,
    checked_kinds,
    type_problems,
    type_warnings,
)
from kcp_py.bootstrap.kinds import BuiltinKind, builtin_kinds
from kcp_py.bootstrap.upstream_kinds import UpstreamKind, upstream_kinds, upstream_models
from kcp_py.cel.types import Type
from kcp_py.schema.publish.kinds import PublishedKind
from kcp_py.schema.publish.schemas import full_schema
from kcp_py.schema.rules.published_types import published_type

# Names of types lack the number that upstream appends, which differs in each check.
RECORDED = json.loads((Path(__file__).parent / "type_checks.json").read_text())
CONFIG_MAP = GroupVersionKind("", "v1", "ConfigMap")


@cache
def documents() -> Mapping[GroupVersionKind, Mapping[str, Any]]:
    """The schemas of all kinds of Kubernetes and of the recorded definition."""
    found: dict[GroupVersionKind, Mapping[str, Any]] = {}
    kinds: list[BuiltinKind | UpstreamKind] = [*builtin_kinds(), *upstream_kinds().values()]
    for one in kinds:
        found[GroupVersionKind(one.group, one.version, one.kind)] = {"$ref": f"#/components/schemas/{one.model}"}
    for version in RECORDED["definition"]["spec"]["versions"]:
        schema = version["schema"]["openAPIV3Schema"]
        kind = PublishedKind("example.com", version["name"], "Widget", "WidgetList", "widgets", True, (), (), schema)
        found[GroupVersionKind("example.com", version["name"], "Widget")] = full_schema(kind)
    return found


@cache
def served() -> list[ServedKind]:
    """What the server of the recordings served."""
    kinds: list[BuiltinKind | UpstreamKind] = [*builtin_kinds(), *upstream_kinds().values()]
    found = [ServedKind(GroupVersionResource(one.group, one.version, one.plural), one.singular, one.kind) for one in kinds]
    return [
        *found,
        *(ServedKind(GroupVersionResource("example.com", version, "widgets"), "widget", "Widget") for version in ("v1", "v1alpha1")),
    ]


@cache
def type_of(kind: GroupVersionKind) -> Type:
    found = published_type(documents()[kind], upstream_models(), kind.kind).type
    assert found is not None
    return found


def warnings_of(spec: Mapping[str, Any]) -> list[dict[str, str]]:
    """The warnings about a policy."""
    params = None
    if reference := spec.get("paramKind"):
        group, _, version = reference["apiVersion"].rpartition("/")
        kind = GroupVersionKind(group, version, reference["kind"])
        params = type_of(kind) if kind in documents() else None
    kinds = [CheckedKind(kind, type_of(kind)) for kind in checked_kinds(spec, served())]
    return type_warnings(spec, [type_problems(spec, kind, params) for kind in kinds])


@pytest.mark.parametrize("case", RECORDED["cases"], ids=lambda case: case["name"])
def test_warnings(case: dict[str, Any]) -> None:
    """The places and the texts of all warnings, in their order."""
    assert warnings_of(case["spec"]) == case["warnings"]


def test_warnings_are_bounded() -> None:
    """Warnings that would make the policy too large to be stored are left out."""
    wide = " && ".join(f"object.f{number} == 1" for number in range(40))
    rules = [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["*"], "resources": ["configmaps"]}]
    spec: dict[str, Any] = {"matchConstraints": {"resourceRules": rules}, "validations": [{"expression": wide}] * 50}
    assert checked_kinds(spec, served()) == [CONFIG_MAP]
    found = warnings_of(spec)
    assert 1 <= len(found) < len(spec["validations"])
    assert LONGEST_WARNINGS // 2 < sum(len(one["warning"]) for one in found) <= LONGEST_WARNINGS


def test_policies_without_rules() -> None:
    """Other software may have stored a policy without rules or validations."""
    assert checked_kinds({}, served()) == []
    assert type_warnings({}, []) == []
    assert type_problems({}, CheckedKind(CONFIG_MAP, type_of(CONFIG_MAP)), None) == {}
