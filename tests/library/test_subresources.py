"""Subresources of a program on resources that are described elsewhere: whom they belong to, what they see, and what comes of mistakes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from structlog.testing import capture_logs

from kcp_py import Attributes, Connection, ControlPlane, GroupVersionKind, ReadRequest, RestStorage, WriteRequest, errors
from tests.server.handlers.conftest import Api, config_map, established, instance, make_crd, options

pytestmark = pytest.mark.anyio

MAP = "/clusters/a/api/v1/namespaces/default/configmaps/one"
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"


@asynccontextmanager
async def serving(control_plane: ControlPlane) -> AsyncIterator[Api]:
    """Requests to a control plane that has a config map."""
    async with control_plane, httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client:
        api = Api(client, control_plane)
        await api.ok("POST", MAP.removesuffix("/one"), config_map("one", {"key": "value"}))
        yield api


async def test_functions_read_and_change_a_part(tmp_path: Path) -> None:
    """GET, PUT and PATCH of a subresource of a built-in kind. A role on it is enough, and the object itself stays closed."""
    cp = ControlPlane(options(tmp_path))
    shown: dict[str, str] = {"colour": "red"}

    @cp.subresource("configmaps", "paint", verb="get")
    async def get(_request: ReadRequest, obj: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": obj["metadata"], "data": dict(shown)}

    @cp.subresource("configmaps", "paint", verb="update")
    async def update(request: WriteRequest, _obj: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
        if not request.dry_run:
            shown.update(body["data"])
        return body

    async with serving(cp) as api:
        assert (await api.ok("GET", f"{MAP}/paint"))["data"] == {"colour": "red"}
        merge = {"headers": [("Content-Type", "application/merge-patch+json")]}
        await api.ok("PATCH", f"{MAP}/paint?dryRun=All", {"data": {"colour": "blue"}}, **merge)
        assert shown == {"colour": "red"}
        patched = await api.ok("PATCH", f"{MAP}/paint", {"data": {"colour": "blue"}}, **merge)
        assert (patched["data"], shown) == ({"colour": "blue"}, {"colour": "blue"})
        await api.fails(404, "GET", f"{MAP.removesuffix('one')}/two/paint".replace("//", "/"))
        await api.fails(405, "DELETE", f"{MAP}/paint")
        await api.fails(403, "GET", f"{MAP}/paint", token="Bearer user")
        rbac = "/clusters/a/apis/rbac.authorization.k8s.io/v1"
        rule = {"apiGroups": [""], "resources": ["configmaps/paint"], "verbs": ["get"]}
        await api.ok(
            "POST",
            f"{rbac}/clusterroles",
            {"metadata": {"name": "painter"}, "rules": [rule, {"nonResourceURLs": ["/"], "verbs": ["access"]}]},
        )
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "painter"}
        jane = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jane"}
        await api.ok("POST", f"{rbac}/clusterrolebindings", {"metadata": {"name": "jane"}, "roleRef": role, "subjects": [jane]})
        await api.ok("GET", f"{MAP}/paint", token="Bearer user")
        await api.fails(403, "GET", MAP, token="Bearer user")


async def test_crds_of_chosen_clusters_have_them(tmp_path: Path) -> None:
    """Discovery names the subresource in the chosen cluster only. What a CRD defines itself stays."""
    cp = ControlPlane(options(tmp_path))

    @cp.subresource("widgets.example.com", "shape", clusters=["a"])
    @cp.subresource("widgets.example.com", "status", verb="get")
    async def shape(request: WriteRequest, obj: dict[str, Any], *_body: dict[str, Any]) -> dict[str, Any]:
        return {"metadata": {"name": obj["metadata"]["name"]}, "spec": {"cluster": request.target.cluster_state.name}}

    async with serving(cp) as api:
        for cluster in ("a", "b"):
            await api.ok("POST", f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", make_crd())
            await established(api, cluster)
            await api.ok("POST", f"/clusters/{cluster}{WIDGETS}", instance("one", spec={"size": 1}))
        answer = await api.ok("POST", f"/clusters/a{WIDGETS}/one/shape", {"apiVersion": "example.com/v1", "kind": "Widget"})
        assert answer["spec"] == {"cluster": "a"}
        await api.fails(404, "POST", f"/clusters/b{WIDGETS}/one/shape", {"apiVersion": "example.com/v1", "kind": "Widget"})
        named = {
            cluster: [one["name"] for one in (await api.ok("GET", f"/clusters/{cluster}/apis/example.com/v1"))["resources"]]
            for cluster in ("a", "b")
        }
        assert named == {"a": ["widgets", "widgets/status", "widgets/shape"], "b": ["widgets", "widgets/status"]}
        assert (await api.ok("GET", f"/clusters/a{WIDGETS}/one/status"))["spec"] == {"size": 1}
        # The objects of both clusters are listed together, as before.
        assert len((await api.ok("GET", "/clusters/*/apis/example.com/v1/widgets"))["items"]) == 2


@pytest.mark.parametrize(
    ("resource", "name", "more", "problem"),
    [
        ("namespaces", "status", {}, "has one of this name"),
        ("configmaps", "paint", {"clusters": ["a"]}, "leave out the clusters"),
    ],
    ids=["a name that is taken", "chosen clusters of a built-in kind"],
)
async def test_conflicts_are_refused_at_start(tmp_path: Path, resource: str, name: str, more: dict[str, Any], problem: str) -> None:
    """The message names the subresource."""
    cp = ControlPlane(options(tmp_path))
    cp.subresource(resource, name, **more)(RestStorage())
    with pytest.raises(ValueError, match=f"{resource}/{name}.*{problem}"):
        async with cp:
            pass


def test_wrong_arguments_are_refused_at_once(tmp_path: Path) -> None:
    """Unknown verbs, the same verb twice, and names that no URL has."""
    cp = ControlPlane(options(tmp_path))
    for arguments, problem in (
        ({"resource": "pods", "name": "x", "verb": "list"}, "none of"),
        ({"resource": "pods", "name": "a/b"}, "no subresource"),
        ({"resource": "namespaces", "name": "log"}, "the resource log in a namespace"),
    ):
        with pytest.raises(ValueError, match=problem):
            cp.subresource(**arguments)(print)  # type: ignore[arg-type]
    cp.subresource("pods", "x")(print)
    with pytest.raises(ValueError, match="serves create already"):
        cp.subresource("pods", "x")(print)


async def test_streams_answer_refuse_and_fail(tmp_path: Path) -> None:
    """A whole answer, chunks, a refusal before the beginning, a failure before it, and a path behind the name."""
    cp = ControlPlane(options(tmp_path))

    @cp.subresource("configmaps", "read", verb="connect")
    async def read(connection: Connection) -> None:
        match connection.path:
            case "refused":
                raise errors.forbidden(connection.target.resource.group_resource, connection.target.name, "not now")
            case "failing":
                raise RuntimeError("secret")
            case "whole":
                await connection.respond(201, await connection.read_body())
            case "silent":
                return
            case _:
                await connection.start()
                for _ in range(3):
                    await connection.send("chunk\n")

    async with serving(cp) as api:
        assert (await api("GET", f"{MAP}/read")).text == "chunk\n" * 3
        assert (await api("GET", f"{MAP}/read/a/b")).text == "chunk\n" * 3
        assert (await api("GET", f"{MAP}/read/silent")).text == ""
        answer = await api("POST", f"{MAP}/read/whole", content=b"sent")
        assert (answer.status_code, answer.text) == (201, "sent")
        assert "not now" in (await api.fails(403, "GET", f"{MAP}/read/refused"))["message"]
        assert "secret" not in (await api.fails(500, "GET", f"{MAP}/read/failing"))["message"]
        await api.fails(405, "DELETE", f"{MAP}/read")
        await api.fails(403, "GET", f"{MAP}/read", token="Bearer user")


@pytest.mark.parametrize("error", [SystemExit("hunter2"), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr)
async def test_exits_of_streams_leave_the_server_running(tmp_path: Path, error: BaseException) -> None:
    """An exit in a function is a failure: 500 before the answer begins, and the end of the stream behind its beginning."""
    cp = ControlPlane(options(tmp_path))

    @cp.subresource("configmaps", "leave", verb="connect")
    async def leave(connection: Connection) -> None:
        if connection.path == "late":
            await connection.start()
            await connection.send("one\n")
        raise error

    async with serving(cp) as api:
        with capture_logs() as logs:
            assert "hunter2" not in (await api.fails(500, "GET", f"{MAP}/leave"))["message"]
            assert (await api("GET", f"{MAP}/leave/late")).text == "one\n"
        assert [one["event"] for one in logs if one["event"] == "stream_failed"] == ["stream_failed"] * 2
        await api.ok("GET", MAP)


async def test_streams_end_with_the_server(tmp_path: Path) -> None:
    """A function that waits for ever is cancelled when the server stops, and the client gets the end of the stream."""
    cp = ControlPlane(options(tmp_path))
    waiting, ended = asyncio.Event(), asyncio.Event()

    @cp.subresource("configmaps", "wait", verb="connect")
    async def wait(connection: Connection) -> None:
        await connection.start()
        waiting.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with serving(cp) as api, asyncio.timeout(30):
        request = asyncio.create_task(api("GET", f"{MAP}/wait"))
        await waiting.wait()
        cp.begin_shutdown()
        assert (await request).text == ""
        await ended.wait()
        await api.fails(503, "GET", f"{MAP}/wait")


async def test_what_goes_on_behind_its_whole_answer_ends_with_the_request(tmp_path: Path) -> None:
    """The time limit of requests ends it: it has no stream that could do without."""
    cp = ControlPlane(replace(options(tmp_path), request_timeout=0.1))
    ended = asyncio.Event()

    @cp.subresource("configmaps", "wait", verb="connect")
    async def wait(connection: Connection) -> None:
        await connection.respond(200, b"all")
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    async with serving(cp) as api, asyncio.timeout(30):
        assert (await api("GET", f"{MAP}/wait")).text == "all"
        await ended.wait()


async def test_plugins_change_the_options_of_a_connection(tmp_path: Path) -> None:
    """The function gets the parameters as they have left them. They see the path behind the name, too."""
    cp = ControlPlane(options(tmp_path))
    seen: list[dict[str, Any]] = []

    @cp.mutating("configmaps/console", operations=["CONNECT"])
    def harmless(attributes: Attributes) -> None:
        assert attributes.obj is not None
        seen.append(dict(attributes.obj))
        attributes.obj["tty"] = False
        attributes.obj["container"] = "sandbox"

    @cp.subresource("configmaps", "console", verb="connect", kind=GroupVersionKind("example.com", "v1", "ConsoleOptions"))
    async def console(connection: Connection) -> None:
        await connection.respond(200, f"{connection.flag('tty')} {connection.query['container']} {connection.query['more']}".encode())

    async with serving(cp) as api:
        assert (await api("GET", f"{MAP}/console/a/b?tty=1&container=host&more=1")).text == "False ['sandbox'] ['1']"
    kind = {"apiVersion": "example.com/v1", "kind": "ConsoleOptions"}
    assert seen == [{**kind, "tty": True, "container": "host", "path": "/a/b"}]
