"""`builtin_resources`: the built-in kinds as served resources."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache, partial
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.kinds import GroupResource, GroupVersion
from kcp_py.apimachinery.serializer.protobuf import has_message
from kcp_py.apis.builtin.columns import COLUMNS
from kcp_py.apis.coordination.strategy import LeaseStrategy
from kcp_py.apis.core.configuration import ConfigMapStrategy, SecretStrategy, ServiceAccountStrategy
from kcp_py.apis.core.events import (
    EVENTS_FIELD_LABELS,
    FIELD_LABELS,
    EventStrategy,
    StrictEventStrategy,
    convert_events,
)
from kcp_py.apis.core.limits import LimitRangeStrategy, ResourceQuotaStrategy
from kcp_py.apis.core.namespaces import NamespaceStrategy
from kcp_py.apis.kcp.logicalclusters import LogicalClusterStrategy
from kcp_py.apis.rbac.strategy import ClusterRoleStrategy, RoleBindingStrategy, RoleStrategy
from kcp_py.apis.typed.decoding import DeferredSchema
from kcp_py.bootstrap.kinds import BuiltinKind, builtin_kinds, definitions
from kcp_py.registry.merge_types import MergeTypes
from kcp_py.registry.namespaces import default_namespaces
from kcp_py.registry.resource import Converter, DefaultObjects, ServedResource, storage_version_hash
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.subresources import table_of
from kcp_py.schema.crd.form import normalize_definition
from kcp_py.schema.models import validation_schema
from kcp_py.schema.structural.nodes import Node, NodesByName
from kcp_py.storage.keys import resource_keys


class _DefinitionStrategy(Strategy):
    """CustomResourceDefinitions without the rules of their own, which are passed in by those who know them."""

    allow_unconditional_update = False


class _Special(NamedTuple):
    """What a kind has beyond its data."""

    strategy: Callable[[], Strategy]
    field_labels: Mapping[str, str] = {}
    default_objects: DefaultObjects | None = None
    typed: bool = True
    storage_group: str | None = None
    converter: Converter | None = None
    normalize: Callable[[dict[str, Any]], None] | None = None


_SPECIAL: Final[Mapping[tuple[str, str], _Special]] = {
    ("", "configmaps"): _Special(ConfigMapStrategy),
    ("", "secrets"): _Special(SecretStrategy, {"type": "type"}),
    ("", "namespaces"): _Special(NamespaceStrategy, {"status.phase": "status.phase"}, default_namespaces),
    ("", "serviceaccounts"): _Special(ServiceAccountStrategy),
    ("", "events"): _Special(EventStrategy, FIELD_LABELS),
    ("events.k8s.io", "events"): _Special(StrictEventStrategy, EVENTS_FIELD_LABELS, storage_group="", converter=convert_events),
    ("", "limitranges"): _Special(LimitRangeStrategy),
    ("", "resourcequotas"): _Special(ResourceQuotaStrategy),
    ("coordination.k8s.io", "leases"): _Special(LeaseStrategy),
    ("rbac.authorization.k8s.io", "roles"): _Special(RoleStrategy),
    ("rbac.authorization.k8s.io", "clusterroles"): _Special(ClusterRoleStrategy),
    ("rbac.authorization.k8s.io", "rolebindings"): _Special(RoleBindingStrategy),
    ("rbac.authorization.k8s.io", "clusterrolebindings"): _Special(partial(RoleBindingStrategy, namespaced=False)),
    ("apiextensions.k8s.io", "customresourcedefinitions"): _Special(_DefinitionStrategy, normalize=normalize_definition),
    # No client has this kind compiled in: it is served by kcp as a custom resource.
    ("core.kcp.io", "logicalclusters"): _Special(LogicalClusterStrategy, typed=False),
}


def builtin_resources(root: str, *, strategies: Mapping[GroupResource, Strategy] | None = None) -> tuple[ServedResource, ...]:
    """Every built-in kind, in the order in which discovery lists groups and kinds.

    Args:
        root: the store's prefix, such as `/registry`.
        strategies: instead of those of this package; CustomResourceDefinitions get theirs this way.
    """
    kinds = builtin_kinds()
    schemas = {
        kind.definition: DeferredSchema(validation_schema, kind.definition, typed=special.typed, normalize=special.normalize)
        for kind in kinds
        for special in (_SPECIAL[kind.group, kind.plural],)
    }
    return tuple(_served(kind, root, schemas, (strategies or {}).get(GroupResource(kind.group, kind.plural))) for kind in kinds)


@cache
def _models() -> Mapping[str, Node]:
    """The schemas that those of built-in kinds refer to."""
    return NodesByName(definitions())


def _documents(plural: str, storage_group: str) -> Mapping[str, Mapping[str, Any]]:
    """The documents of all groups and versions in which the same objects are served."""
    found = {}
    for kind in builtin_kinds():
        group = _SPECIAL[kind.group, kind.plural].storage_group
        if kind.plural == plural and (kind.group if group is None else group) == storage_group:
            found[str(GroupVersion(kind.group, kind.version))] = definitions()[kind.definition]
    return found


def _served(kind: BuiltinKind, root: str, schemas: Mapping[str, DeferredSchema], strategy: Strategy | None) -> ServedResource:
    special = _SPECIAL[kind.group, kind.plural]
    storage_group = kind.group if special.storage_group is None else special.storage_group
    stored = next(other for other in builtin_kinds() if (other.group, other.plural) == (storage_group, kind.plural))
    document = definitions()[kind.definition]
    return ServedResource(
        group=kind.group,
        version=kind.version,
        resource=kind.plural,
        kind=kind.kind,
        list_kind=kind.list_kind,
        singular=kind.singular,
        namespaced=kind.namespaced,
        keys=resource_keys(root, storage_group, kind.plural, namespaced=kind.namespaced),
        strategy=strategy or special.strategy(),
        columns=COLUMNS[kind.group, kind.plural],
        storage_version=stored.version,
        schema=schemas[kind.definition],
        storage_schema=schemas[stored.definition],
        storage_group=special.storage_group,
        converter=special.converter,
        default_objects=special.default_objects,
        short_names=tuple(kind.short_names),
        categories=tuple(kind.categories),
        verbs=tuple(kind.verbs),
        subresources=table_of(finalize="finalize" in kind.subresources, status="status" in kind.subresources),
        typed=special.typed,
        protobuf=has_message(str(GroupVersion(kind.group, kind.version)), kind.kind),
        field_labels=special.field_labels,
        strategic_merge=document if special.typed else None,
        storage_version_hash=storage_version_hash(stored.group, stored.version, kind.kind),
        document=document,
        definition=kind.definition,
        definitions=definitions(),
        merge_types=MergeTypes(NodesByName(_documents(kind.plural, storage_group)), _models()),
    )
