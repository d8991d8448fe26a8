"""ResourceQuota: what objects use, what quotas allow, and the ledger that charges each write in its own transaction."""

from kcp_py.registry.quota.ledger import QuotaLedger
from kcp_py.registry.quota.quotas import Change

__all__ = ("Change", "QuotaLedger")
