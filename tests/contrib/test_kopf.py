"""The session that sends each write of a kopf operator to the cluster of its object."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest

pytest.importorskip("kopf", reason="kopf is not installed")

import kopf

from kcp_py.contrib import kopf as multicluster

DATABASE = "/apis/shop.example.com/v1/namespaces/default/databases/orders"
EVENTS = "/api/v1/namespaces/default/events"
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\ncontent-type: application/json\r\n\r\n{}"


@pytest.fixture
def anyio_backend() -> str:
    """Kopf runs on asyncio."""
    return "asyncio"


@contextlib.asynccontextmanager
async def recording_server() -> AsyncIterator[tuple[str, list[str]]]:
    """An HTTP server on a free port; its URL, and the request lines that it received."""
    requests: list[str] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode().lower()
                length = head.partition("content-length: ")[2].partition("\r\n")[0]
                await reader.readexactly(int(length or 0))
                requests.append(head.partition(" http/1.1")[0])
                writer.write(ANSWER)
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    async with server:
        yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", requests


@contextlib.asynccontextmanager
async def connected(url: str) -> AsyncIterator[kopf.AiohttpSession]:
    """What the login handler returns for this server, closed at the end."""
    connection = multicluster.connect(kopf.ConnectionInfo(server=url, token="t"))
    assert connection is not None
    try:
        yield connection
    finally:
        await connection.aiohttp_session.close()


def body(cluster: str, uid: str) -> dict[str, object]:
    return {"metadata": {"name": "orders", "uid": uid, "annotations": {multicluster.CLUSTER_ANNOTATION: cluster}}}


@pytest.mark.parametrize(
    ("server", "expected"),
    [
        pytest.param("https://host:6443", "https://host:6443/clusters/team-a", id="no cluster"),
        pytest.param("https://host:6443/", "https://host:6443/clusters/team-a", id="slash"),
        pytest.param("https://host:6443/clusters/root", "https://host:6443/clusters/team-a", id="another cluster"),
        pytest.param("https://host:6443/clusters/*", "https://host:6443/clusters/team-a", id="wildcard"),
        pytest.param("https://host/prefix/clusters/root", "https://host/prefix/clusters/team-a", id="behind a prefix"),
    ],
)
def test_server_of(server: str, expected: str) -> None:
    """The cluster of a URL is replaced, or added where there is none."""
    assert multicluster.server_of(server, "team-a") == expected


def test_cluster_of() -> None:
    """The annotation names the cluster; an object without it was not read through the wildcard."""
    assert multicluster.cluster_of(body("team-a", "1")) == "team-a"
    with pytest.raises(LookupError, match="not read below"):
        multicluster.cluster_of({"metadata": {"name": "orders"}})


def test_no_current_cluster_outside_of_handlers() -> None:
    """Outside a handler there is no current cluster, rather than a default one."""
    with pytest.raises(LookupError):
        multicluster.current_cluster()


def test_no_credentials_stay_none() -> None:
    """A login handler that found no credentials lets the next one try."""
    assert multicluster.connect(None) is None


@pytest.mark.anyio
async def test_reads_use_the_wildcard() -> None:
    """Lists and watches go to the wildcard, whatever cluster the kubeconfig names."""
    async with recording_server() as (url, requests), connected(f"{url}/clusters/root") as connection:
        assert connection.server == f"{url}/clusters/*"
        await connection.aiohttp_session.request("get", f"{connection.server}/apis")
        assert requests == ["get /clusters/*/apis"]


@pytest.mark.anyio
async def test_events_go_to_the_cluster_of_their_object() -> None:
    """An event finds the cluster by the uid of its object; one of an unknown object stays at the wildcard, which refuses it."""
    multicluster._clusters.remember("uid-a", "team-a")
    async with recording_server() as (url, requests), connected(url) as connection:
        for uid in ("uid-a", "uid-of-none"):
            payload = {"involvedObject": {"uid": uid}}
            await connection.aiohttp_session.request("post", connection.server + EVENTS, json=payload)
        assert requests == [f"post /clusters/team-a{EVENTS}", f"post /clusters/*{EVENTS}"]


@pytest.mark.anyio
async def test_writes_outside_of_handlers_name_no_cluster() -> None:
    """A write whose cluster is not known stays at the wildcard, where the server refuses it."""
    async with recording_server() as (url, requests), connected(url) as connection:
        await connection.aiohttp_session.request("patch", connection.server + DATABASE, json={})
        assert requests == [f"patch /clusters/*{DATABASE}"]


@pytest.mark.anyio
async def test_clusters_are_kept_apart_between_tasks() -> None:
    """Two objects that are handled at the same time write to their own clusters; other servers are left alone."""
    async with recording_server() as (url, requests), recording_server() as (elsewhere, others), connected(url) as connection:

        async def handle(cluster: str) -> None:
            multicluster._current.set(cluster)
            await asyncio.sleep(0)
            assert multicluster.current_cluster() == cluster
            await connection.aiohttp_session.request("patch", connection.server + DATABASE, json={})
            await connection.aiohttp_session.request("post", f"{elsewhere}/clusters/*/hook", json={})

        await asyncio.gather(handle("team-a"), handle("team-b"))
        assert sorted(requests) == [f"patch /clusters/team-a{DATABASE}", f"patch /clusters/team-b{DATABASE}"]
        assert others == ["post /clusters/*/hook"] * 2


@pytest.mark.anyio
async def test_peering_is_refused() -> None:
    """An operator that would read peering objects of tenants stops with a text that says what to do."""
    async with connected("http://127.0.0.1:1") as connection:
        with pytest.raises(RuntimeError, match="configure"):
            await connection.aiohttp_session.request("get", f"{connection.server}/apis/kopf.dev/v1/clusterkopfpeerings")
    settings = kopf.OperatorSettings()
    multicluster.configure(settings)
    assert settings.peering.standalone


@pytest.mark.anyio
async def test_a_closed_session_sends_nothing() -> None:
    """A closed session says so, which makes kopf log in again."""
    async with recording_server() as (url, requests), connected(url) as connection:
        await connection.aiohttp_session.close()
        assert connection.aiohttp_session.closed
        with pytest.raises(RuntimeError, match="closed"):
            await connection.aiohttp_session.request("get", f"{connection.server}/apis")
        assert requests == []


def test_remembered_clusters_are_bounded() -> None:
    """The clusters of the objects that were handled longest ago are forgotten first."""
    clusters = multicluster._Clusters()
    for number in range(multicluster.REMEMBERED_OBJECTS + 1):
        clusters.remember(str(number), "team-a")
    assert clusters.of("0") is None
    assert clusters.of("1") == "team-a"


def test_timers_of_lost_objects_stop() -> None:
    """An object that goes out of sight is marked as deleted, which stops its timers and daemons. Objects of other events are not."""
    for kind, marked in (("ADDED", False), ("MODIFIED", False), (None, False), ("DELETED", True)):
        event: dict[str, Any] = {"type": kind, "object": {"metadata": {"name": "orders"}}}
        multicluster.mark_deleted(event)
        assert ("deletionTimestamp" in event["object"]["metadata"]) is marked
    deleted: dict[str, Any] = {"type": "DELETED", "object": {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z"}}}
    multicluster.mark_deleted(deleted)
    assert deleted["object"]["metadata"]["deletionTimestamp"] == "2026-01-01T00:00:00Z"
