"""The kinds of the group."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.table import AGE, NAME, Column
from kcp_py.apis.kcp.logicalclusters import LogicalClusterStrategy
from kcp_py.apis.kindrules import Installed, KindRules
from kcp_py.apis.typed.cells import field

_COLUMNS: Final = (
    NAME,
    Column("Phase", "string", "", "The current phase (e.g. Scheduling, Initializing, Ready, Deleting)", 0, field("status", "phase")),
    Column("URL", "string", "", "URL to access the logical cluster", 0, field("status", "URL")),
    AGE,
)


def install() -> Installed:
    """The rules of each kind. Clients are not compiled with them: kcp serves them as custom resources."""
    return {GroupResource("core.kcp.io", "logicalclusters"): KindRules(LogicalClusterStrategy, _COLUMNS, typed=False)}
