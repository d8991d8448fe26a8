"""The chain of admission plugins in a cluster that configures none of them."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

from kcp_py.apimachinery.meta.options import UpdateOptions
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.options import Options
from kcp_py.registry.admission import AdmissionChain, attributes_of
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.request.context import RequestContext
from kcp_py.request.requestinfo import UNPARSED
from kcp_py.request.user import controller_user
from tests.benchmarks.row import Row

_WRITES = 100_000


async def idle_row(directory: Path) -> AsyncIterator[Row]:
    """All plugins that are on by default, for an update of a config map."""
    async with ControlPlane(Options(storage="memory", root_directory=directory)) as control_plane:
        backend = control_plane.backend
        served = backend.tables.builtin("", "v1", "configmaps")
        assert served is not None
        cluster = Name("idle")
        await backend.clusters.ensure(cluster)
        state = await backend.clusters.state(cluster)
        assert state is not None
        chain, resource = backend.access.admission, served.resource.group_resource
        context = RequestContext("", cluster, True, UNPARSED, controller_user("bench"), [], {})
        request = WriteRequest(context, Resolved(state, served, "default", "one"), UpdateOptions())
        obj = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "default"}, "data": {"a": "b"}}
        attributes = attributes_of("UPDATE", request, "default", "one", obj=obj, old=obj, compares=[])

        async def measure(chain: AdmissionChain) -> float:
            best = 1e9
            for _ in range(5):
                start = time.thread_time()
                for _ in range(_WRITES):
                    steps = chain.steps("UPDATE", cluster, resource, dry_run=False)
                    if steps.mutating:
                        await steps.mutate(attributes)
                    if steps.validating:
                        await steps.validate(attributes)
                best = min(best, time.thread_time() - start)
            return best / _WRITES * 1e6

        ours, bare = await measure(chain), await measure(AdmissionChain())
        yield Row("idle admission chain, a write", f"{ours:.2f} us", f"{bare:.2f} us", f"{bare / ours:.0%}", "<= 1 us")


ADMISSION_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "admission": idle_row,
}
