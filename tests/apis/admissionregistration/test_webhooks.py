"""Validation of configurations of admission webhooks. The texts are recorded from kube-apiserver 1.37.2."""

from __future__ import annotations

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apis.admissionregistration.defaults import default_mutating_webhooks, default_validating_webhooks
from kcp_py.apis.admissionregistration.webhooks import webhook_problems, webhook_warnings

CASES = json.loads((Path(__file__).parent / "webhook_problems.json").read_text())
VALID: dict[str, Any] = {"metadata": {"name": "x"}, "webhooks": CASES[0]["webhooks"]}


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_problems(case: dict[str, Any]) -> None:
    """A configuration has the problems that kube-apiserver finds, with its texts, in its order."""
    obj = {"metadata": {"name": "x"}, "webhooks": copy.deepcopy(case["webhooks"])}
    (default_mutating_webhooks if case["mutating"] else default_validating_webhooks)(obj)
    assert [str(problem) for problem in webhook_problems(obj, None, mutating=case["mutating"])] == case["problems"]


def test_defaults() -> None:
    """Missing fields get the values of kube-apiserver, and each object its own."""
    obj = copy.deepcopy(VALID) | {"webhooks": [{"name": "a"}, {"name": "b", "rules": [{}], "clientConfig": {"service": {}}}]}
    default_mutating_webhooks(obj)
    first, second = obj["webhooks"]
    assert first == {
        "name": "a",
        "failurePolicy": "Fail",
        "matchPolicy": "Equivalent",
        "namespaceSelector": {},
        "objectSelector": {},
        "timeoutSeconds": 10,
        "reinvocationPolicy": "Never",
    }
    assert second["rules"] == [{"scope": "*"}]
    assert second["clientConfig"] == {"service": {"port": 443}}
    assert first["namespaceSelector"] is not second["namespaceSelector"]


def test_unchanged_conditions_are_not_checked_again() -> None:
    """An update of a configuration whose conditions did not change does not compile them."""
    (webhook,) = VALID["webhooks"]
    broken = {"metadata": {"name": "x"}, "webhooks": [{**webhook, "matchConditions": [{"name": "", "expression": ""}]}]}
    assert webhook_problems(broken, broken, mutating=False) == []
    assert webhook_problems(broken, VALID, mutating=False) != []


def test_rules_that_have_no_effect() -> None:
    """Rules that name reviews are answered with kube-apiserver's warning; wildcards are not."""
    rules = [
        {"apiGroups": ["authentication.k8s.io"], "resources": ["tokenreviews", "tokenreviews"]},
        {"apiGroups": ["*"], "resources": ["tokenreviews"]},
    ]
    assert webhook_warnings({"webhooks": [{"rules": rules}]}) == [
        "webhooks[0].rules[0]: tokenreviews.authentication.k8s.io is excluded from admission webhooks; this rule will have no effect"
    ]
