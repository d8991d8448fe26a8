"""Faults that a test adds, over HTTP and in the process, in running watches and in the store."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing
from pathlib import Path
from typing import Any, NamedTuple

import httpx
import pytest

from kcp_py import GroupVersionResource, Name, WrappedStorage, errors
from kcp_py.client.remote import RemoteClient
from kcp_py.storage.contract import UnavailableError
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.wrapping import driver_of
from kcp_py.testing import FakeClock, Faults, LocalServer, control_plane
from kcp_py.testing.faults import ClusterFaults
from tests.eventloop import until_idle

pytestmark = pytest.mark.anyio

MAPS = GroupVersionResource("", "v1", "configmaps")
SECRETS = GroupVersionResource("", "v1", "secrets")


def config_map(name: str, namespace: str = "default") -> dict[str, Any]:
    """A ConfigMap."""
    return {"metadata": {"name": name, "namespace": namespace}}


class Setting(NamedTuple):
    """A server with faults, and one of its clusters."""

    faults: Faults
    server: LocalServer
    cluster: Name

    async def answers(self, client: Any = None) -> int:
        """The code of a list of ConfigMaps; 200 for a list."""
        try:
            await (client or self.server.client).list(self.cluster, MAPS)
        except errors.StatusError as error:
            return error.code
        return 200

    async def writes(self, name: str, resource: GroupVersionResource = MAPS) -> int:
        """The code of the creation of an object."""
        try:
            await self.server.client.create(self.cluster, resource, config_map(name))
        except errors.StatusError as error:
            return error.code
        return 201


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    """A server without controllers."""
    faults = Faults()
    async with control_plane(parts=faults.parts, controllers=()) as server:
        yield Setting(faults, server, (await server.new_cluster()).name)


@pytest.fixture
async def remote(setting: Setting, tmp_path: Path) -> AsyncIterator[RemoteClient]:
    """A client of the server over HTTPS."""
    await setting.server.serve()
    kubeconfig = tmp_path / "kubeconfig"
    kubeconfig.write_text(json.dumps(setting.server.access.kubeconfig(setting.cluster)))
    async with RemoteClient.of_kubeconfig(str(kubeconfig)) as client:
        yield client


async def test_writes_conflict_as_often_as_the_rule_says(setting: Setting) -> None:
    """Other resources and other clusters are not affected."""
    faults, server, one = setting
    other = (await server.new_cluster()).name
    rule = faults.conflict(cluster=one, resource="configmaps", times=2)
    for _ in range(2):
        with pytest.raises(errors.StatusError, match="the object has been modified") as raised:
            await server.client.create(one, MAPS, config_map("a"))
        assert (raised.value.code, raised.value.reason) == (409, "Conflict")
        await server.client.create(other, MAPS, {"metadata": {"generateName": "s-", "namespace": "default"}})
        await server.client.create(one, SECRETS, {"metadata": {"generateName": "s-", "namespace": "default"}})
    assert (rule.remaining, rule.happened) == (0, 2)
    await server.client.create(one, MAPS, config_map("a"))
    assert faults.rules == (rule,)
    assert "conflict" in repr(rule)


async def test_each_fault_has_its_code(setting: Setting) -> None:
    """The order of rules is that of their creation, and `clear` removes them."""
    faults = setting.faults
    faults.too_many_requests(7, verb="create", times=1)
    faults.internal_error(name="a", times=1)
    faults.unavailable(user="system:apiserver", times=1)
    faults.timeout(times=1)
    faults.internal_error(user="nina")
    assert [await setting.writes("a") for _ in range(4)] == [429, 500, 503, 504]
    faults.internal_error()
    faults.clear()
    assert await setting.writes("a") == 201


async def test_reads_fail_over_http_and_in_the_process(setting: Setting, remote: RemoteClient) -> None:
    """`way` selects one of them, and the requests of the test itself are spared."""
    faults, server, name = setting
    for way, codes in (("http", (410, 200)), ("process", (200, 410))):
        rule = faults.expired(resource="configmaps", verb="list", way=way)  # type: ignore[arg-type]
        assert (await setting.answers(remote), await setting.answers()) == codes
        rule.stop()
    faults.expired(resource="configmaps", times=2)
    assert (await setting.answers(remote), await setting.answers(), await setting.answers()) == (410, 410, 200)
    faults.internal_error()
    cluster = await server.new_cluster()
    assert await cluster.list("configmaps") == []
    assert await setting.answers() == 500
    assert name != cluster.name


async def test_requests_are_selected_by_all_of_their_parts(setting: Setting, remote: RemoteClient) -> None:
    """Namespace, name, verb, subresource and the client that makes it."""
    faults, server, cluster = setting
    client = server.client
    await client.create(cluster, MAPS, config_map("a"))
    faults.internal_error(namespace="other")
    faults.internal_error(name="b")
    faults.internal_error(subresource="status")
    faults.internal_error(cluster="*")
    faults.internal_error(user_agent="kubectl/")
    faults.internal_error(resource="configmaps.apps")
    assert (await client.get(cluster, MAPS, "default", "a"))["metadata"]["name"] == "a"
    assert await remote.get(cluster, MAPS, "default", "a")
    assert [rule.happened for rule in faults.rules] == [0] * 6
    with pytest.raises(errors.StatusError):
        await client.get(cluster, MAPS, "default", "b")
    faults.clear()
    by_agent = faults.internal_error(user_agent="kcp", verb="patch")
    with pytest.raises(errors.StatusError):
        await remote.patch(cluster, MAPS, "default", "a", document={"data": {"b": "c"}})
    await client.patch(cluster, MAPS, "default", "a", document={"data": {"b": "c"}})
    assert by_agent.happened == 1
    by_agent.stop()
    updates = faults.conflict(verb="update")
    with pytest.raises(errors.StatusError):
        await client.patch(cluster, MAPS, "default", "a", document={"data": {"b": "d"}})
    assert updates.happened == 1


async def test_a_probability_is_that_of_the_seed() -> None:
    """Equal seeds give equal faults, and other ones differ."""

    async def run(seed: int) -> list[int]:
        faults = Faults(seed=seed)
        async with control_plane(parts=faults.parts, controllers=()) as server:
            setting = Setting(faults, server, (await server.new_cluster()).name)
            faults.internal_error(verb="list", probability=0.5)
            return [await setting.answers() for _ in range(24)]

    first = await run(1)
    assert first == await run(1)
    assert first != await run(2)
    assert set(first) == {200, 500}


async def test_the_first_requests_pass(setting: Setting) -> None:
    """Those that a rule skips do not count as `times`."""
    setting.faults.internal_error(skip=2, times=1)
    assert [await setting.answers() for _ in range(4)] == [200, 200, 500, 200]


@pytest.mark.parametrize(
    ("selection", "text"),
    [
        pytest.param({"times": 0}, "at least once", id="never"),
        pytest.param({"probability": 0}, "probability", id="improbable"),
        pytest.param({"skip": -1}, "skip", id="skips less than nothing"),
        pytest.param({"verb": "post"}, "no verb 'post'", id="verb"),
        pytest.param({"resource": "ConfigMap"}, "written as configmaps", id="kind"),
        pytest.param({"resource": "apps/v1/deployments"}, "written as configmaps", id="version"),
        pytest.param({"cluster": "A B"}, "not the name of a logical cluster", id="cluster"),
        pytest.param({"labels": "a=b"}, "not selected by labels", id="unknown"),
        pytest.param({"way": "grpc"}, "http or process", id="way"),
        pytest.param({"way": "process", "user_agent": "kubectl/"}, "no user agent", id="agent of the process"),
    ],
)
async def test_a_rule_that_would_never_happen_is_refused(selection: Any, text: str) -> None:
    """The error says why."""
    with pytest.raises(ValueError, match=text):
        Faults().conflict(**selection)
    with pytest.raises(ValueError, match="not one of"):
        Faults().cut_watches("bang")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="finite"):
        Faults().latency(-1)


class Watching:
    """A watch of ConfigMaps that a task reads."""

    def __init__(self, client: Any, cluster: Name, version: str) -> None:
        self.names: list[str] = []
        self.error: errors.StatusError | None = None
        self.seen = asyncio.Event()
        self.task = asyncio.ensure_future(self._run(client, cluster, version))

    async def _run(self, client: Any, cluster: Name, version: str) -> None:
        try:
            async with aclosing(client.watch(cluster, MAPS, resource_version=version)) as events:
                async for event in events:
                    self.names.append(event.obj["metadata"]["name"])
                    self.seen.set()
        except errors.StatusError as error:
            self.error = error


async def watching(setting: Setting, client: Any) -> Watching:
    """A watch that runs: it has shown an object."""
    listed = await setting.server.client.list(setting.cluster, MAPS)
    made = Watching(client, setting.cluster, listed.resource_version)
    await setting.server.client.create(setting.cluster, MAPS, {"metadata": {"generateName": "w-", "namespace": "default"}})
    await asyncio.wait_for(made.seen.wait(), 30)
    return made


@pytest.mark.parametrize("way", ["http", "process"])
async def test_running_watches_are_cut(setting: Setting, remote: RemoteClient, way: str) -> None:
    """In order, by the connection, and with 410. Those of other users and clusters go on."""
    client = remote if way == "http" else setting.server.client
    for how in ("end", "reset", "expired"):
        cut = await watching(setting, client)
        assert setting.faults.cut_watches(how, cluster="another") == 0
        assert setting.faults.cut_watches(how, verb="list") == 0
        assert setting.faults.cut_watches(how, cluster=setting.cluster, resource="configmaps", way=way) == 1  # type: ignore[arg-type]
        await asyncio.wait_for(cut.task, 30)
        assert (cut.error.code if cut.error else 0) == (410 if how == "expired" else 0)
        assert setting.faults.cut_watches() == 0


async def test_a_reset_is_no_end_of_the_body(setting: Setting) -> None:
    """Clients that look see a connection that broke, and not an end."""
    await setting.server.serve()
    access = setting.server.access
    context = ssl.create_default_context(cadata=(access.authority or b"").decode())
    async with httpx.AsyncClient(verify=context, headers={"authorization": f"Bearer {access.token}"}) as client:
        url = f"{access.url}/clusters/{setting.cluster}/api/v1/configmaps?watch=true"
        for how in ("end", "reset"):
            async with client.stream("GET", url) as response:
                assert response.status_code == 200
                assert setting.faults.cut_watches(how) == 1
                if how == "end":
                    assert await response.aread() == b""
                else:
                    with pytest.raises((httpx.RemoteProtocolError, httpx.ReadError)):
                        await response.aread()


async def test_watches_are_short() -> None:
    """They end when the clock says so; the controller has to begin again."""
    clock = FakeClock(frozen=True)
    faults = Faults(clock)
    async with control_plane(parts={**faults.parts, "clock": clock}, controllers=()) as server:
        setting = Setting(faults, server, (await server.new_cluster()).name)
        rule = faults.short_watches(10, "expired", resource="configmaps", times=1)
        short = await watching(setting, server.client)
        await clock.advance(9)
        assert not short.task.done()
        await clock.advance(1)
        await asyncio.wait_for(short.task, 30)
        assert short.error is not None
        again = await watching(setting, server.client)
        await clock.advance(100)
        await until_idle()
        assert not again.task.done()
        again.task.cancel()
        assert rule.happened == 1


async def test_connections_are_cut_in_place_of_an_answer(setting: Setting, remote: RemoteClient) -> None:
    """Before the request, or after it: the object is stored then."""
    setting.faults.disconnect(verb="create", times=1)
    with pytest.raises(errors.StatusError):
        await remote.create(setting.cluster, MAPS, config_map("a"))
    setting.faults.disconnect(verb="create", afterwards=True, times=1)
    with pytest.raises(errors.StatusError):
        await remote.create(setting.cluster, MAPS, config_map("b"))
    assert [one["metadata"]["name"] for one in (await remote.list(setting.cluster, MAPS)).items] == ["b"]
    await remote.create(setting.cluster, MAPS, config_map("a"))


async def test_the_store_fails(setting: Setting) -> None:
    """For one resource of one cluster, with the error that is asked for; the server goes on."""
    faults, server, cluster = setting
    other = (await server.new_cluster()).name
    await server.client.create(cluster, MAPS, config_map("first"))
    await server.client.create(other, MAPS, config_map("first"))
    for error, code in (("unavailable", 503), ("full", 507), ("unknown", 504)):
        rule = faults.storage_error(error, cluster=cluster, resource="configmaps")  # type: ignore[arg-type]
        assert await setting.writes("a") == code
        assert await setting.writes("a", SECRETS) == (201 if code == 503 else 409)
        await server.client.create(other, MAPS, {"metadata": {"generateName": "o-", "namespace": "default"}})
        assert rule.happened >= 1
        rule.stop()
    faults.storage_error(lambda: UnavailableError("gone"), method="range", cluster=cluster, resource="configmaps", times=1)
    assert [await setting.answers(), await setting.answers()] == [503, 200]


async def test_a_write_whose_answer_is_lost_is_stored(setting: Setting) -> None:
    """The client gets 504, or what the server finds when it looks; the object is there."""
    setting.faults.storage_error("unknown", afterwards=True, name="a", times=1)
    assert await setting.writes("a") in {201, 504}
    found = await setting.server.client.get(setting.cluster, MAPS, "default", "a")
    assert found["metadata"]["name"] == "a"


async def test_watches_of_the_store_that_fail_are_made_again(setting: Setting) -> None:
    """The server reads on, and clients miss nothing."""
    informed = await watching(setting, setting.server.client)
    rule = setting.faults.storage_error(method="watch", times=1)
    # The step that waits now ends with a change.
    assert await setting.writes("a") == 201
    async with asyncio.timeout(30):
        while not rule.happened or "a" not in informed.names:
            await setting.writes("b")
            await setting.server.client.delete(setting.cluster, MAPS, "default", "b")
            await asyncio.sleep(0)
    informed.task.cancel()


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        pytest.param({"user": "nina"}, "does not know: user", id="user"),
        pytest.param({"verb": "get"}, "does not know: verb", id="verb"),
        pytest.param({"method": "watch", "cluster": "a"}, "for all clusters", id="watch of a cluster"),
        pytest.param({"error": "broken"}, "not one of", id="error"),
    ],
)
async def test_a_rule_for_the_store_that_would_never_happen_is_refused(arguments: Any, text: str) -> None:
    """A store knows keys, and no users."""
    with pytest.raises(ValueError, match=text):
        Faults().storage_error(**arguments)


async def test_latency_of_the_store_is_time_of_the_clock() -> None:
    """A write waits until the clock has gone on."""
    clock = FakeClock(frozen=True)
    faults = Faults(clock)
    async with control_plane(parts={**faults.parts, "clock": clock}, controllers=()) as server:
        setting = Setting(faults, server, (await server.new_cluster()).name)
        await setting.writes("first")
        faults.storage_latency(5, method="transact", resource="configmaps")
        writing = asyncio.ensure_future(setting.writes("a"))
        await until_idle()
        await clock.advance(4.9)
        assert not writing.done()
        await clock.advance(0.2)
        assert await asyncio.wait_for(writing, 30) == 201


async def test_rules_of_a_test_are_for_its_cluster(setting: Setting) -> None:
    """Whatever they select; and they end with the test."""
    mine = ClusterFaults(setting.faults, "another")
    mine.internal_error()
    mine.storage_error()
    mine.short_watches(0)
    running = await watching(setting, setting.server.client)
    assert mine.cut_watches() == 0
    assert await setting.writes("a") == 201
    assert [rule.happened for rule in mine.rules] == [0, 0, 0]
    named = mine.internal_error(cluster=setting.cluster)
    assert await setting.writes("b") == 500
    mine.remove(named)
    assert await setting.writes("b") == 201
    mine.clear()
    assert not setting.faults.rules
    assert not running.task.done()
    running.task.cancel()


async def test_a_store_of_the_program_is_wrapped() -> None:
    """Parts of a program and those of the faults are used together."""
    own = MemoryStorage()
    for given in (own, WrappedStorage):
        faults = Faults()
        async with control_plane(parts=faults.added_to({"storage": given}), controllers=()) as server:
            setting = Setting(faults, server, (await server.new_cluster()).name)
            found = driver_of(server.control_plane.backend.access.storage)
            assert found is own if given is own else isinstance(found, MemoryStorage)
            faults.storage_error(times=1)
            assert await setting.writes("a") == 503
