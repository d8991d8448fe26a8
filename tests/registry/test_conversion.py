"""Objects on their way through a webhook: which are sent together, and which are not sent."""

from __future__ import annotations

import base64
from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.egress import Answer, CallError, Endpoint, Service
from kcp_py.registry.conversion import NoWebhooks, WebhookConverter

pytestmark = pytest.mark.anyio

SPEC: dict[str, Any] = {
    "group": "example.com",
    "versions": [{"name": name} for name in ("v1", "v2", "v3")],
    "conversion": {
        "strategy": "Webhook",
        "webhook": {
            "clientConfig": {"url": "https://hook.example.com/convert", "caBundle": base64.b64encode(b"pem").decode()},
            "conversionReviewVersions": ["v1"],
        },
    },
}


class Webhook:
    """Converts by changing the version, and remembers what it was asked."""

    def __init__(self, *, wrong: str = "") -> None:
        self.endpoints: list[Endpoint] = []
        self.batches: list[list[str]] = []
        self.bounds: list[tuple[int, int]] = []
        self.wrong = wrong

    async def post(self, endpoint: Endpoint, body: bytes, *, max_bytes: int) -> Answer:
        self.endpoints.append(endpoint)
        self.bounds.append((len(body), max_bytes))
        request = orjson.loads(body)["request"]
        self.batches.append([obj["metadata"]["name"] for obj in request["objects"]])
        objects = [{**obj, "apiVersion": request["desiredAPIVersion"]} for obj in request["objects"]]
        for obj in objects:
            if obj["metadata"]["name"] == self.wrong:
                obj["kind"] = "Other"
        response = {"uid": request["uid"], "result": {"status": "Success"}, "convertedObjects": objects}
        return Answer(200, orjson.dumps({"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": response}))


def obj(name: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name, "uid": name}, **more}


async def test_a_sparse_list_keeps_its_order() -> None:
    """Objects that have the version already are not sent, and stay where they are."""
    webhook = Webhook()
    objects = [obj("a", "v2"), obj("b"), obj("c", "v3"), obj("d", "v2"), obj("e")]
    converted = await WebhookConverter(SPEC, webhook)(objects, "example.com/v2")
    assert converted == [obj(name, "v2") for name in "abcde"]
    assert webhook.batches == [["b", "c", "e"]]
    assert converted[0] is objects[0]


async def test_nothing_to_convert_is_no_call() -> None:
    """Nor an empty list."""
    webhook = Webhook()
    converter = WebhookConverter(SPEC, webhook)
    assert await converter([], "example.com/v2") == []
    assert await converter([obj("a", "v2")], "example.com/v2") == [obj("a", "v2")]
    assert webhook.batches == []


async def test_many_and_large_objects_go_in_several_calls() -> None:
    """Each bounded in number and in bytes, and answers may be twice as large."""
    webhook = Webhook()
    converter = WebhookConverter(SPEC, webhook)
    many = [obj(str(number)) for number in range(1201)]
    assert [one["metadata"]["name"] for one in await converter(many, "example.com/v2")] == [str(number) for number in range(1201)]
    assert [len(batch) for batch in webhook.batches] == [500, 500, 201]
    webhook.batches.clear()
    large = [obj(str(number), text="x" * 400_000) for number in range(5)] + [obj("huge", text="x" * 2_500_000)]
    await converter(large, "example.com/v2")
    assert [len(batch) for batch in webhook.batches] == [2, 2, 1, 1]
    assert all(allowed >= max(2 * size, 3 * 1024 * 1024) for size, allowed in webhook.bounds)


async def test_versions_that_the_crd_has_no_more_are_not_sent() -> None:
    """Their meaning is unknown."""
    webhook = Webhook()
    with pytest.raises(StatusError, match=r"request to convert CR from an invalid group/version: example\.com/v0"):
        await WebhookConverter(SPEC, webhook)([obj("a", "v0")], "example.com/v2")
    assert webhook.batches == []


async def test_faults_in_a_list_are_reported_with_their_place() -> None:
    """Counted among those that were sent."""
    with pytest.raises(StatusError) as caught:
        await WebhookConverter(SPEC, Webhook(wrong="c"))([obj("a", "v2"), obj("b"), obj("c")], "example.com/v2")
    assert (caught.value.code, caught.value.reason) == (500, "InternalError")
    assert caught.value.message == (
        "Internal error occurred: conversion webhook for example.com/v1, Kind=Widget returned invalid converted object at index 1: "
        "invalid kind (expected Widget, received Other)"
    )


@pytest.mark.parametrize(
    ("client", "endpoint"),
    [
        ({"url": "https://h/convert", "caBundle": "cGVt"}, Endpoint("https://h/convert", b"pem")),
        ({"url": "https://h:1"}, Endpoint("https://h:1/")),
        ({"url": "https://h", "caBundle": "?"}, Endpoint("https://h/", b"-")),
        ({"service": {"namespace": "ns", "name": "svc"}}, Endpoint("https://svc.ns.svc:443/", b"", Service("ns", "svc", 443))),
        (
            {"service": {"namespace": "ns", "name": "svc", "port": 8443, "path": "/a b?c"}},
            Endpoint("https://svc.ns.svc:8443/a%20b%3Fc", b"", Service("ns", "svc", 8443)),
        ),
    ],
    ids=["url", "url without path", "broken bundle", "service", "service with port and path"],
)
async def test_what_is_called(client: dict[str, Any], endpoint: Endpoint) -> None:
    """The URL, or that of the service, with authorities that are not certificates where the bundle is broken."""
    webhook = Webhook()
    spec = {**SPEC, "conversion": {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}}
    await WebhookConverter(spec, webhook)([obj("a")], "example.com/v2")
    assert webhook.endpoints == [endpoint]


async def test_without_a_caller_nothing_is_called() -> None:
    """Which is an internal error as any other."""
    with pytest.raises(StatusError, match=r"conversion webhook for example\.com/v1, Kind=Widget failed: Post .* webhooks are not called"):
        await WebhookConverter(SPEC, NoWebhooks())([obj("a")], "example.com/v2")
    with pytest.raises(CallError):
        await NoWebhooks().post(Endpoint("https://h/"), b"", max_bytes=1)


async def test_a_webhook_that_speaks_no_known_version_is_not_called() -> None:
    """As upstream."""
    webhook = Webhook()
    spec = {**SPEC, "conversion": {"webhook": {**SPEC["conversion"]["webhook"], "conversionReviewVersions": ["v9"]}}}
    with pytest.raises(StatusError, match="no supported conversion review versions"):
        await WebhookConverter(spec, webhook)([obj("a")], "example.com/v2")
    assert webhook.batches == []
