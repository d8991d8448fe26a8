"""The conditions of a CRD that are not about its names."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.schema.crd.conditions import may_lack_structure, set_approval, set_structure

NOW = "2026-01-02T03:04:05Z"
ANNOTATION = "api-approved.kubernetes.io"
POLICY = "https://github.com/kubernetes/enhancements/pull/1111"


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        pytest.param("https://example.com/1", ("True", "ApprovedAnnotation", "approved in https://example.com/1"), id="approved"),
        pytest.param("unapproved, a trial", ("False", "UnapprovedAnnotation", 'not approved: "unapproved, a trial"'), id="bypassed"),
        pytest.param(
            None,
            ("False", "MissingAnnotation", f'protected groups must have approval annotation "{ANNOTATION}", see {POLICY}'),
            id="missing",
        ),
        pytest.param(
            "soon",
            (
                "False",
                "InvalidAnnotation",
                (
                    f'protected groups must have approval annotation "{ANNOTATION}" with either a URL or a reason starting with '
                    f'"unapproved", see {POLICY}'
                ),
            ),
            id="invalid",
        ),
    ],
)
@pytest.mark.parametrize("group", ["k8s.io", "x.k8s.io", "kubernetes.io", "x.kubernetes.io"])
def test_approval_of_protected_groups(group: str, value: str | None, expected: tuple[str, str, str]) -> None:
    """Each state of the annotation has its reason and message, as `apiapproval` has them."""
    conditions: list[dict[str, Any]] = []
    metadata = {"generation": 4, "annotations": {} if value is None else {ANNOTATION: value}}
    set_approval({"metadata": metadata, "spec": {"group": group}}, conditions, now=NOW)
    (condition,) = conditions
    assert (condition["status"], condition["reason"], condition["message"]) == expected
    assert condition["type"] == "KubernetesAPIApprovalPolicyConformant"
    assert (condition["observedGeneration"], condition["lastTransitionTime"]) == (4, NOW)


@pytest.mark.parametrize("group", ["example.com", "notk8s.io", ""])
def test_other_groups_have_no_condition(group: str) -> None:
    """Whatever annotation they bear."""
    conditions: list[dict[str, Any]] = []
    set_approval({"metadata": {"annotations": {ANNOTATION: "soon"}}, "spec": {"group": group}}, conditions, now=NOW)
    assert conditions == []


def legacy(*schemas: dict[str, Any], preserve: bool = False) -> dict[str, Any]:
    versions = [{"name": f"v{number}", "schema": {"openAPIV3Schema": schema}} for number, schema in enumerate(schemas)]
    return {"metadata": {"generation": 2}, "spec": {"versions": versions, "preserveUnknownFields": preserve}}


def test_violations_of_structure_are_told_together() -> None:
    """The paths are those of the versions, and several messages stand in brackets."""
    conditions: list[dict[str, Any]] = []
    set_structure(legacy({"type": "object"}, {"properties": {"a": {"type": "string"}}}, preserve=True), conditions, now=NOW)
    (condition,) = conditions
    assert (condition["type"], condition["status"], condition["reason"]) == ("NonStructuralSchema", "True", "Violations")
    assert condition["message"] == (
        "[spec.preserveUnknownFields: Invalid value: true: must be false, "
        "spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root]"
    )


def test_the_condition_goes_when_the_schema_is_mended() -> None:
    """And other conditions stay."""
    conditions = [{"type": "NonStructuralSchema", "status": "True"}, {"type": "Established", "status": "True"}]
    set_structure(legacy({"type": "object"}, {}, preserve=False), conditions, now=NOW)
    assert [condition["type"] for condition in conditions] == ["NonStructuralSchema", "Established"]
    set_structure(legacy({"type": "object"}), conditions, now=NOW)
    assert conditions == [{"type": "Established", "status": "True"}]


@pytest.mark.parametrize(
    ("definition", "expected"),
    [
        pytest.param({"spec": {}}, False, id="new"),
        pytest.param({"status": {"conditions": [{"type": "Established"}], "observedGeneration": 1}}, False, id="of this server"),
        pytest.param({"status": {"conditions": [{"type": "Established"}]}}, True, id="of another server"),
        pytest.param({"status": {"conditions": [{"type": "NonStructuralSchema"}], "observedGeneration": 1}}, True, id="known to lack it"),
        pytest.param({"spec": {"preserveUnknownFields": True}}, True, id="preserves all"),
    ],
)
def test_which_definitions_may_lack_structure(definition: dict[str, Any], *, expected: bool) -> None:
    """Only those that validation here has not seen from the beginning."""
    assert may_lack_structure(definition) is expected
