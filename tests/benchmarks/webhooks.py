"""The row about admission webhooks: one call, compared with the same bytes over a bare connection."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any, Final

import httpcore
import orjson

from kcp_py.admission.webhook.calls import WebhookCalls
from kcp_py.admission.webhook.definitions import parse_configuration
from kcp_py.admission.webhook.review import encode_review
from kcp_py.egress import Caller, Networks
from kcp_py.egress.connecting import client_context
from kcp_py.logicalcluster import Name
from tests.benchmarks.objects import KILOBYTE
from tests.benchmarks.row import Row
from tests.egress.https import HttpsServer, Request, http, issue

_CALLS: Final = 500
_ROUNDS: Final = 5


async def webhook_row(directory: Path) -> AsyncIterator[Row]:
    """A call of a webhook with its review and its answer: in turns with the bare round trip, each the best of its rounds."""
    async with HttpsServer(issue(directory, "127.0.0.1"), _allow) as server:
        request = _request()
        caller = Caller(Networks(("127.0.0.0/8",)))
        calls = WebhookCalls(caller)
        client = {"url": f"{server.origin}/x", "caBundle": server.certificate.bundle}
        rule = {"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}
        webhook: dict[str, Any] = {"name": "a.b.c", "clientConfig": client, "rules": [rule], "admissionReviewVersions": ["v1"]}
        (parsed,) = parse_configuration({"metadata": {"name": "c"}, "webhooks": [webhook]})
        body = encode_review("v1", "u", request)
        pool = httpcore.AsyncConnectionPool(ssl_context=client_context(server.certificate.authority))
        headers = [("Content-Type", "application/json"), ("Content-Length", str(len(body)))]

        async def ours() -> None:
            async with calls.waiting(Name("cluster")):
                assert (await calls.ask(parsed, Name("cluster"), request, size=0, mutating=False)).allowed

        async def bare() -> None:
            assert (await pool.request("POST", f"{server.origin}/x", headers=headers, content=body)).status == 200

        best = {ours: float("inf"), bare: float("inf")}
        for _ in range(_ROUNDS):
            for work in (ours, bare):
                best[work] = min(best[work], await _seconds(work))
            server.requests.clear()
        await pool.aclose()
        await caller.aclose()
    mine, theirs = best[ours], best[bare]
    yield Row("one webhook call", f"{mine * 1e6:,.0f} us", f"{theirs * 1e6:,.0f} us", f"{mine / theirs:.2f}x", "<= 1.3x")


async def _seconds(work: Callable[[], Awaitable[None]]) -> float:
    """The time of one call, one after the other over one connection."""
    await work()
    began = time.perf_counter()
    for _ in range(_CALLS):
        await work()
    return (time.perf_counter() - began) / _CALLS


async def _allow(request: Request) -> bytes:
    response = {"uid": request.json()["request"]["uid"], "allowed": True}
    return http(200, orjson.dumps({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response}))


def _request() -> dict[str, Any]:
    obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "x", "namespace": "default"}, "data": {"text": KILOBYTE}}
    return {"operation": "CREATE", "object": obj, "oldObject": None}


WEBHOOK_ROWS = {"webhook": webhook_row}
