"""The row `layers`: the cost of each filter, of each kind of caller and of each group of plugins, for a GET and a create.

Requests are passed to the application in this process, on the store in memory, so that neither sockets nor the disk hide a microsecond.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from itertools import count
from pathlib import Path
from typing import Any, Final

import orjson
from starlette.types import Receive, Scope, Send

from kcp_py.admission.names import REQUIRED
from kcp_py.authn.authenticator import AuthenticatorUnion
from kcp_py.authn.certificate import ClientCertificates
from kcp_py.authn.tokenfile import StaticTokens, parse_tokens
from kcp_py.authn.tokens import BearerTokens
from kcp_py.authz.authorizer import AuthorizerUnion
from kcp_py.authz.static import AlwaysAllowPaths, PrivilegedGroups
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.options import Options
from kcp_py.options.batteries import BATTERIES
from kcp_py.server.chain import ASGIApplication, ChainSettings, Filter, compose, filters
from kcp_py.server.exchange import Exchange
from kcp_py.telemetry.metrics import RequestMetrics
from kcp_py.telemetry.registry import MetricsRegistry
from tests.authz.conftest import GROUP, binding
from tests.benchmarks.objects import KILOBYTE
from tests.benchmarks.row import Row

_USERS: Final = 'root,root,1,"system:masters"\nalice,alice,2,"dev"\n'
_MAPS: Final = "/clusters/a/api/v1/namespaces/default/configmaps"
_REQUESTS: Final = 1_000
_ROUNDS: Final = 15
_NEEDED: Final = frozenset(("ClusterFilter", "RequestInfoFilter", "AuthenticationFilter"))
"""Filters without which the others do not work: their cost is that of the chain without all others."""
_OFF: Final = ("admission-webhooks", "certificates", "policies", "quotas", "rbac", "service-accounts")
"""Batteries whose plugins, authenticators or authorizers see requests for config maps."""
_NAMES: Final = map("m{}".format, count())


class Caller:
    """Sends requests to an application, as one user."""

    def __init__(self, app: Any, token: str, **headers: str) -> None:
        self._app = app
        given = {"host": "localhost", "accept": "application/json", "authorization": f"Bearer {token}", **headers}
        self._headers = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
        self.status = 0

    async def send(self, message: Mapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            self.status = message["status"]

    async def request(self, method: str, path: str, body: bytes = b"") -> int:
        """The status of the answer."""
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "scheme": "http", "root_path": "", "method": method,
            "path": path, "raw_path": path.encode(), "query_string": b"", "headers": self._headers, "state": {},
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 2),
        }  # fmt: skip
        message = {"type": "http.request", "body": body, "more_body": False}

        async def receive() -> Mapping[str, Any]:
            return message

        await self._app(scope, receive, self.send)
        return self.status

    async def get(self) -> int:
        return await self.request("GET", f"{_MAPS}/one")

    async def create(self) -> int:
        body = orjson.dumps({"metadata": {"name": next(_NAMES)}, "data": {"text": KILOBYTE}})
        return await self.request("POST", _MAPS, body)


async def _in_turns(asked: Mapping[str, Callable[[], Awaitable[int]]], expected: int) -> dict[str, float]:
    """Microseconds of each kind of request: the best of several rounds, in which all have their turns."""
    best = dict.fromkeys(asked, float("inf"))
    for number in range(_ROUNDS):
        order = list(asked.items())
        for name, ask in order if number % 2 else reversed(order):
            start = time.thread_time()
            for _ in range(_REQUESTS):
                status = await ask()
                if status != expected:
                    raise RuntimeError(f"{name}: {status}")
            best[name] = min(best[name], (time.thread_time() - start) / _REQUESTS * 1e6)
    return best


async def layers_row(directory: Path) -> AsyncIterator[Row]:
    """Filters one by one, callers, and batteries and plugins, each switched off in turn."""
    yield await _filters()
    users = directory / "layers.csv"
    users.write_text(_USERS)
    async with AsyncExitStack() as stack:

        async def application(name: str, batteries: Sequence[str], **options: Any) -> Any:
            root = directory / f"layers-{name}"
            settings = Options(storage="memory", root_directory=root, token_auth_file=users, **options)
            control_plane = await stack.enter_async_context(ControlPlane(settings, batteries=batteries))
            root_user = Caller(control_plane.app, "root")
            if "rbac" in batteries:
                api = f"/clusters/a/apis/{GROUP}/v1"
                access = orjson.dumps(binding("members", "system:kcp:workspace:access", "Group:dev"))
                await root_user.request("POST", f"{api}/clusterrolebindings", access)
                edit = orjson.dumps(binding("dev", "edit", "Group:dev"))
                await root_user.request("POST", f"{api}/namespaces/default/rolebindings", edit)
            await root_user.request("POST", _MAPS, orjson.dumps({"metadata": {"name": "one"}, "data": {"text": KILOBYTE}}))
            return control_plane

        everything = await application("all", tuple(BATTERIES))
        callers = {
            "system:masters": Caller(everything.app, "root"),
            "a user with roles": Caller(everything.app, "alice"),
            "system:masters as a user with roles": Caller(everything.app, "root", impersonate_user="alice", impersonate_group="dev"),
        }
        async for row in _compared(callers, "system:masters", "a request of {}"):
            yield row
        plugins = tuple(plugin.name for plugin in everything.backend.access.admission.plugins if plugin.name not in REQUIRED)
        # A store of its own: creates cost more in one that has the objects of the callers.
        everything = await application("everything", tuple(BATTERIES))
        variants = {"everything": Caller(everything.app, "root")}
        for off in _OFF:
            left = await application(off, _without(off))
            variants[f"the battery {off}"] = Caller(left.app, "root")
        bare = await application("plugins", tuple(BATTERIES), disable_admission_plugins=plugins)
        variants["admission plugins but those that protect permissions"] = Caller(bare.app, "root")
        async for row in _compared(variants, "everything", "a request without {}"):
            yield row


def _without(off: str) -> Sequence[str]:
    return [name for name in BATTERIES if name != off]


async def _compared(callers: Mapping[str, Caller], base: str, work: str) -> AsyncIterator[Row]:
    gets = await _in_turns({name: one.get for name, one in callers.items()}, 200)
    creates = await _in_turns({name: one.create for name, one in callers.items()}, 201)
    for name in callers:
        if name != base:
            difference = f"{gets[name] - gets[base]:+.1f} / {creates[name] - creates[base]:+.1f} us"
            ours, theirs = (f"{gets[one]:.1f} / {creates[one]:.1f} us" for one in (name, base))
            yield Row(f"{work.format(name)}, GET / create", ours, theirs, difference, "")


async def _filters() -> Row:
    """A request that only the filters see, with all of them and without each."""
    tokens = StaticTokens(parse_tokens(_USERS, "users"))

    async def no_uid(cluster: Name) -> None:
        del cluster

    settings = ChainSettings(
        authenticator=AuthenticatorUnion(ClientCertificates(no_uid), BearerTokens(tokens, ("https://localhost",))),
        authorizer=AuthorizerUnion(AlwaysAllowPaths(), PrivilegedGroups()),
        metrics=RequestMetrics(MetricsRegistry()),
    )

    async def answer(exchange: Exchange) -> None:
        await exchange.respond(200, b"{}")

    async def pages(scope: Scope, receive: Receive, send: Send) -> None:
        del receive, send
        raise RuntimeError(f"{scope['path']} is no page")

    def application(chain: Sequence[Filter]) -> ASGIApplication:
        return ASGIApplication(compose(chain, answer), pages)

    every = filters(settings)
    names = [getattr(one, "func", one).__name__ for one in every]
    app = {"all": application(every)}
    for name in names:
        if name not in _NEEDED:
            app[name] = application([one for one, called in zip(every, names, strict=True) if called != name])
    app["needed"] = application([one for one, called in zip(every, names, strict=True) if called in _NEEDED])
    found = await _in_turns({name: Caller(one, "root").get for name, one in app.items()}, 200)
    parts = ", ".join(f"{name.removesuffix('Filter').lower()} {found['all'] - found[name]:.1f}" for name in names if name not in _NEEDED)
    more = f"{parts}, cluster with request info and authentication and the answer {found['needed']:.1f} us"
    return Row("a request through all filters, system:masters", f"{found['all']:.1f} us", "", "", "<= 15 us", more)


LAYER_ROWS: Final[dict[str, Callable[[Path], AsyncIterator[Row]]]] = {"layers": layers_row}
