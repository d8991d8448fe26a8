"""Exceptions of a program become a 500 Status with a log line that names the function, and hurt no other cluster."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Collection, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Never

import httpx
import pytest
from structlog.testing import capture_logs

from kcp_py import (
    WILDCARD,
    AdmissionPlugin,
    Attributes,
    ComputedResource,
    ControllerContext,
    ControllerSource,
    ControlPlane,
    Dependency,
    EndedWatches,
    Exchange,
    GroupResource,
    GroupVersionResource,
    Handler,
    Key,
    Name,
    ObjectEvent,
    Options,
    ReadRequest,
    ResourceSource,
    RestStorage,
    Served,
    ServedChange,
    SourceContext,
    StoredResource,
    Strategy,
    UserInfo,
    parse_name,
)

pytestmark = pytest.mark.anyio

MAPS = GroupVersionResource("", "v1", "configmaps")
BAD, GOOD = parse_name("bad"), parse_name("good")


def endless(depth: int = 0) -> int:
    return endless(depth + 1)


def cyclic() -> dict[str, Any]:
    found: dict[str, Any] = {"metadata": {"name": "one"}}
    found["spec"] = {"again": found}
    return found


def fail(error: BaseException) -> Any:
    raise error


MISTAKES: dict[str, Callable[[], Any]] = {
    "value": lambda: fail(ValueError("password=hunter2")),
    "exit": lambda: sys.exit("password=hunter2"),
    "interrupt": lambda: fail(KeyboardInterrupt()),
    "cancelled": lambda: fail(asyncio.CancelledError()),
    "generator-exit": lambda: fail(GeneratorExit()),
    "iteration": lambda: fail(StopIteration()),
    "async-iteration": lambda: fail(StopAsyncIteration()),
    "group": lambda: fail(BaseExceptionGroup("all", [SystemExit(1)])),
    "memory": lambda: fail(MemoryError()),
    "recursion": endless,
}
WRONG: dict[str, Callable[[], Any]] = {
    "none": lambda: None,
    "number": lambda: 42,
    "cyclic": cyclic,
    "set": lambda: {"metadata": {"name": "one"}, "spec": {1, 2}},
    "keys": lambda: {"metadata": {"name": "one"}, "spec": {1: 2}},
    "object": object,
    "no-metadata": lambda: {"metadata": 7},
    "surrogate": lambda: {"metadata": {"name": "one"}, "spec": "\ud800"},
    "nan": lambda: {"metadata": {"name": "one"}, "spec": float("nan")},
    "infinite": lambda: {"metadata": {"name": "one"}, "spec": [{"deep": float("-inf")}]},
    "huge": lambda: {"metadata": {"name": "one"}, "spec": 2**80},
}


class Things(RestStorage):
    """Serves what a function gives, in the cluster `bad`; an object elsewhere."""

    def __init__(self, make: Callable[[], Any]) -> None:
        self._make = make

    def _one(self, cluster: Name) -> Any:
        return self._make() if cluster == BAD else {"metadata": {"name": "one"}}

    async def get(self, request: ReadRequest) -> Any:
        return self._one(request.target.cluster_state.name)

    async def list(self, request: ReadRequest) -> Sequence[Any]:
        return [self._one(request.target.cluster_state.name)]

    async def watch(self, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None]:
        yield ObjectEvent("ADDED", self._one(request.target.cluster_state.name))
        await asyncio.Event().wait()


THINGS = "/apis/example.com/v1/things"


def things(make: Callable[[], Any]) -> ComputedResource:
    return ComputedResource(group="example.com", version="v1", resource="things", kind="Thing", rest=Things(make), namespaced=False)


@asynccontextmanager
async def serving(cp: ControlPlane, *, admin: bool = True) -> AsyncIterator[httpx.AsyncClient]:
    if admin:
        cp.authenticator(lambda _: UserInfo("admin", groups=("system:masters",)))
    async with cp, httpx.AsyncClient(transport=httpx.ASGITransport(app=cp.app), base_url="http://server") as http:
        yield http


def assert_contained(answer: httpx.Response, logs: Sequence[Any], function: str = "") -> None:
    """A Status without details, and one line with them."""
    assert (answer.status_code, answer.json()["kind"], answer.json()["reason"]) == (500, "Status", "InternalError")
    assert "hunter2" not in answer.text
    lines = [one for one in logs if one["event"] == "request_failed"]
    assert len(lines) == 1
    if function:
        assert lines[0]["function"].endswith(function)


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize(
    "place", ["mutate", "validate", "plugin", "thread", "authenticate", "authorize", "filter", "get", "list", "strategy"]
)
async def test_a_function_that_fails_in_one_cluster(place: str, mistake: str) -> None:
    """Whatever it raises, wherever it is called: its cluster gets 500, the other one its answer."""
    cp = ControlPlane(Options(storage="memory"), apis=[things(MISTAKES[mistake])])
    path = "/api/v1/namespaces/default/configmaps"

    def mistaken(cluster: Any) -> None:
        if cluster == BAD:
            MISTAKES[mistake]()

    match place:
        case "mutate":
            cp.mutating("configmaps", name="hook")(lambda attributes: mistaken(attributes.cluster))
        case "validate":

            @cp.validating("configmaps")
            async def check(attributes: Attributes) -> None:
                mistaken(attributes.cluster)

        case "thread":
            cp.validating("configmaps", thread=True, name="hook")(lambda attributes: mistaken(attributes.cluster))
        case "plugin":

            class Plugin(AdmissionPlugin):
                async def validate(self, attributes: Attributes) -> None:
                    mistaken(attributes.cluster)

            cp._admission.append(Plugin())
        case "authenticate":
            cp.authenticator(lambda credentials: mistaken(credentials.cluster))
        case "authorize":
            cp.authorizer(lambda _, cluster, __: mistaken(cluster))
        case "filter":

            def wrap(handler: Handler) -> Handler:
                async def call(exchange: Exchange) -> None:
                    mistaken(exchange.context.cluster)
                    await handler(exchange)

                return call

            cp._filters.append(wrap)
        case "strategy":

            class Rules(Strategy):
                def prepare_for_create(self, obj: dict[str, Any]) -> None:
                    if obj["metadata"]["labels"]["cluster"] == "bad":
                        MISTAKES[mistake]()

            schema = {"type": "object"}
            ships = StoredResource(group="example.com", version="v1", resource="ships", kind="Ship", schema=schema, strategy=Rules())
            cp._apis.append(ships)
            path = "/apis/example.com/v1/namespaces/default/ships"
    async with serving(cp) as http:

        async def ask(cluster: str) -> httpx.Response:
            if place in {"get", "list"}:
                return await http.get(f"/clusters/{cluster}{THINGS}{'/one' if place == 'get' else ''}")
            document: dict[str, Any] = {"metadata": {"name": "one", "labels": {"cluster": cluster}}}
            if place == "strategy":
                document |= {"apiVersion": "example.com/v1", "kind": "Ship"}
            return await http.post(f"/clusters/{cluster}{path}", json=document)

        with capture_logs() as logs:
            answer = await ask("bad")
        assert_contained(answer, logs)
        assert (await ask("good")).status_code in {200, 201}


@pytest.mark.parametrize("wrong", WRONG)
@pytest.mark.parametrize("verb", ["get", "list", "mutate"])
async def test_a_function_that_returns_a_wrong_type(verb: str, wrong: str) -> None:
    """The client gets a Status, and the other cluster its answer."""
    cp = ControlPlane(Options(storage="memory"), apis=[things(WRONG[wrong])])
    if verb == "mutate":
        cp.mutating("configmaps", clusters=["bad"], name="hook")(lambda attributes: (attributes.obj or {}).update(data=WRONG[wrong]()))
    async with serving(cp) as http:

        async def ask(cluster: str) -> httpx.Response:
            if verb == "mutate":
                return await http.post(f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "one"}})
            return await http.get(f"/clusters/{cluster}{THINGS}{'/one' if verb == 'get' else ''}")

        answer = await ask("bad")
        if not (verb == "mutate" and wrong == "none"):
            assert (answer.status_code, answer.json()["kind"]) == (500, "Status"), answer.text
        assert (await ask("good")).status_code in {200, 201}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_list_over_all_clusters_leaves_out_the_one_that_fails(mistake: str) -> None:
    """Its name is in a warning and in the log; the others are there."""
    cp = ControlPlane(Options(storage="memory"), apis=[things(MISTAKES[mistake])])
    async with serving(cp) as http:
        for cluster in (BAD, GOOD):
            await cp.client.create(cluster, MAPS, {"metadata": {"name": "one", "namespace": "default"}})
        with capture_logs() as logs:
            answer = await http.get(f"/clusters/*{THINGS}")
        found = [one["metadata"]["annotations"]["kcp.io/cluster"] for one in answer.json()["items"]]
        assert (answer.status_code, "good" in found, "bad" in found) == (200, True, False)
        assert [one["cluster"] for one in logs if one["event"] == "list_failed"] == ["bad"]


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_watch_of_the_other_clusters_goes_on(mistake: str) -> None:
    """A generator that fails in one cluster is called again later; the events of the others arrive."""
    cp = ControlPlane(Options(storage="memory"), apis=[things(MISTAKES[mistake])])
    async with serving(cp):
        for cluster in (BAD, GOOD):
            await cp.client.create(cluster, MAPS, {"metadata": {"name": "one", "namespace": "default"}})
        resource = GroupVersionResource("example.com", "v1", "things")
        with capture_logs() as logs:
            async for event in cp.client.watch(WILDCARD, resource, resource_version="0"):
                if event.obj["metadata"]["annotations"]["kcp.io/cluster"] == "good":
                    break
        assert {one["cluster"] for one in logs if one["event"] == "watch_failed"} <= {"bad"}


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_controller_goes_on_with_other_objects(mistake: str) -> None:
    """Whether `reconcile` fails or the function that gives keys."""
    done: asyncio.Queue[str] = asyncio.Queue()

    class Fragile:
        name = "fragile"
        per_cluster = 4

        def __init__(self, _: ControllerContext) -> None:
            def keys(change: Any) -> Iterable[Key]:
                if change.name == "no-keys":
                    MISTAKES[mistake]()
                return [Key(change.cluster, change.namespace, change.name)]

            self.sources = (ControllerSource(MAPS, keys=keys),)

        async def reconcile(self, key: Key) -> int:
            if key.name == "fails":
                MISTAKES[mistake]()
            done.put_nowait(key.name)
            return 0

    cp = ControlPlane(Options(storage="memory"), controllers=[Fragile])
    async with serving(cp):
        for cluster, name in ((BAD, "no-keys"), (BAD, "fails"), (GOOD, "works")):
            await cp.client.create(cluster, MAPS, {"metadata": {"name": name, "namespace": "default"}})
        while await asyncio.wait_for(done.get(), 30) != "works":
            pass


class FragileSource(ResourceSource):
    """Serves nothing, and fails at every question but those for one cluster."""

    def __init__(self, mistake: Callable[[], Any]) -> None:
        self._mistake: Callable[[], tuple[Never, ...]] = mistake

    def connect(self, context: SourceContext) -> None:
        self._prefix = f"{context.root}/core.kcp.io/logicalclusters/"

    async def resources(self, cluster: Name) -> Sequence[Served]:
        return self._mistake() if cluster == BAD else ()

    def depends_on(self, cluster: Name) -> Iterable[Dependency]:
        return [Dependency(self._prefix, cluster)]

    async def group_resources(self) -> Collection[GroupResource]:
        return self._mistake()

    async def clusters(self, resource: GroupResource) -> Collection[Name]:
        del resource
        return self._mistake()

    def ended_by(self, event: Any) -> Iterable[EndedWatches]:
        del event
        return self._mistake()

    def changes(self, event: Any) -> Iterable[ServedChange]:
        del event
        return self._mistake()


@pytest.mark.parametrize("mistake", MISTAKES)
async def test_a_source_that_fails_hurts_its_cluster_alone(mistake: str) -> None:
    """Neither the feed of changes nor requests over all clusters stop."""
    cp = ControlPlane(Options(storage="memory"), apis=[FragileSource(MISTAKES[mistake])])
    async with serving(cp) as http:
        crds = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
        version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
        names = {"plural": "boats", "kind": "Boat", "singular": "boat", "listKind": "BoatList"}
        spec = {"group": "example.com", "scope": "Cluster", "names": names, "versions": [version]}
        await cp.client.create(GOOD, crds, {"metadata": {"name": "boats.example.com"}, "spec": spec})
        async for event in cp.client.watch(GOOD, crds, resource_version="0"):
            if any(one["type"] == "Established" and one["status"] == "True" for one in event.obj["status"]["conditions"] or ()):
                break
        assert (await http.get("/clusters/good/apis/example.com/v1/boats")).status_code == 200
        assert (await http.get("/clusters/bad/apis/example.com/v1/boats")).status_code == 500
        assert (await http.get("/clusters/bad/api/v1/configmaps")).status_code == 200
        await cp.client.create(GOOD, MAPS, {"metadata": {"name": "one", "namespace": "default"}})
        assert (await http.get("/clusters/*/api/v1/configmaps")).status_code == 200
        assert (await http.get("/readyz")).status_code == 200


async def test_the_log_names_the_function() -> None:
    """The one that the server called."""
    cp = ControlPlane(Options(storage="memory"))

    @cp.validating("configmaps")
    async def judge(_: Attributes) -> None:
        fail(ValueError("password=hunter2"))

    async with serving(cp) as http:
        with capture_logs() as logs:
            answer = await http.post("/api/v1/namespaces/default/configmaps", json={"metadata": {"name": "one"}})
        assert_contained(answer, logs, "test_the_log_names_the_function.<locals>.judge")
