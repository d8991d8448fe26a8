"""Validation of policies and their bindings. The texts are recorded from kube-apiserver 1.37.2."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apis.admissionregistration.bindings import status_problems
from kcp_py.apis.admissionregistration.defaults import default_binding, default_policy
from kcp_py.apis.admissionregistration.strategy import (
    MutatingPolicyBindingStrategy,
    MutatingPolicyStrategy,
    ValidatingPolicyBindingStrategy,
    ValidatingPolicyStrategy,
)

CASES = json.loads((Path(__file__).parent / "policy_problems.json").read_text())
STRATEGIES = {
    "MutatingAdmissionPolicy": MutatingPolicyStrategy,
    "MutatingAdmissionPolicyBinding": MutatingPolicyBindingStrategy,
    "ValidatingAdmissionPolicy": ValidatingPolicyStrategy,
    "ValidatingAdmissionPolicyBinding": ValidatingPolicyBindingStrategy,
}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_problems(case: dict[str, Any]) -> None:
    """An object has the problems that kube-apiserver finds, with its texts, in its order."""
    obj = {"metadata": {"name": case["object"]}, "spec": copy.deepcopy(case["spec"])}
    (default_binding if case["kind"].endswith("Binding") else default_policy)(obj)
    assert [str(problem) for problem in STRATEGIES[case["kind"]]().validate(obj)] == case["problems"]


def test_unchanged_conditions_are_not_checked_again() -> None:
    """An update of a policy whose conditions and kind of parameters did not change does not compile the conditions."""
    spec = {**CASES[0]["spec"], "matchConditions": [{"name": "a", "expression": "params.x == 1"}]}
    policy = {"metadata": {"name": "x"}, "spec": spec}
    default_policy(policy)
    strategy = ValidatingPolicyStrategy()
    assert strategy.validate_update(policy, copy.deepcopy(policy)) == []
    other = copy.deepcopy(policy)
    other["spec"]["paramKind"] = {"apiVersion": "v1", "kind": "ConfigMap"}
    assert strategy.validate_update(other, policy) == []
    assert strategy.validate_update(policy, other) != []


def test_status() -> None:
    """A warning in the status needs a text and a field."""
    status = {"typeChecking": {"expressionWarnings": [{"fieldRef": "spec", "warning": "w"}, {"fieldRef": " ", "warning": ""}]}}
    path = "status.typeChecking.expressionWarnings[1]"
    assert [str(one) for one in status_problems(status)] == [f"{path}.warning: Required value", f"{path}.fieldRef: Required value"]
