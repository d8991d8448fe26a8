"""The limits of logical clusters that state none, and the ledger that charges quotas and limits, from the options."""

from __future__ import annotations

from contextlib import AsyncExitStack

from kcp_py.admission.names import is_on
from kcp_py.controlplane.batteries import Batteries
from kcp_py.controlplane.datastore import is_shared
from kcp_py.options import Options
from kcp_py.registry.clusterlimits import Limits
from kcp_py.registry.quota import QuotaLedger
from kcp_py.registry.store import Access


def default_limits(options: Options) -> Limits:
    """The limits of each logical cluster that has no annotation for them."""
    return Limits(
        objects=options.logical_cluster_total_object_limit,
        size=options.logical_cluster_total_byte_limit,
        definitions=options.logical_cluster_definition_limit,
        watches=options.logical_cluster_watch_limit,
        requests=options.logical_cluster_request_limit,
        burst=options.logical_cluster_request_burst,
    )


async def open_ledger(access: Access, options: Options, batteries: Batteries, stack: AsyncExitStack) -> QuotaLedger:
    """The ledger, which knows the clusters with quotas and limits. `stack` closes it.

    Raises:
        StorageError: the store cannot be read.
    """
    ledger = QuotaLedger(
        access.storage,
        options.etcd_prefix,
        access.commit,
        shared=is_shared(access.storage, options),
        quotas="quotas" in batteries and is_on("ResourceQuota", options.enable_admission_plugins, options.disable_admission_plugins),
        limits=default_limits(options),
        budget=access.budget,
    )
    await ledger.start()
    stack.push_async_callback(ledger.aclose)
    return ledger
