"""A registry on a store in memory, with everything that the in-process client needs and nothing of HTTP."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import orjson

from kcp_py.admission import LogicalClusterLifecycle, NamespaceLifecycle
from kcp_py.aio.supervisor import Supervisor
from kcp_py.apimachinery.continue_token import ContinueTokens
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.apis.apiextensions.strategy import CRDStrategy
from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.client import LocalClient, LocalTap
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionChain
from kcp_py.registry.catalog.compilation import CompiledCRDs
from kcp_py.registry.catalog.crds import CRDSource
from kcp_py.registry.catalog.source import ResourceSource, SourceContext
from kcp_py.registry.catalog.static import StaticSource
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.catalog.wildcard import WildcardTables
from kcp_py.registry.rest.registry import Registry as VerbsRegistry
from kcp_py.registry.store import Access
from kcp_py.storage.contract import Put, Storage
from kcp_py.storage.keys import resource_keys
from kcp_py.tenancy import LogicalClusters
from kcp_py.watchcache import Fanout

ROOT = "/registry"
CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
CONFIG_MAPS = GroupVersionResource("", "v1", "configmaps")
NAMESPACES = GroupVersionResource("", "v1", "namespaces")
LOGICAL_CLUSTERS = GroupVersionResource("core.kcp.io", "v1alpha1", "logicalclusters")
WIDGETS = GroupVersionResource("example.com", "v1", "widgets")


@dataclass
class Registry:
    """The parts, for tests to reach into."""

    storage: Storage
    fanout: Fanout
    access: Access
    tables: ResourceTables
    crds: CRDSource
    clusters: LogicalClusters
    client: LocalClient
    tap: LocalTap
    supervisor: Supervisor
    failures: list[BaseException] = field(default_factory=list)

    async def keys(self, cluster: str) -> list[str]:
        """Every key of a cluster, of whatever resource."""
        found = await self.storage.range(f"{ROOT}/", keys_only=True)
        return [item.key for item in found.items if f"/{cluster}/" in item.key]

    async def establish(self, cluster: Name, crd: Mapping[str, Any] | None = None) -> None:
        """Create a CRD and accept its names, as its controller does."""
        created = await self.client.create(cluster, CRDS, crd or make_crd())
        conditions = [{"type": kind, "status": "True", "reason": "x", "message": "x"} for kind in ("NamesAccepted", "Established")]
        status = {**created["status"], "acceptedNames": created["spec"]["names"], "conditions": conditions}
        await self.client.update(cluster, CRDS, {**created, "status": status}, subresource="status")

    async def rewrite(self, key: str, change: Callable[[dict[str, Any]], object]) -> int:
        """Change a stored object as another server would, and return the revision."""
        item = await self.storage.get(key)
        assert item is not None
        obj = orjson.loads(item.value)
        change(obj)
        return await self.storage.transact((), (Put(key, orjson.dumps(obj)),))

    async def until(self, holds: Callable[[], Awaitable[bool]]) -> None:
        """Wait for something that comes true with some write, looking after each; not for ever."""
        async with asyncio.timeout(60):
            while True:
                revision = await self.storage.revision()
                if await holds():
                    return
                await self.fanout.reached(revision + 1)

    async def until_gone(self, cluster: Name, resource: GroupVersionResource, namespace: str, name: str, uid: str = "") -> None:
        """Wait until an object (of that uid) is not there any more."""

        async def gone() -> bool:
            try:
                obj = await self.client.get(cluster, resource, namespace, name)
            except StatusError as error:
                if error.code != 404:
                    raise
                return True
            return bool(uid) and obj["metadata"]["uid"] != uid

        await self.until(gone)

    async def until_condition(self, cluster: Name, name: str, condition: str, status: str = "True", reason: str = "") -> dict[str, Any]:
        """Wait until a CRD has a condition, and return the CRD."""
        found: dict[str, Any] = {}

        async def has() -> bool:
            found.update(await self.client.get(cluster, CRDS, "", name))
            conditions = found["status"]["conditions"] or ()
            return any(one["type"] == condition and one["status"] == status and reason in {"", one["reason"]} for one in conditions)

        await self.until(has)
        return found


@asynccontextmanager
async def open_registry(storage: Storage, sources: Sequence[ResourceSource] = ()) -> AsyncIterator[Registry]:
    """Put a registry together on a store, which is opened and closed with it. `sources` come before CRDs."""
    async with storage:
        failures: list[BaseException] = []
        async with Supervisor(lambda _, error, __: failures.append(error)) as supervisor:
            fanout = Fanout(storage, ROOT)
            access = Access(storage)
            keys = resource_keys(ROOT, CRDS.group, CRDS.resource, namespaced=False)
            names = {(resource.group, resource.resource) for resource in builtin_resources(ROOT)}
            strategies = {GroupResource(CRDS.group, CRDS.resource): CRDStrategy(builtin=names)}
            crds = CRDSource(access, fanout, CompiledCRDs(ROOT), keys)
            for source in sources:
                source.connect(SourceContext(storage, fanout, ROOT))
            tables = ResourceTables(access, fanout, (StaticSource(builtin_resources(ROOT, strategies=strategies)), *sources, crds))
            clusters = LogicalClusters(access, fanout, root=ROOT)
            clusters.on_gone(tables.invalidate)
            wildcard = WildcardTables(storage, fanout, tables)
            access.admission = AdmissionChain((LogicalClusterLifecycle(clusters.url_of), NamespaceLifecycle(storage)))
            access.observe(clusters.prefix, clusters)
            started = asyncio.Event()
            supervisor.start("feed", lambda: fanout.run(started=started))
            await started.wait()
            tokens = ContinueTokens(b"k" * 16)
            verbs = VerbsRegistry(access=access, tables=tables, wildcard=wildcard, clusters=clusters, fanout=fanout, tokens=tokens)
            client = LocalClient(verbs)
            tap = LocalTap(access, tables=tables, crds=crds, clusters=clusters, fanout=fanout)
            yield Registry(storage, fanout, access, tables, crds, clusters, client, tap, supervisor, failures)
        assert not failures


def config_map(name: str, namespace: str = "default", **metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": namespace, **metadata}, "data": {"a": "b"}}


def namespace(name: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}


def widget(name: str, namespace: str = "default", **metadata: Any) -> dict[str, Any]:
    return {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": name, "namespace": namespace, **metadata},
        "spec": {"size": 1},
    }


def make_crd(plural: str = "widgets", group: str = "example.com", *, kind: str = "Widget", **names: Any) -> dict[str, Any]:
    """A namespaced CRD with one version."""
    schema: Mapping[str, Any] = {
        "type": "object",
        "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}},
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind, **names},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
