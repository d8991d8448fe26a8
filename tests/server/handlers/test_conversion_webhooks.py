"""Which webhook is asked, what it is asked, how often, and with which limits."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from pathlib import Path

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.egress.https import Certificate, HttpsServer, Request
from tests.server.handlers.conftest import Api, Watch, options
from tests.server.handlers.convertedwidgets import (
    V1,
    V2,
    api,
    certificate,
    every,
    failing,
    field,
    hook,
    stored,
    widget,
)
from tests.server.handlers.converting import conversion, converting, sent, webhook
from tests.server.handlers.widgets import CRD, MERGE, install

__all__ = ["api", "certificate", "hook"]

pytestmark = pytest.mark.anyio


async def test_what_a_webhook_is_asked(api: Api, hook: HttpsServer) -> None:
    """A review as upstream writes it, of the stored object, in the first version that both know."""
    await install(api, converting(hook, reviews=("v9", "v1beta1", "v1")))
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    await api.ok("GET", f"{V2}/one")
    (request,) = hook.requests
    assert request.target == "/convert?timeout=30s"
    review = request.json()
    assert (review["apiVersion"], review["kind"]) == ("apiextensions.k8s.io/v1beta1", "ConversionReview")
    assert review["request"]["desiredAPIVersion"] == "example.com/v2"
    assert review["request"]["objects"] == [await stored(api, "one")]


async def test_how_often_a_webhook_is_asked(api: Api, hook: HttpsServer) -> None:
    """As often as upstream asks: for the old object, for the stored object, for the answer."""
    await install(api, converting(hook))
    created = await api.ok("POST", V2, widget("one", "v2", contentV2={"key": "k"}))
    assert sent(hook) == [1, 1]
    await api.ok("PUT", f"{V2}/one", {**created, "contentV2": {"key": "l"}})
    assert sent(hook) == [1, 1, 1]
    await api.ok("PATCH", f"{V2}/one", {"contentV2": {"key": "m"}}, headers=MERGE)
    assert sent(hook) == [1, 1, 1]
    await api.ok("PATCH", f"{V2}/one/status", {"status": {"ready": 1}}, headers=MERGE)
    assert sent(hook) == [1, 1, 1]
    await api.ok("GET", f"{V2}/one")
    assert sent(hook) == [1]
    await api.ok("GET", f"{V1}/one")
    await api.ok("PATCH", f"{V1}/one", {"content": {"key": "n"}}, headers=MERGE)
    # The old and the new object, in the version in which other managers own fields.
    assert sent(hook) == [1, 1]
    await api.ok("DELETE", f"{V2}/one")
    assert sent(hook) == [1, 1]


async def test_a_changed_webhook_is_asked_at_once(api: Api, hook: HttpsServer, certificate: Certificate) -> None:
    """A request after the change does not meet the old one, and without webhook the version alone changes."""
    await install(api, converting(hook))
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    assert "contentV2" in await api.ok("GET", f"{V2}/one")
    async with HttpsServer(certificate, webhook(every(numbers={"first": 9}))) as other:
        await api.ok("PATCH", CRD, {"spec": {"conversion": conversion(other)}}, headers=MERGE)
        assert (await api.ok("GET", f"{V2}/one"))["numbers"] == {"first": 9}
    await api.ok("PATCH", CRD, {"spec": {"conversion": {"strategy": "None", "webhook": None}}}, headers=MERGE)
    assert {"contentV2", "numbers"} & (await api.ok("GET", f"{V2}/one")).keys() == set()


async def test_watchers_share_the_conversion_of_an_event(api: Api, hook: HttpsServer) -> None:
    """However many there are, the webhook is asked once."""
    await install(api, converting(hook))
    async with AsyncExitStack() as stack:
        watches = [await stack.enter_async_context(Watch(api, V2)) for _ in range(5)]
        for watch in watches:
            assert watch.started["status"] == 200
        hub = api.control_plane.backend.fanout._hubs
        while len(getattr(hub.get("/registry/example.com/widgets/customresources/"), "by_cluster", {}).get("a", ())) < 5:
            await asyncio.sleep(0)
        sent(hook)
        await api.ok("POST", V1, widget("one", content={"key": "k"}))
        for watch in watches:
            event = await watch.next()
            assert event is not None
            assert event["object"]["contentV2"] == {"key": "k"}
        assert sent(hook) == [1]


async def test_each_cluster_has_its_own_webhook(api: Api, hook: HttpsServer, certificate: Certificate) -> None:
    """A list of all clusters asks each one for its own objects."""
    wildcard = "/clusters/*/apis/example.com/v2/widgets"
    async with HttpsServer(certificate, webhook(every(numbers={"first": 2}))) as other:
        for cluster, server in (("a", hook), ("b", other)):
            await install(api, converting(server), cluster)
            for name in ("one", "two"):
                await api.ok("POST", V1.replace("/a/", f"/{cluster}/"), widget(name, content={"key": cluster}))
        listed = await api.ok("GET", wildcard)
        found = [(item["metadata"]["annotations"]["kcp.io/cluster"], item["contentV2"]["key"]) for item in listed["items"]]
        assert found == [("a", "a"), ("a", "a"), ("b", "b"), ("b", "b")]
        assert [item.get("numbers") for item in listed["items"]] == [None, None, {"first": 2}, {"first": 2}]
        assert (sent(hook), sent(other)) == ([2], [2])
        accept = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}
        partial = await api.ok("GET", wildcard, headers=accept)
        assert [item["metadata"]["name"] for item in partial["items"]] == ["one", "two"] * 2
        async with Watch(api, wildcard, {"Accept": accept["Accept"].replace("List", "")}, resourceVersion="0") as watch:
            assert [await watch.brief() for _ in range(4)] == [("ADDED", "one"), ("ADDED", "two")] * 2
            await api.ok("DELETE", f"{V1}/one")
            assert await watch.brief() == ("DELETED", "one")
        assert (sent(hook), sent(other)) == ([], [])
        other.respond = webhook(field("result", {"message": "x" * 100_000}))
        answer = await api("GET", wildcard)
        assert [item["metadata"]["annotations"]["kcp.io/cluster"] for item in answer.json()["items"]] == ["a"]
        assert len(answer.headers["Warning"]) < 1_000
        assert len((await api.ok("GET", wildcard, headers=accept))["items"]) == 3


async def test_a_webhook_that_fails_hides_nothing_that_it_need_not_convert(api: Api, hook: HttpsServer) -> None:
    """Over all clusters, lists and watches in the stored version have every object, after a list in another one has failed."""
    await install(api, converting(hook))
    await api.ok("POST", V1, widget("one", content={"key": "k"}, metadata={"name": "one", "labels": {"x": "y"}}))
    hook.respond = webhook(field("result", {"message": "broken"}))
    wildcard = "/clusters/*/apis/example.com/{}/widgets"
    table = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
    assert (await api.ok("GET", wildcard.format("v2")))["items"] == []
    assert len((await api.ok("GET", wildcard.format("v1"), headers=table))["rows"]) == 1
    selector = {"labelSelector": "x=y"}
    assert [item["metadata"]["name"] for item in (await api.ok("GET", wildcard.format("v1"), params=selector))["items"]] == ["one"]
    async with Watch(api, wildcard.format("v1"), None, **selector) as watch:
        assert await watch.brief() == ("ADDED", "one")


async def test_a_webhook_that_hangs_keeps_no_large_requests_waiting(tmp_path: Path, certificate: Certificate) -> None:
    """While one object waits for its webhook, another large one is created, though there is room to work on only one at a time."""
    asked, answer = asyncio.Event(), asyncio.Event()
    convert = webhook()

    async def respond(request: Request) -> bytes:
        asked.set()
        await answer.wait()
        return await convert(request)

    given = options(tmp_path, webhook_networks=("127.0.0.0/8",), max_body_bytes_in_flight=1024 * 1024)
    async with (
        HttpsServer(certificate, respond) as server,
        ControlPlane(given) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        await install(api, converting(server))
        large = {"key": "k" * 300_000}
        waiting = asyncio.create_task(api.ok("POST", V2, widget("one", "v2", contentV2=large)))
        await asked.wait()
        await api.ok("POST", V1, widget("two", content=large))
        assert not waiting.done()
        answer.set()
        assert (await waiting)["contentV2"] == large


async def test_webhooks_of_the_operators_networks_are_not_called(tmp_path: Path, hook: HttpsServer) -> None:
    """Unless the operator says so."""
    async with ControlPlane(options(tmp_path)) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            await install(api, converting(hook))
            await api.ok("POST", V1, widget("one", content={"key": "k"}))
            await failing(api, "127.0.0.1 is in no network that webhooks may reach")
    assert hook.connections == 0


async def test_services_that_nobody_resolves_are_not_found(api: Api) -> None:
    """With the URL that upstream shows."""
    crd = converting(None)
    client = {"service": {"namespace": "team", "name": "convert", "path": "/x"}}
    crd["spec"]["conversion"] = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    await install(api, crd)
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    await failing(api, 'failed: Post "https://convert.team.svc:443/x?timeout=30s": service "convert" not found')
