"""Faults and time of a test server over HTTP."""

import ssl
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from kcp_py import ControlPlane, GroupVersionResource, Options, errors
from kcp_py.testing import FakeClock, Faults, LocalServer, control_plane
from kcp_py.testing.remotecontrol import MOST_BYTES, PATH, RemoteControl

pytestmark = pytest.mark.anyio

MAPS = GroupVersionResource("", "v1", "configmaps")
EVENTS = GroupVersionResource("", "v1", "events")


class Setting:
    """A server that is controlled over HTTP."""

    def __init__(self, server: LocalServer, http: httpx.AsyncClient, faults: Faults) -> None:
        self.server = server
        self.http = http
        self.faults = faults

    async def ask(self, method: str, path: str, body: Any = None, **options: Any) -> tuple[int, Any]:
        """The code and the decoded answer of a request."""
        answer = await self.http.request(method, f"{self.server.url}{PATH}{path}", json=body, **options)
        return answer.status_code, answer.json()


@pytest.fixture
async def setting() -> AsyncIterator[Setting]:
    """A server whose clock stands at the first of January 2030."""
    clock = FakeClock(datetime(2030, 1, 1, tzinfo=UTC), frozen=True)
    faults = Faults(clock)

    def create(options: Options, **arguments: Any) -> ControlPlane:
        plane = ControlPlane(options, clock=clock, **faults.added_to(arguments))
        plane.mount(PATH, RemoteControl(faults, clock, most_rules=3))
        return plane

    settings: dict[str, Any] = {"plain_http": True, "controllers": ("event-ttl-controller",), "event_ttl": 3600.0}
    async with control_plane(create, serve=True, **settings) as server, httpx.AsyncClient() as http:
        http.headers["authorization"] = f"Bearer {server.access.token}"
        yield Setting(server, http, faults)


async def test_rules_are_set_listed_and_removed(setting: Setting) -> None:
    """Each has a number, its selection, and the times that it has happened."""
    cluster = await setting.server.new_cluster()
    wanted = {"kind": "conflict", "cluster": cluster.name, "resource": "configmaps", "times": 2, "userAgent": "python-httpx/"}
    assert await setting.ask("POST", "/faults", wanted) == (201, {"id": 1, **wanted, "happened": 0, "remaining": 2})
    assert (await setting.ask("POST", "/faults", {"kind": "latency", "seconds": 0.5, "cluster": "other"}))[0] == 201
    objects = f"{setting.server.url}/clusters/{cluster.name}/api/v1/namespaces/default/configmaps"
    answers = [await setting.http.post(objects, json={"metadata": {"name": "a"}}) for _ in range(3)]
    assert [answer.status_code for answer in answers] == [409, 409, 201]
    code, listed = await setting.ask("GET", "/faults")
    assert code == 200
    assert [(rule["id"], rule["kind"], rule["happened"]) for rule in listed["faults"]] == [(1, "conflict", 2), (2, "latency", 0)]
    assert (await setting.ask("GET", "/faults/1"))[1]["remaining"] == 0
    assert await setting.ask("DELETE", f"/faults?cluster={cluster.name}") == (200, {"removed": 1})
    assert (await setting.ask("DELETE", "/faults/2"))[1]["id"] == 2
    assert (await setting.ask("DELETE", "/faults/2"))[0] == 404
    assert await setting.ask("GET", "/faults") == (200, {"faults": []})
    assert not setting.faults.rules


@pytest.mark.parametrize(
    "body",
    [
        {"kind": "tooManyRequests", "retryAfter": 2},
        {"kind": "unavailable"},
        {"kind": "disconnect", "afterwards": True},
        {"kind": "shortWatches", "seconds": 3, "how": "expired"},
        {"kind": "storageError", "error": "full", "method": "transact"},
        {"kind": "storageLatency", "seconds": 0.1, "probability": 0.5, "skip": 1},
    ],
    ids=lambda body: body["kind"],
)
async def test_every_kind_of_fault_can_be_set(setting: Setting, body: dict[str, Any]) -> None:
    """With its own fields."""
    code, rule = await setting.ask("POST", "/faults", body)
    assert (code, rule["kind"]) == (201, body["kind"])


@pytest.mark.parametrize(
    ("path", "body", "text"),
    [
        pytest.param("/faults", {}, "kind is one of latency, conflict", id="no kind"),
        pytest.param("/faults", {"kind": "clear"}, "kind is one of", id="a method that is no fault"),
        pytest.param("/faults", {"kind": "conflict", "seconds": 1}, "conflict has no field seconds", id="field of another kind"),
        pytest.param("/faults", {"kind": "conflict", "colour": "red"}, "not selected by colour", id="unknown field"),
        pytest.param("/faults", {"kind": "conflict", "times": "3"}, "times is a number", id="text for a number"),
        pytest.param("/faults", {"kind": "conflict", "times": True}, "times is a number", id="boolean for a number"),
        pytest.param("/faults", {"kind": "conflict", "user": 3}, "user is a text", id="number for a text"),
        pytest.param("/faults", {"kind": "latency"}, "latency needs seconds", id="no seconds"),
        pytest.param("/faults", {"kind": "latency", "seconds": -1}, "not negative", id="negative"),
        pytest.param("/faults", {"kind": "storageError", "user": "nina"}, "does not know: user", id="never"),
        pytest.param("/watches", {"how": "bang"}, "not one of", id="how"),
        pytest.param("/faults", [], "not an object", id="list"),
        pytest.param("/clock", {"advance": "soon"}, "soon", id="duration"),
        pytest.param("/clock", {"advance": -5}, "forward only", id="backwards"),
        pytest.param("/clock", {"advance": True}, "seconds", id="boolean"),
        pytest.param("/clock", {"to": "2029-12-31T00:00:00Z"}, "forward only", id="to the past"),
        pytest.param("/clock", {"to": "2031-01-01"}, "such as", id="without a zone"),
        pytest.param("/clock", {"advance": 1, "to": "2031-01-01T00:00:00Z"}, "exclude", id="both"),
        pytest.param("/clock", {"rewind": 1}, "no field rewind", id="unknown"),
    ],
)
async def test_a_wrong_request_is_answered_with_400(setting: Setting, path: str, body: Any, text: str) -> None:
    """The Status names the field, and nothing has changed."""
    before = await setting.ask("GET", "/clock")
    code, status = await setting.ask("POST", path, body)
    assert (code, status["kind"], status["reason"]) == (400, "Status", "BadRequest")
    assert text in status["message"]
    assert await setting.ask("GET", "/clock") == before
    assert await setting.ask("GET", "/faults") == (200, {"faults": []})


async def test_time_passes(setting: Setting) -> None:
    """The controllers have done all due work when the answer comes."""
    cluster = await setting.server.new_cluster()
    event = {"metadata": {"name": "e", "namespace": "default"}, "involvedObject": {"namespace": "default"}, "type": "Normal"}
    await setting.server.client.create(cluster.name, EVENTS, event)
    assert await setting.ask("GET", "/clock") == (200, {"now": "2030-01-01T00:00:00.000000Z"})
    assert await setting.ask("POST", "/clock", {"advance": "59m"}) == (200, {"now": "2030-01-01T00:59:00.000000Z"})
    assert len((await setting.server.client.list(cluster.name, EVENTS, "default")).items) == 1
    assert (await setting.ask("POST", "/clock", {"advance": 600}))[0] == 200
    assert (await setting.server.client.list(cluster.name, EVENTS, "default")).items == []
    assert await setting.ask("POST", "/clock", {"to": "2031-01-01T00:00:00Z", "settle": False}) == (
        200,
        {"now": "2031-01-01T00:00:00.000000Z"},
    )
    assert (await setting.ask("POST", "/clock", {}))[0] == 200


async def test_watches_are_ended(setting: Setting) -> None:
    """The number of them is the answer."""
    cluster = await setting.server.new_cluster()
    url = f"{setting.server.url}/clusters/{cluster.name}/api/v1/configmaps?watch=true&resourceVersion=0"
    async with setting.http.stream("GET", url) as response:
        assert response.status_code == 200
        assert await setting.ask("POST", "/watches", {"how": "expired", "cluster": "other"}) == (200, {"ended": 0})
        assert await setting.ask("POST", "/watches", {"how": "expired", "cluster": cluster.name}) == (200, {"ended": 1})
        assert b'"code":410' in await response.aread()


async def test_only_administrators_of_the_server_have_it(setting: Setting) -> None:
    """Neither anonymous callers nor other users, not even administrators of one logical cluster, below no path."""
    cluster = await setting.server.new_cluster()
    user = setting.server.add_user("nina")
    binding = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": "nina"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
        "subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "nina"}],
    }
    await cluster.apply(binding)
    for headers in ({"authorization": ""}, {"authorization": f"Bearer {user}"}):
        for prefix in ("", f"/clusters/{cluster.name}"):
            answer = await setting.http.get(f"{setting.server.url}{prefix}{PATH}/faults", headers=headers)
            assert answer.status_code in {401, 403}, (headers, prefix)
    nina = {"authorization": f"Bearer {user}"}
    assert (await setting.http.get(f"{setting.server.url}/clusters/{cluster.name}/api/v1/secrets", headers=nina)).status_code == 200


async def test_bounds(setting: Setting) -> None:
    """Bodies and rules have them, unknown paths are answered with 404, unknown methods with 405."""
    answer = await setting.http.post(f"{setting.server.url}{PATH}/faults", content=b" " * (MOST_BYTES + 1))
    assert answer.status_code == 413
    answer = await setting.http.post(f"{setting.server.url}{PATH}/faults", content=b"[" * 60_000)
    assert answer.status_code == 400
    assert (await setting.ask("PUT", "/faults"))[0] == 405
    assert (await setting.ask("GET", "/watches"))[0] == 405
    for path in ("/", "/faults/0", "/faults/x", "/faults/²", "/else"):
        assert (await setting.ask("GET", path))[0] == 404
    made = [await setting.ask("POST", "/faults", {"kind": "conflict", "resource": "nothing"}) for _ in range(4)]
    assert [code for code, _ in made] == [201, 201, 201, 429]
    assert await setting.ask("DELETE", "/faults") == (200, {"removed": 3})


async def test_a_server_without_it_has_no_such_paths() -> None:
    """A control plane has them only where they are mounted."""
    async with control_plane(serve=True, controllers=()) as server:
        context = ssl.create_default_context(cadata=(server.access.authority or b"").decode())
        async with httpx.AsyncClient(verify=context, headers={"authorization": f"Bearer {server.access.token}"}) as http:
            assert (await http.get(f"{server.url}{PATH}/clock")).status_code == 404
        with pytest.raises(errors.StatusError):
            await server.client.get((await server.new_cluster()).name, MAPS, "default", "a")
