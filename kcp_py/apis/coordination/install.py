"""The kinds of the group."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.table import AGE, NAME, Column
from kcp_py.apis.coordination.strategy import LeaseStrategy
from kcp_py.apis.kindrules import Installed, KindRules
from kcp_py.apis.typed.cells import field

_HOLDER: Final = "holderIdentity contains the identity of the holder of a current lease."
_LEASE: Final = (NAME, Column("Holder", "string", "", _HOLDER, 0, field("spec", "holderIdentity")), AGE)


def install() -> Installed:
    """The rules of each kind."""
    return {GroupResource("coordination.k8s.io", "leases"): KindRules(LeaseStrategy, _LEASE)}
