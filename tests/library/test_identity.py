"""Functions as authenticators and authorizers."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest

from kcp_py import EVERY_CLUSTER, ControlPlane, Credentials, Decision, Options, RequestInfo, UserInfo, errors

pytestmark = pytest.mark.anyio

MAPS = "/api/v1/namespaces/default/configmaps"


@asynccontextmanager
async def client(cp: ControlPlane) -> AsyncIterator[httpx.AsyncClient]:
    async with cp, httpx.AsyncClient(transport=httpx.ASGITransport(app=cp.app), base_url="http://server") as http:
        yield http


@pytest.mark.parametrize("kind", ["plain", "coroutine", "thread"])
async def test_a_function_identifies_the_caller(kind: str) -> None:
    """Or refuses the credential, or leaves it to others."""
    cp = ControlPlane(Options(storage="memory"))

    def who(credentials: Credentials) -> UserInfo | None:
        name = credentials.headers.get(b"x-name", b"").decode()
        if name == "mallory":
            raise errors.unauthorized()
        return UserInfo(name, groups=("system:masters",)) if name else None

    async def who_later(credentials: Credentials) -> UserInfo | None:
        return who(credentials)

    if kind == "plain":
        assert cp.authenticator(who) is who
    elif kind == "thread":
        cp.authenticator(thread=True)(who)
    else:
        cp.authenticator()(who_later)
    async with client(cp) as http:
        assert [(await http.get(MAPS, headers={"x-name": name} if name else {})).status_code for name in ("alice", "mallory", "")] == [
            200,
            401,
            403,
        ]


@pytest.mark.parametrize(
    ("answer", "one", "every"),
    [
        (True, 200, 403),
        (False, 403, 403),
        (None, 403, 403),
        (Decision(allowed=True, sight=EVERY_CLUSTER), 200, 200),
        ("yes", 500, 500),
    ],
    ids=["true", "false", "none", "everywhere", "text"],
)
@pytest.mark.parametrize("kind", ["plain", "coroutine", "thread"])
async def test_a_function_decides(answer: Any, one: int, every: int, kind: str) -> None:
    """True is for one cluster: requests over all clusters need a decision with a sight. A text is not an answer."""
    cp = ControlPlane(Options(storage="memory"))
    cp.authenticator(lambda _: UserInfo("bob"))

    def may(user: UserInfo, cluster: Any, info: RequestInfo) -> Any:
        assert (user.name, str(cluster) in {"team-a", "*"}, info.resource) == ("bob", True, "configmaps")
        return answer

    async def may_later(user: UserInfo, cluster: Any, info: RequestInfo) -> Any:
        return may(user, cluster, info)

    if kind == "plain":
        assert cp.authorizer(may) is may
    else:
        cp.authorizer(thread=kind == "thread")(may if kind == "thread" else may_later)
    async with client(cp) as http:
        assert (await http.get(f"/clusters/team-a{MAPS}")).status_code == one
        assert (await http.get("/clusters/*/api/v1/configmaps")).status_code == every


async def test_a_user_of_a_wrong_type_is_an_error_of_the_server() -> None:
    """And not an anonymous user."""
    cp = ControlPlane(Options(storage="memory"))
    cp.authenticator(lambda _: "alice")  # type: ignore[type-var]
    async with client(cp) as http:
        answer = await http.get(MAPS)
        assert (answer.status_code, answer.json()["reason"]) == (500, "InternalError")
        assert "alice" not in answer.text
