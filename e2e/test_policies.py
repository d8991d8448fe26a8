"""Admission policies with kubectl: refusals, warnings and dry runs."""

from __future__ import annotations

from collections.abc import Callable

from e2e.conftest import Kubectl

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: labelled}
spec:
  matchConstraints:
    resourceRules: [{apiGroups: [""], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [configmaps]}]
  validations:
  - expression: "has(object.metadata.labels) && 'team' in object.metadata.labels"
    messageExpression: "object.metadata.name + ' has no team'"
---
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: labelled}
spec: {policyName: labelled, validationActions: [ACTION]}
"""
TEXT = "ValidatingAdmissionPolicy 'labelled' with binding 'labelled'"


def test_policies(kubectl: Callable[[str], Kubectl]) -> None:
    """A policy denies from the first request on, also dry runs; as a warning it fails `--warnings-as-errors` alone."""
    team = kubectl("policies")
    team.run("create", "configmap", "before")
    team.run("apply", "-f", "-", stdin=POLICY.replace("ACTION", "Deny"))
    for dry_run in ((), ("--dry-run=server",)):
        refused = team.run("create", "configmap", "x", *dry_run, fails=True)
        assert f"{TEXT} denied request: x has no team" in refused
    team.run("label", "configmap", "before", "team=a")
    assert f"{TEXT} denied request: before has no team" in team.run("label", "configmap", "before", "team-", fails=True)
    team.run("apply", "-f", "-", stdin=POLICY.replace("ACTION", "Warn"))
    warned = team.run("create", "configmap", "x", "--dry-run=server", "--warnings-as-errors", fails=True)
    assert f"Warning: Validation failed for {TEXT}: x has no team" in warned
    team.run("create", "configmap", "x")
    team.run("delete", "validatingadmissionpolicy,validatingadmissionpolicybinding", "labelled")
    team.run("create", "configmap", "y", "--warnings-as-errors")
