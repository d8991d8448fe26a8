"""The kinds of the group."""

from __future__ import annotations

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.apiextensions.columns import COLUMNS
from kcp_py.apis.apiextensions.strategy import CRDStrategy
from kcp_py.apis.kindrules import Installed, KindRules
from kcp_py.schema.crd.form import normalize_crd


def install() -> Installed:
    """The rules of each kind. A server replaces the strategy: it knows which resources no CRD may define."""
    crds = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")
    return {crds: KindRules(CRDStrategy, COLUMNS, normalize=normalize_crd)}
