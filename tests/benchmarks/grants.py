"""The rows about permissions in several clusters: lists and watches of callers who see some of 10,000 clusters, and one decision."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import httpx
import orjson

from kcp_py.authz.grants.authorizer import GrantAuthorizer
from kcp_py.authz.grants.index import GrantIndex
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import ROOT, Name
from kcp_py.request.requestinfo import parse_request
from kcp_py.request.user import UserInfo, authenticated
from kcp_py.storage.contract import Put
from tests.benchmarks.objects import KILOBYTE
from tests.benchmarks.row import Row
from tests.server.handlers.conftest import ADMIN, Api, Watch, options

CLUSTERS: Final = 10_000
_AT_ONCE: Final = 500
_WATCHES: Final = 100
_EVENTS: Final = 2_000
_ROUNDS: Final = 5
_CALLERS: Final[Mapping[str, Mapping[str, Any]]] = {
    "all by a label": {"selector": {"matchLabels": {"tier": "gold"}}},
    "1,000 by a label": {"selector": {"matchLabels": {"part": "tenth"}}},
    "3 by name": {"names": ["c1", "c5000", "c9999"]},
}
_MAPS: Final = "/clusters/*/api/v1/configmaps"


async def grants_row(directory: Path) -> AsyncIterator[Row]:
    """What restricted reads over all clusters cost, compared with those of the administrator, as CPU time of the process."""
    users = directory / "grantees.csv"
    users.write_text("".join(f"u{number},u{number},{number}\n" for number in range(len(_CALLERS))))
    async with (
        ControlPlane(options(directory, token_auth_file=users, controllers=("-*",))) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        await _fill(control_plane)
        tokens = {caller: f"Bearer u{number}" for number, caller in enumerate(_CALLERS)}
        whole = await _list(api, ADMIN)
        watched = await _watch(api, ADMIN)
        for caller, token in tokens.items():
            spent = await _list(api, token)
            yield _row(f"list of {CLUSTERS:,} clusters, {caller}", spent, whole)
        for caller, token in tokens.items():
            spent = await _watch(api, token)
            yield _row(f"{_EVENTS:,} events to {_WATCHES} watches, {caller}", spent, watched)
        yield await _decision(control_plane)


def _row(work: str, ours: float, theirs: float) -> Row:
    return Row(work, f"{ours * 1e3:.0f} ms", f"{theirs * 1e3:.0f} ms", f"{ours / theirs:.0%}", "<= 130 %")


async def _fill(control_plane: ControlPlane) -> None:
    """A cluster with one config map each, and the grants."""
    backend = control_plane.backend
    keys = backend.tables.builtin_resources[("", "configmaps")].keys  # type: ignore[index]
    puts: list[Put] = []
    for number in range(CLUSTERS):
        cluster = Name(f"c{number}")
        (created,) = backend.clusters.uncreated(cluster).create_with
        assert isinstance(created, Put)
        obj = orjson.loads(created.value)
        obj["metadata"]["labels"] = {"tier": "gold", **({"part": "tenth"} if number % 10 == 0 else {})}
        puts += [Put(created.key, orjson.dumps(obj)), _map(keys.object_key(cluster, "default", "one"), "one")]
    puts += [_grant(f"g{number}", f"u{number}", clusters) for number, clusters in enumerate(_CALLERS.values())]
    await _store(control_plane, puts)


async def _store(control_plane: ControlPlane, puts: Sequence[Put]) -> None:
    backend = control_plane.backend
    for first in range(0, len(puts), _AT_ONCE):
        await backend.access.storage.transact([], puts[first : first + _AT_ONCE])
    await backend.fanout.reached(await backend.access.storage.revision())


def _map(key: str, name: str) -> Put:
    metadata = {"name": name, "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z"}
    return Put(key, orjson.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"text": KILOBYTE}}))


def _grant(name: str, user: str, clusters: Mapping[str, Any]) -> Put:
    rules = [{"verbs": ["get", "list", "watch"], "apiGroups": [""], "resources": ["configmaps"]}]
    spec = {"subjects": [{"kind": "User", "name": user}], "rules": rules, "clusters": clusters}
    obj = {"apiVersion": "access.kcp-py.dev/v1alpha1", "kind": "ClusterAccessGrant", "metadata": {"name": name}, "spec": spec}
    return Put(f"/registry/access.kcp-py.dev/clusteraccessgrants/{ROOT}/{name}", orjson.dumps(obj))


async def _best(work: Callable[[], Any]) -> float:
    best = float("inf")
    for _ in range(_ROUNDS):
        start = time.process_time()
        await work()
        best = min(best, time.process_time() - start)
    return best


async def _list(api: Api, token: str) -> float:
    return await _best(lambda: api("GET", _MAPS, token=token))


class _Counted(Watch):
    """Counts what it is sent, and keeps nothing."""

    bytes = 0

    def sent(self, message: Any) -> None:
        """`Watch.sent`."""
        if message["type"] == "http.response.start":
            super().sent(message)
        self.bytes += len(message.get("body", b""))


async def _watch(api: Api, token: str) -> float:
    """Writes to one object of each of some clusters, and what becomes of them."""
    backend = api.control_plane.backend
    storage, fanout = backend.access.storage, backend.fanout
    keys = backend.tables.builtin_resources[("", "configmaps")].keys  # type: ignore[index]
    version = (await api.ok("GET", _MAPS, token=token, params={"limit": "1"}))["metadata"]["resourceVersion"]
    puts = [_map(keys.object_key(Name(f"c{number}"), "default", "one"), "one") for number in range(_EVENTS)]
    async with AsyncExitStack() as stack:
        watches: Sequence[_Counted] = [
            await stack.enter_async_context(_Counted(api, _MAPS, {"Authorization": token}, resourceVersion=version))
            for _ in range(_WATCHES)
        ]

        async def write() -> None:
            for first in range(0, _EVENTS, 50):
                await storage.transact([], puts[first : first + 50])
                await fanout.reached(await storage.revision())
                await asyncio.sleep(0)
            while any(one.bytes != watches[0].bytes for one in watches):
                await asyncio.sleep(0)

        return await _best(write)


async def _decision(control_plane: ControlPlane) -> Row:
    """One decision of a server with 1,000 grants, 10 of them of one user."""
    backend = control_plane.backend
    puts = [_grant(f"more-{number}", f"x{number % 100}", {"selector": {"matchLabels": {"tier": "gold"}}}) for number in range(1_000)]
    await _store(control_plane, puts)
    authorizer = GrantAuthorizer(GrantIndex(backend.access, backend.fanout, "/registry"))
    user = authenticated(UserInfo("x7", "", ("dev",)))
    info = parse_request("GET", "/api/v1/namespaces/default/configmaps/one", {})
    figures = []
    for first in (0, 1):
        best = float("inf")
        for number in range(100):
            # A path that has not been asked about before is decided anew.
            asked = [info._replace(path=f"{info.path}{number}.{one}") if first == 0 else info for one in range(200)]
            start = time.perf_counter()
            for one in asked:
                decision = await authorizer.authorize(user, Name("c77"), one)
                assert decision is not None
            best = min(best, (time.perf_counter() - start) / len(asked))
        figures.append(best * 1e6)
    return Row("decision, 1,000 grants, 10,000 clusters", f"{figures[0]:.1f} us", "", "", "<= 10 us", f"kept {figures[1]:.1f} us")


GRANT_ROWS: Final[dict[str, Callable[[Path], AsyncIterator[Row]]]] = {"grants": grants_row}
