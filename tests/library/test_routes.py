"""Paths of a program next to the API."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from fastapi import Request
from structlog.testing import capture_logs

from kcp_py import ControlPlane, Credentials, Exchange, Options, UserInfo

pytestmark = pytest.mark.anyio


def by_header(credentials: Credentials) -> UserInfo | None:
    name = credentials.headers.get(b"x-user", b"").decode()
    groups = ("system:authenticated", "system:masters") if name == "admin" else ("system:authenticated",)
    return UserInfo(name, groups=groups) if name else None


def control_plane() -> ControlPlane:
    cp = ControlPlane(Options(storage="memory"), batteries=())
    cp.authenticator(by_header)
    return cp


@asynccontextmanager
async def client(cp: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    async with cp, httpx.AsyncClient(transport=httpx.ASGITransport(app=cp.app), base_url="http://server") as http:
        yield http


@pytest.mark.parametrize(
    ("access", "answers"), [("permitted", [403, 403, 200]), ("authenticated", [403, 200, 200]), ("everyone", [200, 200, 200])]
)
@pytest.mark.parametrize("kind", ["route", "mount"])
async def test_who_may_request_a_path(access: Any, answers: list[int], kind: str) -> None:
    """An anonymous caller, a user and an administrator; in each logical cluster alike. Other paths are as before."""
    cp = control_plane()
    if kind == "route":

        @cp.get("/fleet/{name}", access=access)
        async def fleet(name: str, request: Request) -> dict[str, str]:
            exchange: Exchange = request.state.exchange
            return {"name": name, "user": exchange.context.user.name, "cluster": str(exchange.context.cluster)}
    else:
        cp.mount("/fleet", answering, access=access)
    async with client(cp) as http:
        for cluster in ("", "/clusters/team-a"):
            found = [await http.get(f"{cluster}/fleet/argo", headers={"x-user": name}) for name in ("", "jason", "admin")]
            assert [one.status_code for one in found] == answers
        if kind == "route":
            assert found[2].json() == {"name": "argo", "user": "admin", "cluster": "team-a"}
        else:
            assert found[2].json() == {"root_path": "/fleet", "path": "/fleet/argo"}
        assert (await http.get("/fleet2", headers={"x-user": "jason"})).status_code == 403
        assert (await http.get("/apis", headers={"x-user": "jason"})).status_code == 403
        if kind == "route":
            assert (await http.post("/fleet/argo", headers={"x-user": "jason"})).status_code == 403
            assert (await http.post("/fleet/argo", headers={"x-user": "admin"})).status_code == 405


@pytest.mark.parametrize(
    ("access", "answers"),
    [("permitted", [403, 403, 403]), ("cluster", [403, 200, 403]), ("authenticated", [200, 200, 403]), ("everyone", [200, 200, 403])],
)
@pytest.mark.parametrize("kind", ["route", "mount"])
async def test_administrators_of_a_cluster(access: Any, answers: list[int], kind: str) -> None:
    """In `root`, in their cluster and over all clusters: their permissions count where the path says so."""
    cp = ControlPlane(Options(storage="memory"))
    cp.authenticator(by_header)
    if kind == "route":

        @cp.get("/fleet", access=access)
        async def fleet() -> str:
            return "secret"
    else:
        cp.mount("/fleet", answering, access=access)
    async with client(cp) as http:
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"}
        jason = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "jason"}
        binding = {"metadata": {"name": "jason"}, "roleRef": role, "subjects": [jason]}

        async def bind(cluster: str) -> None:
            path = f"/clusters/{cluster}/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
            assert (await http.post(path, headers={"x-user": "admin"}, json=binding)).status_code == 201

        await bind("team-a")
        paths = ("/fleet", "/clusters/team-a/fleet", "/clusters/*/fleet")
        assert [(await http.get(path, headers={"x-user": "jason"})).status_code for path in paths] == answers
        assert [(await http.get(path, headers={"x-user": "admin"})).status_code for path in paths] == [200, 200, 200]
        await bind("root")
        for path in ("/fleet", "/clusters/team-a/fleet"):
            assert (await http.get(path, headers={"x-user": "jason"})).status_code == 200


async def test_the_access_is_that_of_what_answers() -> None:
    """Not that of another application, of another type of parameter, of a later route, or of a route behind an application."""
    cp = control_plane()
    cp.mount("/a", answering, access="everyone")
    cp.mount("/a/closed", answering)
    cp.mount("/b", answering)

    async def answer() -> str:
        return "shown"

    cp.get("/b/open", access="everyone")(answer)
    cp.get("/c/{number:int}", access="everyone")(answer)
    cp.get("/c/{name}")(answer)
    cp.get("/c/open", access="everyone")(answer)
    cp.get("/d/{rest:path}")(answer)
    cp.post("/d/{rest:path}", access="everyone")(answer)
    async with client(cp) as http:
        answers = {
            "/a/open": 200, "/a/closed": 403, "/a/closed/x": 403, "/a/closed2": 200, "/b/open": 403,
            "/c/1": 200, "/c/one": 403, "/c/open": 403, "/d/x/y": 403,
        }  # fmt: skip
        assert {path: (await http.get(path)).status_code for path in answers} == answers
        assert (await http.post("/d/x/y")).status_code == 200
        assert (await http.post("/c/1")).status_code == 403


async def answering(scope: Any, receive: Any, send: Any) -> None:
    del receive
    body = f'{{"root_path": "{scope["root_path"]}", "path": "{scope["path"]}"}}'.encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": body})


async def test_a_post_has_the_body_and_the_validation_of_fastapi() -> None:
    """A wrong body is answered with a Status."""
    cp = control_plane()

    @cp.post("/ships", access="everyone", status_code=201)
    async def ships(crew: int) -> int:
        return crew + 1

    async with client(cp) as http:
        answer = await http.post("/ships?crew=49")
        assert (answer.status_code, answer.json()) == (201, 50)
        assert ((await http.post("/ships?crew=many")).json()["kind"]) == "Status"


async def test_the_most_particular_application_answers() -> None:
    """Also for the path itself, and not for a path that only begins with the same letters."""
    cp = control_plane()
    cp.mount("/a", answering, access="everyone")
    cp.mount("/a/b", answering, access="everyone")
    async with client(cp) as http:
        assert [(await http.get(path)).json()["root_path"] for path in ("/a", "/a/x", "/a/b", "/a/b/c")] == ["/a", "/a", "/a/b", "/a/b"]
        assert (await http.get("/ab", headers={"x-user": "admin"})).status_code == 404


@pytest.mark.parametrize("path", ["/apis/mine", "/api", "/clusters/a", "/healthz", "/version", "/openapi/v4", "/{name}", "/.well-known/x"])
def test_a_path_that_hides_the_api_is_refused(path: str) -> None:
    """When it is added, with the reason."""
    with pytest.raises(ValueError, match="would hide paths of the server"):
        control_plane().get(path)
    with pytest.raises(ValueError, match="would hide paths of the server"):
        control_plane().mount(path, answering)


@pytest.mark.parametrize("path", ["", "/", "fleet", "/fleet/", "/a//b", "/a?b", "//a"])
def test_what_is_not_a_path_is_refused(path: str) -> None:
    """As is an access that does not exist, a parameter in the path of an application, and a second application."""
    with pytest.raises(ValueError, match="is not a path such as"):
        control_plane().mount(path, answering)
    with pytest.raises(ValueError, match='access "all" is none of'):
        control_plane().get("/fleet", access="all")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="parameters of the type number"):
        control_plane().get("/fleet/{name:number}")
    cp = control_plane()
    cp.mount("/fleet", answering)
    with pytest.raises(ValueError, match="has an application already"):
        cp.mount("/fleet", answering)
    with pytest.raises(ValueError, match="has parameters"):
        cp.mount("/ships/{name}", answering)


class Odd:
    """No type of a parameter."""


async def test_a_function_that_fastapi_does_not_take_is_refused_when_it_is_added() -> None:
    """It cannot take the pages of the server with it."""
    cp = control_plane()

    def answer(odd: Odd) -> None: ...

    with pytest.raises(ValueError, match='"/fleet": Invalid args for'):
        cp.get("/fleet")(answer)
    with pytest.raises(ValueError, match=r'"/fleet": .*unknown'):
        cp.get("/fleet", unknown=1)(lambda: None)
    async with client(cp) as http:
        assert (await http.get("/version")).status_code == 200


@pytest.mark.parametrize("place", ["route", "mount", "middleware", "middleware-late"])
@pytest.mark.parametrize("error", [ValueError("hunter2"), SystemExit("hunter2"), KeyboardInterrupt()], ids=["value", "exit", "interrupt"])
async def test_a_failure_is_a_status_and_hurts_no_other_request(place: str, error: BaseException) -> None:
    """With one line in the log that names the function."""
    cp = control_plane()

    async def fails(scope: Any, receive: Any, send: Any) -> None:
        del scope, receive, send
        raise error

    def failing(application: Any) -> Any:
        async def fails_late(scope: Any, receive: Any, send: Any) -> None:
            if scope["path"] == "/fleet":
                raise error
            await application(scope, receive, send)

        return fails_late

    if place == "route":

        @cp.get("/fleet")
        async def fails_in_route() -> None:
            raise error
    elif place == "mount":
        cp.mount("/fleet", fails)
    else:
        cp.add_middleware(failing)
        if place == "middleware-late":
            cp.add_middleware(lambda application: application)
    async with client(cp) as http:
        with capture_logs() as logs:
            answer = await http.get("/fleet", headers={"x-user": "admin"})
        assert (answer.status_code, answer.json()["kind"], answer.json()["reason"]) == (500, "Status", "InternalError")
        assert "hunter2" not in answer.text
        assert "fails" in next(one["function"] for one in logs if one["event"] == "request_failed")
        assert (await http.get("/readyz")).text == "ok"
