"""The options are the limits of clusters that state none."""

from __future__ import annotations

from contextlib import AsyncExitStack
from typing import Any

import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.controlplane.batteries import Batteries
from kcp_py.controlplane.limits import default_limits, open_ledger
from kcp_py.logicalcluster import Name
from kcp_py.options import Options
from kcp_py.registry.clusterlimits import NO_LIMITS, Limits
from kcp_py.registry.store import Access
from kcp_py.storage.contract import Put
from kcp_py.storage.memory import MemoryStorage


def test_options_are_limits():
    """None by default."""
    assert default_limits(Options()) == NO_LIMITS
    options = Options(
        logical_cluster_total_object_limit=1,
        logical_cluster_total_byte_limit=2,
        logical_cluster_definition_limit=3,
        logical_cluster_watch_limit=4,
        logical_cluster_request_limit=5,
        logical_cluster_request_burst=6,
    )
    assert default_limits(options) == Limits(1, 2, 3, 4, 5, 6)


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("given", "charged"),
    [({}, True), ({"batteries": ("crds",)}, False), ({"disable_admission_plugins": ("ResourceQuota",)}, False)],
    ids=["by default", "without the battery", "without the plugin"],
)
async def test_the_ledger_charges_stored_quotas(given: dict[str, Any], *, charged: bool):
    """Those that an earlier run has stored, unless the options switch quotas off."""
    options = Options(storage="memory", **given)
    async with MemoryStorage() as storage, AsyncExitStack() as stack:
        await storage.transact((), [Put("/registry/core/resourcequotas/team-a/default/q", b"{}")])
        ledger = await open_ledger(Access(storage), options, Batteries(options), stack)
        assert ledger.counts(Name("team-a"), GroupResource("", "configmaps")) is charged
