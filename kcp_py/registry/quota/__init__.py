"""ResourceQuota and limits of clusters: usage, allowed amounts, and the ledger that charges each write in its own transaction."""

from kcp_py.registry.clusterlimits import NO_LIMITS, Limits, Used
from kcp_py.registry.quota.ledger import QuotaLedger
from kcp_py.registry.quota.quotas import Change

__all__ = ("NO_LIMITS", "Change", "Limits", "QuotaLedger", "Used")
