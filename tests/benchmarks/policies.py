"""The rows about admission policies: creates that policies judge, and the memory of policies."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any, Final

import orjson

from kcp_py.admission.clusterobjects import ClusterObjects, Parse
from kcp_py.admission.policy.definitions import parse_binding, parse_policy
from kcp_py.admission.policy.hooks import ClusterHooks
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.admissionregistration.install import GROUP, VALIDATING_BINDINGS, VALIDATING_POLICIES
from kcp_py.logicalcluster import Name
from kcp_py.storage.contract import Put
from kcp_py.storage.keys import resource_keys
from kcp_py.storage.memory import MemoryStorage
from tests.admission.policy.making import binding, policy, rule
from tests.authz.conftest import GROUP as RBAC
from tests.authz.conftest import binding as role_binding
from tests.benchmarks.load import Target, run
from tests.benchmarks.objects import KILOBYTE
from tests.benchmarks.processes import kcp
from tests.benchmarks.row import Row
from tests.client.registry import ROOT, Registry, open_registry

_CREATES: Final = 2_000
_ROUNDS: Final = 3
_CONNECTIONS: Final = 16
_POLICIES: Final = 10
_MATCHING: Final = 2
_QUOTA: Final = orjson.dumps({"metadata": {"name": "q"}, "spec": {"hard": {"count/configmaps": "1000000"}}})
_EXPRESSION: Final = "object.data.all(key, object.data[key].size() < 4096) && !object.metadata.name.startsWith('x')"


async def policy_row(directory: Path) -> AsyncIterator[Row]:
    """What policies cost in time and memory."""
    yield await _creates(directory)
    yield await _memory()


async def _creates(directory: Path) -> Row:
    """Creates of a user with a role, in a namespace with a quota and a cluster with policies, and creates of an administrator without."""
    users = directory / "users.csv"
    users.write_text('alice,alice,a1,"dev"\n')
    with kcp(directory / "policies", "--token-auth-file", str(users)) as ours:
        administrator, alice = ours.target, Target(ours.target.port, token="alice")
        await _configure(administrator)
        best = {"with": 0.0, "without": 0.0}
        for number in range(_ROUNDS):
            for cluster, target in (("with", alice), ("without", administrator)):
                creates = _maps(target, cluster, number * _CREATES)
                result = await run(target, creates, connections=_CONNECTIONS, expect=b" 201 ")
                best[cluster] = max(best[cluster], result.rate)
    mine, theirs = best["with"], best["without"]
    work = f"create with RBAC, quota and {_POLICIES} policies ({_MATCHING} match), compared with a create without"
    return Row(work, f"{mine:,.0f}/s", f"{theirs:,.0f}/s", f"{mine / theirs:.0%}", ">= 60 %")


async def _configure(target: Target) -> None:
    api = "/clusters/with/apis"
    access = role_binding("members", "system:kcp:workspace:access", "Group:dev")
    await target.one("POST", f"{api}/{RBAC}/v1/clusterrolebindings", orjson.dumps(access))
    edit = role_binding("dev", "edit", "Group:dev")
    await target.one("POST", f"{api}/{RBAC}/v1/namespaces/default/rolebindings", orjson.dumps(edit))
    await target.one("POST", "/clusters/with/api/v1/namespaces/default/resourcequotas", _QUOTA)
    for number in range(_POLICIES):
        name, matches = f"p{number}", number < _MATCHING
        rules = [rule("configmaps" if matches else "secrets", operations=("CREATE",))]
        await target.one("POST", f"{api}/{GROUP}/v1/validatingadmissionpolicies", orjson.dumps(policy(name, _EXPRESSION, rules=rules)))
        await target.one("POST", f"{api}/{GROUP}/v1/validatingadmissionpolicybindings", orjson.dumps(binding(name, name)))


def _maps(target: Target, cluster: str, first: int) -> Iterator[tuple[bytes, bytes]]:
    for number in range(first, first + _CREATES):
        body = orjson.dumps({"metadata": {"name": f"m{number}"}, "data": {"text": KILOBYTE}})
        yield target.head("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", len(body)), body


async def rules_row(directory: Path) -> AsyncIterator[Row]:
    """10,000 clusters with a policy of their own, its binding and a quota, and a write to each that both concern.

    The clusters exist before. The first ones fill the bounded caches.
    """
    first, count = 2_000, 10_000
    with kcp(directory / "rules") as ours:
        target = ours.target

        async def create(numbers: range, path: str, body: Callable[[int], bytes]) -> None:
            bodies = ((number, body(number)) for number in numbers)
            heads = ((target.head("POST", f"/clusters/c{number}{path}", len(text)), text) for number, text in bodies)
            await run(target, heads, connections=_CONNECTIONS, expect=b" 201 ")

        async def fill(numbers: range) -> None:
            matching = [rule("configmaps", operations=("CREATE",))]
            policies = f"/apis/{GROUP}/v1/validatingadmissionpolic"
            bound = orjson.dumps(binding("p", "p"))
            await create(
                numbers, f"{policies}ies", lambda number: orjson.dumps(policy("p", f"object.metadata.name != '{number}'", rules=matching))
            )
            await create(numbers, f"{policies}ybindings", lambda _: bound)
            await create(numbers, "/api/v1/namespaces/default/resourcequotas", lambda _: _QUOTA)
            await create(numbers, "/api/v1/namespaces/default/configmaps", lambda _: b'{"metadata":{"name":"m"}}')
            assert b" 422 " in (await _again(target, numbers[-1]))[:16]

        cluster = b'{"apiVersion":"core.kcp.io/v1alpha1","kind":"LogicalCluster","metadata":{"name":"cluster"}}'
        await create(range(first + count), "/apis/core.kcp.io/v1alpha1/logicalclusters", lambda _: cluster)
        cold = ours.resident
        await fill(range(first))
        await asyncio.sleep(2)
        before = ours.resident
        await fill(range(first, first + count))
        await asyncio.sleep(2)
        each = (ours.resident - before) / count
    bounded = f"and {(before - cold) / 1e6:.0f} MB for the first {first} with every bounded cache"
    yield Row("10,000 clusters with a policy and a quota each, memory each", f"{each / 1e3:.2f} KB", "", "", "<= 5 KB", bounded)


async def _again(target: Target, number: int) -> bytes:
    """The answer to a write that the policy of a cluster refuses."""
    return await target.one(
        "POST", f"/clusters/c{number}/api/v1/namespaces/default/configmaps", orjson.dumps({"metadata": {"name": f"{number}"}})
    )


async def _memory() -> Row:
    """The memory of the policies of 10,000 clusters, each with one of its own and its binding, after a use in each."""
    clusters = [Name(f"c{number}") for number in range(10_000)]
    async with open_registry(MemoryStorage()) as registry:
        for cluster in clusters:
            own = policy(f"p-{cluster}", f"object.metadata.name != '{cluster}'")
            bound = binding("b", f"p-{cluster}")
            puts = [_put(VALIDATING_POLICIES, cluster, own), _put(VALIDATING_BINDINGS, cluster, bound)]
            await registry.storage.transact((), puts)
        tracemalloc.start()
        policies = _objects(registry, VALIDATING_POLICIES, parse_policy)
        hooks = ClusterHooks(policies, _objects(registry, VALIDATING_BINDINGS, parse_binding), registry.access.budget)
        for cluster in clusters:
            assert await hooks.get(cluster)
        each = tracemalloc.get_traced_memory()[0] / len(clusters)
        tracemalloc.stop()
    return Row("policies of 10,000 clusters, one each, memory each", f"{each / 1e3:.1f} KB", "", "", "<= 5 KB")


def _put(resource: GroupResource, cluster: Name, obj: dict[str, Any]) -> Put:
    kind = "ValidatingAdmissionPolicy" if resource == VALIDATING_POLICIES else "ValidatingAdmissionPolicyBinding"
    keys = resource_keys(ROOT, *resource, namespaced=False)
    return Put(keys.object_key(cluster, "", obj["metadata"]["name"]), orjson.dumps({"kind": kind, **obj}))


def _objects(registry: Registry, resource: GroupResource, parse: Parse[Any]) -> ClusterObjects[Any]:
    return ClusterObjects(
        resource, parse, namespaced=False, access=registry.access, fanout=registry.fanout, tables=registry.tables, root=ROOT
    )


POLICY_ROWS: Final[dict[str, Callable[[Path], AsyncIterator[Row]]]] = {"policies": policy_row, "rules": rules_row}
