"""Dry runs are refused as the writes would be."""

from __future__ import annotations

import pytest

from kcp_py.admission import ResourceQuota
from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionChain
from tests.client.registry import CONFIG_MAPS, config_map
from tests.registry.quota.conftest import TEAM, Charged, charged

__all__ = ["charged"]

pytestmark = pytest.mark.anyio


def judged(charged: Charged) -> ResourceQuota:
    """The plugin, put at the end of the chain."""
    access = charged.registry.access
    plugin = ResourceQuota(charged.ledger)
    access.admission = AdmissionChain((*access.admission.plugins, plugin))
    return plugin


async def test_dry_runs(charged):
    """They are refused in the words of the write, and use nothing."""
    plugin = judged(charged)
    await charged.quota(hard={"configmaps": "1"})
    for name in ("a", "b"):
        await charged.client.create(TEAM, CONFIG_MAPS, config_map(name), dry_run=True)
    assert not plugin.ignores(TEAM, CONFIG_MAPS.group_resource)
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    with pytest.raises(StatusError, match="exceeded quota: q, requested: configmaps=1, used: configmaps=1, limited: configmaps=1"):
        await charged.client.create(TEAM, CONFIG_MAPS, config_map("b"), dry_run=True)
    await charged.client.update(TEAM, CONFIG_MAPS, config_map("a", labels={"a": "b"}), dry_run=True)
    assert await charged.used() == {"configmaps": "1"}


async def test_clusters_without_quotas_are_ignored(charged):
    """Where a server is alone with its store, it knows them."""
    plugin = judged(charged)
    await charged.quota(hard={"configmaps": "1"})
    assert plugin.ignores(Name("other"), CONFIG_MAPS.group_resource) is not charged.shared
