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
