"""The rows about permissions: requests of a user under RBAC, one decision, a changed binding, and the memory of indexes."""

from __future__ import annotations

import time
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from itertools import count, islice, repeat
from pathlib import Path
from typing import Final

import orjson

from kcp_py.authz.rbac.authorizer import RBACAuthorizer
from kcp_py.authz.rbac.indexes import RBACIndexes
from kcp_py.logicalcluster import Name
from kcp_py.request.requestinfo import parse_request
from kcp_py.request.user import UserInfo, authenticated
from kcp_py.storage.contract import Put
from kcp_py.storage.keys import resource_keys
from kcp_py.storage.memory import MemoryStorage
from tests.authz.conftest import GROUP, binding
from tests.benchmarks.load import Target, run
from tests.benchmarks.objects import KILOBYTE
from tests.benchmarks.processes import kcp
from tests.benchmarks.row import Row
from tests.client.registry import ROOT, Registry, open_registry

CLUSTER: Final = Name("a")
MAPS: Final = "/api/v1/namespaces/default/configmaps"
GET: Final = parse_request("GET", f"{MAPS}/one", {})
ALICE: Final = authenticated(UserInfo("alice", "", ("dev",)))
CLUSTER_BINDINGS: Final = resource_keys(ROOT, GROUP, "clusterrolebindings", namespaced=False)
BINDINGS: Final = resource_keys(ROOT, GROUP, "rolebindings", namespaced=True)
_AT_ONCE: Final = 500
_OBJECTS: Final = 6_000


async def rbac_row(directory: Path) -> AsyncIterator[Row]:
    """What permissions cost in time and memory."""
    for objects, what in ((1, "of one object"), (_OBJECTS, f"of {_OBJECTS:,} objects in turn")):
        yield await _requests(directory, objects, what)
    for case, user in (("spread over users", "User:u{}"), ("all of one user", "User:alice")):
        yield await _decision(case, user)
    yield await _change()
    yield await _memory()


async def _requests(directory: Path, objects: int, what: str) -> Row:
    """GET by a user with a role in the namespace, and by the administrator: in turns, as CPU time of the server.

    More objects than decisions are kept have every request decided anew.
    """
    users = directory / f"users-{objects}.csv"
    users.write_text('alice,alice,a1,"dev"\n')
    with kcp(directory / f"rbac-{objects}", "--token-auth-file", str(users)) as ours:
        administrator, alice = ours.target, Target(ours.target.port, token="alice")
        path = f"/clusters/{CLUSTER}"
        api = f"{path}/apis/{GROUP}/v1"
        access = orjson.dumps(binding("members", "system:kcp:workspace:access", "Group:dev"))
        edit = orjson.dumps(binding("dev", "edit", "Group:dev"))
        await administrator.one("POST", f"{api}/clusterrolebindings", access)
        await administrator.one("POST", f"{api}/namespaces/default/rolebindings", edit)
        await run(administrator, _maps(administrator, f"{path}{MAPS}", objects), connections=16, expect=b" 201 ")
        spent: dict[Target, float] = {administrator: 0, alice: 0}
        requests, rounds = 4_000, 5
        for number in range(rounds):
            for target in spent:
                before = ours.cpu_seconds
                asked = (f"{path}{MAPS}/m{(number * requests + one) % objects}" for one in range(requests))
                await run(target, ((target.head("GET", one), b"") for one in asked), connections=16)
                spent[target] += ours.cpu_seconds - before
    mine, theirs = (spent[target] / rounds / requests * 1e6 for target in (alice, administrator))
    work = f"GET {what} under RBAC, compared with system:masters, CPU"
    return Row(work, f"{mine:.0f} us", f"{theirs:.0f} us", f"{theirs / mine:.0%}", ">= 85 %")


def _maps(target: Target, path: str, objects: int) -> Iterator[tuple[bytes, bytes]]:
    for number in range(objects):
        body = orjson.dumps({"metadata": {"name": f"m{number}"}, "data": {"text": KILOBYTE}})
        yield target.head("POST", path, len(body)), body


async def _decision(case: str, user: str) -> Row:
    """One decision about a cluster with 1,000 bindings: an allowed request and a denied one, made anew, and one that was kept."""
    async with open_registry(MemoryStorage()) as registry:
        authorizer = RBACAuthorizer(RBACIndexes(registry.access, registry.fanout, ROOT))
        await _fill(registry, [_access(CLUSTER), *(_binding(CLUSTER, f"b{n}", user.format(n)) for n in range(1_000))])
        await _fill(registry, [_binding(CLUSTER, "dev", "Group:dev")])
        denied = GET._replace(group="other.example.com")
        figures = []
        for info, expected in ((GET, True), (denied, False)):
            decision = await authorizer.authorize(ALICE, CLUSTER, info)
            assert (decision is not None and decision.allowed) is expected
            # A path that has not been asked about before is decided anew.
            paths = (info._replace(path=f"{info.path}{number}") for number in count())
            for questions in (paths, repeat(info)):
                best = float("inf")
                for _ in range(100):
                    asked = list(islice(questions, 200))
                    start = time.perf_counter()
                    for one in asked:
                        await authorizer.authorize(ALICE, CLUSTER, one)
                    best = min(best, (time.perf_counter() - start) / len(asked))
                figures.append(best * 1e6)
    allowed, kept, refused, _ = figures
    more = f"denied {refused:.1f} us, kept {kept:.1f} us"
    return Row(f"decision, 1,000 bindings {case}", f"{allowed:.1f} us", "", "", "<= 10 us", more)


async def _change() -> Row:
    """The first decision after a write of one of 10,000 bindings, without the read of the object; and the first load."""
    async with open_registry(MemoryStorage()) as registry:
        indexes = RBACIndexes(registry.access, registry.fanout, ROOT)
        authorizer = RBACAuthorizer(indexes)
        puts = [_binding(CLUSTER, f"b{number}", f"User:u{number % 100}") for number in range(10_000)]
        await _fill(registry, puts)
        start = time.process_time()
        await indexes.get(CLUSTER)
        load = time.process_time() - start
        start = time.process_time()
        for put in puts:
            await registry.storage.get(put.key)
        read = time.process_time() - start
        start = time.process_time()
        for put in puts:
            indexes.writing(CLUSTER, [put.key])
            indexes.written(CLUSTER, [put.key])
            await authorizer.authorize(ALICE, CLUSTER, GET)
        each = (time.process_time() - start - read) / len(puts)
    return Row("decision after a write, 10,000 bindings", f"{each * 1e6:.0f} us", "", "", "<= 100 us", f"load of all {load * 1e3:.0f} ms")


async def _memory() -> Row:
    """The memory of the indexes of 10,000 clusters with 20 bindings each, after a decision in each."""
    clusters = [Name(f"c{number}") for number in range(10_000)]
    async with open_registry(MemoryStorage()) as registry:
        authorizer = RBACAuthorizer(RBACIndexes(registry.access, registry.fanout, ROOT))
        for cluster in clusters:
            await _fill(registry, (_binding(cluster, f"b{n}", f"User:u{n}.{cluster}", "Group:dev") for n in range(20)))
        tracemalloc.start()
        for cluster in clusters:
            await authorizer.authorize(ALICE, cluster, GET)
        each = tracemalloc.get_traced_memory()[0] / len(clusters)
        tracemalloc.stop()
    return Row("indexes of 10,000 clusters, 20 bindings each, memory each", f"{each / 1e3:.1f} KB", "", "", "<= 6 KB")


async def _fill(registry: Registry, puts: Iterable[Put]) -> None:
    remaining = list(puts)
    for first in range(0, len(remaining), _AT_ONCE):
        await registry.storage.transact([], remaining[first : first + _AT_ONCE])


def _access(cluster: Name) -> Put:
    obj = binding("members", "system:kcp:workspace:access", "Group:dev")
    return Put(CLUSTER_BINDINGS.object_key(cluster, "", "members"), orjson.dumps(obj))


def _binding(cluster: Name, name: str, *subjects: str) -> Put:
    return Put(BINDINGS.object_key(cluster, "default", name), orjson.dumps(binding(name, "edit", *subjects)))


PERMISSION_ROWS: Final[dict[str, Callable[[Path], AsyncIterator[Row]]]] = {"rbac": rbac_row}
