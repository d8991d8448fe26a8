"""Decisions of a real webhook: kept answers, repetitions, failures."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcp_py.authz import ALLOWED, Decision
from kcp_py.authz.webhook.authorizer import MAX_KEY_BYTES, WebhookAuthorizer, WebhookSettings
from kcp_py.authz.webhook.conditions import MatchConditions, compile_conditions
from kcp_py.authz.webhook.metrics import WebhookMetrics
from kcp_py.kubeconfig.webhook import open_webhook
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.request.requestinfo import RequestInfo, parse_request
from kcp_py.request.user import UserInfo
from tests.authz.webhook.conftest import ALLOW, DENY, NO_OPINION, reviewed
from tests.egress.https import http
from tests.egress.webhook import Clock, Hook

pytestmark = pytest.mark.anyio

ALICE = UserInfo("alice", "", ("dev",))
TEAM_A, TEAM_B = Name("team-a"), Name("team-b")
PODS = parse_request("GET", "/api/v1/pods", {})
FAILED = 'the authorization webhook "hook" failed'


def authorizer(
    hook: Hook, clock: Clock, *, version: str = "v1", deny: bool = False, timeout: float = 30.0, **more: Any
) -> WebhookAuthorizer:
    webhook = open_webhook(str(hook.kubeconfig(**more.pop("user", {}))), timeout)
    conditions: MatchConditions = more.pop("conditions", MatchConditions())
    settings = WebhookSettings("hook", version, 300.0, 30.0, deny, conditions)
    return WebhookAuthorizer(webhook, settings, metrics=more.pop("metrics", WebhookMetrics()), clock=clock, sleep=clock.sleep)


async def ask(
    found: WebhookAuthorizer, user: UserInfo = ALICE, cluster: ClusterSelection = TEAM_A, info: RequestInfo = PODS
) -> Decision | None:
    return await found.authorize(user, cluster, info)


@pytest.mark.parametrize("version", ["v1", "v1beta1"])
async def test_answers(hook: Hook, version: str) -> None:
    """An answer allows, denies, or leaves the decision to others with a reason. The request goes to the exact URL."""
    found = authorizer(hook, Clock(), version=version, user={"token": "secret"})
    hook.answer = reviewed(allowed=True, reason="by the hook", version=version)
    assert await ask(found) == ALLOWED._replace(reason="by the hook")
    hook.answer = reviewed(denied=True, reason="not by the hook", version=version)
    assert await ask(found, cluster=TEAM_B) == Decision(allowed=False, reason="not by the hook")
    hook.answer = reviewed(reason="never heard of it", version=version)
    assert await ask(found, UserInfo("bob")) == Decision(allowed=False, reason="never heard of it", final=False)
    request = hook.server.requests[0]
    assert request.target == "/authorize?timeout=30s"
    assert request.headers["authorization"] == "Bearer secret"
    assert request.json()["apiVersion"] == f"authorization.k8s.io/{version}"
    assert hook.server.connections == 1
    await found.aclose()


async def test_answers_are_kept_for_each_cluster(hook: Hook) -> None:
    """An answer about one cluster says nothing about another one, and nothing about another request."""
    found = authorizer(hook, Clock())
    for cluster in (TEAM_A, TEAM_B, TEAM_A, TEAM_B):
        await ask(found, cluster=cluster)
    await ask(found, ALICE._replace(groups=("ops",)))
    await ask(found, info=parse_request("GET", "/api/v1/secrets", {}))
    assert len(hook.asked) == 4
    assert [spec["extra"]["authorization.kcp.io/cluster-name"] for spec in hook.asked[:2]] == [["team-a"], ["team-b"]]
    await found.aclose()


@pytest.mark.parametrize(("answer", "seconds"), [(ALLOW, 300), (DENY, 30), (NO_OPINION, 30)])
async def test_answers_are_kept_for_a_time(hook: Hook, answer: bytes, seconds: float) -> None:
    """Answers that allow are kept longer."""
    clock = Clock()
    found = authorizer(hook, clock)
    hook.answer = answer
    await ask(found)
    clock.now = seconds - 0.5
    await ask(found)
    assert len(hook.asked) == 1
    clock.now = seconds + 0.5
    await ask(found)
    assert len(hook.asked) == 2
    await found.aclose()


async def test_long_questions_are_not_kept(hook: Hook) -> None:
    """Callers could fill the memory with them. They are asked each time."""
    found = authorizer(hook, Clock())
    long = parse_request("GET", "/" + "x" * MAX_KEY_BYTES, {})
    for _ in range(2):
        assert await ask(found, info=long) == ALLOWED._replace(reason="by the hook")
    assert len(hook.asked) == 2
    await found.aclose()


@pytest.mark.parametrize("deny", [True, False])
async def test_failures(hook: Hook, *, deny: bool) -> None:
    """The policy decides whether a failure denies. Its text is not shown, and nothing of it is kept."""
    found = authorizer(hook, Clock(), deny=deny)
    failed = Decision(allowed=False, final=deny, error=FAILED)
    for answer in (http(403), http(200, b"<html>"), http(200, b'{"kind":"Status"}'), http(200, b"x" * (1024 * 1024 + 1))):
        hook.answer = answer
        assert await ask(found) == failed
    assert len(hook.asked) == 4
    hook.answer = ALLOW
    assert await ask(found) == ALLOWED._replace(reason="by the hook")
    await found.aclose()


async def test_both_answers_at_once(hook: Hook) -> None:
    """An answer that allows and denies denies, and is reported as a failure."""
    found = authorizer(hook, Clock())
    hook.answer = reviewed(allowed=True, denied=True, reason="?")
    assert await ask(found) == Decision(allowed=False, reason="?", error=FAILED)
    await found.aclose()


@pytest.mark.parametrize("failure", [http(429), http(500), http(504), http(503, b"", "Retry-After: 1"), b""])
async def test_repetitions(hook: Hook, failure: bytes) -> None:
    """Failures that may pass are tried again after growing delays, five times in all."""
    clock = Clock()
    found = authorizer(hook, clock)
    answers = [failure, failure, ALLOW]
    hook.answer = lambda _: answers.pop(0)
    assert await ask(found) == ALLOWED._replace(reason="by the hook")
    assert len(clock.slept) == 2
    assert 0.5 <= clock.slept[0] <= 0.6
    assert 0.75 <= clock.slept[1] <= 0.9
    hook.answer = failure
    assert await ask(found, cluster=TEAM_B) == Decision(allowed=False, final=False, error=FAILED)
    assert len(hook.asked) == 3 + 5
    await found.aclose()


async def test_a_webhook_that_cannot_be_reached(hook: Hook) -> None:
    """It is not tried again."""
    clock = Clock()
    found = authorizer(hook, clock)
    await hook.server.__aexit__()
    assert await ask(found) == Decision(allowed=False, final=False, error=FAILED)
    assert clock.slept == []
    await found.aclose()


async def test_a_slow_webhook(hook: Hook) -> None:
    """A call ends after its time, and requests that do not need it are answered meanwhile."""
    clock = Clock()
    metrics = WebhookMetrics()
    found, patient = authorizer(hook, clock, timeout=0.5, metrics=metrics), authorizer(hook, clock, metrics=metrics)
    await ask(patient)
    hook.blocked = asyncio.Event()
    slow = asyncio.ensure_future(ask(found, cluster=TEAM_B))
    assert await ask(patient) == ALLOWED._replace(reason="by the hook")
    assert await slow == Decision(allowed=False, final=False, error=FAILED)
    hook.blocked.set()
    samples = {(sample.name, *sample.labels.values()): sample.value for family in metrics.collect() for sample in family.samples}
    assert samples["apiserver_authorization_webhook_evaluations_total", "hook", "success"] == 1
    assert samples["apiserver_authorization_webhook_evaluations_total", "hook", "timeout"] == 1
    assert samples["apiserver_authorization_webhook_evaluations_fail_open_total", "hook", "timeout"] == 1
    assert samples["apiserver_authorization_webhook_duration_seconds_count", "hook", "success"] == 1
    await found.aclose()
    await patient.aclose()


@pytest.mark.parametrize("deny", [True, False])
async def test_conditions(hook: Hook, *, deny: bool) -> None:
    """Requests that do not match are left to others. A condition without a value counts as a failure of the webhook."""
    compiled, _ = compile_conditions(["request.resourceAttributes.resource == 'pods'"], "")
    found = authorizer(hook, Clock(), deny=deny, conditions=compiled)
    assert await ask(found) == ALLOWED._replace(reason="by the hook")
    assert await ask(found, info=parse_request("GET", "/api/v1/secrets", {})) is None
    assert await ask(found, info=parse_request("GET", "/api", {})) == Decision(allowed=False, final=deny, error=FAILED)
    assert len(hook.asked) == 1
    await found.aclose()


async def test_rules_are_not_listed(hook: Hook) -> None:
    """A webhook answers single questions."""
    found = authorizer(hook, Clock())
    rules = await found.rules_for(ALICE, TEAM_A, "default")
    assert rules == ((), ("webhook authorizer does not support user rule resolution",), True)
    await found.aclose()
