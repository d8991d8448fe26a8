"""The kinds of the core group, and events in the two groups that serve them."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.core.columns import COLUMNS
from kcp_py.apis.core.configuration import ConfigMapStrategy, SecretStrategy, ServiceAccountStrategy
from kcp_py.apis.core.events import EVENTS_FIELD_LABELS, FIELD_LABELS, EventStrategy, StrictEventStrategy, convert_events
from kcp_py.apis.core.limits import LimitRangeStrategy, ResourceQuotaStrategy
from kcp_py.apis.core.namespaceobjects import default_service_account
from kcp_py.apis.core.namespaces import NamespaceStrategy
from kcp_py.apis.kindrules import Installed, KindRules
from kcp_py.registry.namespaces import default_namespaces

TOKENS: Final = GroupResource("", "serviceaccounts/token")
"""The subresource that issues tokens."""

_EVENTS: Final = ("events.k8s.io", "events")


def install() -> Installed:
    """The rules of each kind."""
    return {
        GroupResource("", "configmaps"): KindRules(ConfigMapStrategy, COLUMNS["", "configmaps"]),
        GroupResource("", "secrets"): KindRules(SecretStrategy, COLUMNS["", "secrets"], {"type": "type"}),
        GroupResource("", "namespaces"): KindRules(
            NamespaceStrategy, COLUMNS["", "namespaces"], {"status.phase": "status.phase"}, default_namespaces
        ),
        GroupResource("", "serviceaccounts"): KindRules(
            ServiceAccountStrategy, COLUMNS["", "serviceaccounts"], namespace_object=default_service_account()
        ),
        GroupResource("", "events"): KindRules(EventStrategy, COLUMNS["", "events"], FIELD_LABELS),
        GroupResource(*_EVENTS): KindRules(
            StrictEventStrategy, COLUMNS[_EVENTS], EVENTS_FIELD_LABELS, storage_group="", converter=convert_events
        ),
        GroupResource("", "limitranges"): KindRules(LimitRangeStrategy, COLUMNS["", "limitranges"]),
        GroupResource("", "resourcequotas"): KindRules(ResourceQuotaStrategy, COLUMNS["", "resourcequotas"]),
    }
