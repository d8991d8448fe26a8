"""Calls of webhooks: failures and the bound on waiting writes."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack

import pytest

from kcp_py.admission.webhook.calls import CallFailedError, WebhookCalls
from kcp_py.admission.webhook.definitions import Webhook, parse_configuration
from kcp_py.apimachinery.errors import StatusError
from kcp_py.egress import Caller, Networks
from kcp_py.logicalcluster import Name
from tests.admission.webhook.conftest import Hooks

pytestmark = pytest.mark.anyio
A, B = Name("cluster-a"), Name("cluster-b")


def webhook_of(hooks: Hooks, **more: object) -> Webhook:
    (webhook,) = parse_configuration({"metadata": {"name": "c"}, "webhooks": [hooks.webhook("/x", **more)]})
    return webhook


async def failure(hooks: Hooks, **more: object) -> str:
    """Why a call fails."""
    caller = Caller(Networks(("127.0.0.0/8",)))
    try:
        with pytest.raises(CallFailedError) as raised:
            await WebhookCalls(caller).ask(webhook_of(hooks, **more), A, {}, size=0, mutating=False)
        return str(raised.value)
    finally:
        await caller.aclose()


async def test_failures(hooks: Hooks) -> None:
    """The text says which webhook failed and why, in upstream's words."""
    failed = 'failed calling webhook "x.example.com": '
    client = {"url": f"{hooks.server.origin}/x", "caBundle": "YWJj"}
    assert await failure(hooks, clientConfig=client) == (
        f"{failed}could not get REST client: unable to load root certificates: unable to parse bytes as PEM block"
    )
    assert await failure(hooks, clientConfig={"service": {"namespace": "n", "name": "s"}}) == (
        f'{failed}failed to call webhook: Post "https://s.n.svc:443/?timeout=30s": service "s" not found'
    )
    unknown = await failure(hooks, admissionReviewVersions=["v2"])
    assert unknown.startswith(f"{failed}could not create admission objects: webhook does not accept known AdmissionReview versions")


async def test_time(hooks: Hooks) -> None:
    """A webhook has the time that its configuration gives it."""
    hooks.blocked["/x"] = asyncio.Event()
    text = await failure(hooks, timeoutSeconds=1)
    assert text == (
        'failed calling webhook "x.example.com": failed to call webhook: '
        f'Post "{hooks.server.origin}/x?timeout=1s": context deadline exceeded'
    )


async def test_waiting_writes_are_bounded_for_each_cluster() -> None:
    """A write over the bound is refused; those of other clusters are not, and an end makes room."""
    calls = WebhookCalls(Caller(Networks(())), most_writes=1)
    async with calls.waiting(A):
        with pytest.raises(StatusError) as raised:
            async with calls.waiting(A):
                pass
        async with calls.waiting(B):
            pass
    assert raised.value.code == 429
    async with calls.waiting(A):
        pass


async def test_a_crowd_of_waiting_writes_leaves_room_for_other_clusters() -> None:
    """Where many writes wait for webhooks, a cluster may have few of them, and one without any still has room."""
    calls = WebhookCalls(Caller(Networks(())))
    async with AsyncExitStack() as stack:
        for number in range(1000):
            await stack.enter_async_context(calls.waiting(Name(f"crowd-{number % 8}")))
        for _ in range(16):
            await stack.enter_async_context(calls.waiting(A))
        for refused in (A, Name("crowd-0")):
            with pytest.raises(StatusError) as raised:
                async with calls.waiting(refused):
                    pass
            assert raised.value.code == 429
        async with calls.waiting(B):
            pass
    async with AsyncExitStack() as stack:
        for _ in range(128):
            await stack.enter_async_context(calls.waiting(A))
