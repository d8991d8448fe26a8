"""Rules by kind: which objects they look at."""

from __future__ import annotations

from typing import Any

from kcp_py.apis.upstream.validation.table import VALIDATIONS
from kcp_py.bootstrap.upstream_kinds import upstream_kinds

DEPLOYMENT = "io.k8s.api.apps.v1.Deployment"


def deployment(replicas: int, **labels: str) -> dict[str, Any]:
    return {"metadata": {"name": "d", "labels": labels}, "spec": {"replicas": replicas}}


def test_kinds_exist() -> None:
    """Every row is for a kind that can be installed."""
    assert VALIDATIONS.keys() <= {kind.model for kind in upstream_kinds().values()}


def test_unchanged_specifications_are_not_validated_again() -> None:
    """An object that was stored under other rules can still be labelled and lose its finalizers; a change of its content is validated."""
    rules = VALIDATIONS[DEPLOYMENT]
    assert rules.problems(deployment(-1), None)
    assert rules.problems(deployment(-1, new="label"), deployment(-1)) == []
    assert rules.problems(deployment(-2), deployment(-1))


def test_an_unchanged_pod_is_not_validated_again() -> None:
    """Pods have rules of their own for updates."""
    rules = VALIDATIONS["io.k8s.api.core.v1.Pod"]
    pod: dict[str, Any] = {"metadata": {"name": "p"}, "spec": {"containers": []}}
    assert rules.problems(pod, None)
    assert rules.problems({**pod, "metadata": {"name": "p", "labels": {"a": "b"}}}, pod) == []


def test_no_more_problems_are_looked_for_than_are_reported() -> None:
    """A large object with a fault in every element costs as much as one with the number of faults that an answer has."""
    containers = [{"name": "A"} for _ in range(5000)]
    assert (
        len(VALIDATIONS["io.k8s.api.core.v1.Pod"].problems({"metadata": {"name": "p"}, "spec": {"containers": containers}}, None)) == 1001
    )


def test_repeated_elements_are_found_in_long_lists() -> None:
    """Elements are compared with the ones before them by their value, so that long lists take no longer than many short ones."""
    count = 3000
    constraint = {"maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule"}
    spread = [{**constraint, "topologyKey": f"k{number % (count - 1)}"} for number in range(count)]
    claims = [{"name": f"c{number}", "request": "r"} for number in range(5)]
    container = {"name": "a", "image": "b", "resources": {"claims": [*claims, {"name": "c1"}]}}
    template = {"spec": {"containers": [container], "topologySpreadConstraints": spread}}
    found = VALIDATIONS["io.k8s.api.core.v1.PodTemplate"].problems({"metadata": {}, "template": template}, None)
    assert [problem.field for problem in found if problem.reason == "FieldValueDuplicate"] == [
        "template.spec.containers[0].resources.claims[5]",
        "template.spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}",
    ]
