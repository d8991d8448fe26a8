"""`build_catalog`: the resources that the clusters of a server serve, from the options and from the arguments of a library user."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.kinds import CRDS, GroupResource
from kcp_py.apis.access import GrantSource
from kcp_py.apis.apiextensions.strategy import CRDStrategy
from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.apis.certificates.install import SIGNING_REQUESTS
from kcp_py.apis.certificates.strategy import SigningRequestStrategy
from kcp_py.apis.core.componentstatuses import component_statuses
from kcp_py.apis.core.configuration import ConfigMapStrategy
from kcp_py.apis.core.kubernetes_service import RANGE, kubernetes_service, service_network
from kcp_py.apis.core.namespaceobjects import root_ca_config_map
from kcp_py.apis.jwt.resource import cluster_authentication
from kcp_py.apis.kcp.logicalclusters import LogicalClusterStrategy
from kcp_py.apis.metrics import ClusterUsages, cluster_usages
from kcp_py.apis.rbac.policy import without_kcp_policy
from kcp_py.apis.upstream.flowcontrol import FLOW_CONTROL
from kcp_py.apis.upstream.priorityclasses import PRIORITY_CLASSES, system_priority_classes
from kcp_py.apis.upstream.provider import UpstreamKinds
from kcp_py.apis.upstream.subresources.objects import ClusterObjects
from kcp_py.bootstrap.kinds import builtin_kinds
from kcp_py.controlplane.apiversions import ServedVersions
from kcp_py.controlplane.batteries import Batteries
from kcp_py.controlplane.serviceranges import kubernetes_ip
from kcp_py.logicalcluster import ROOT
from kcp_py.options import Options
from kcp_py.registry.catalog.attachments import Attachment, Attachments
from kcp_py.registry.catalog.compilation import CompiledCRDs
from kcp_py.registry.catalog.crds import CRDSource
from kcp_py.registry.catalog.servedevents import ServedEvents
from kcp_py.registry.catalog.source import ResourceSource, SourceContext
from kcp_py.registry.catalog.static import StaticSource
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.catalog.wildcard import WildcardTables
from kcp_py.registry.computed import ComputedResource
from kcp_py.registry.conversion import Webhooks
from kcp_py.registry.default_events import DefaultEvents
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.storage import RestStorage
from kcp_py.registry.store import Access
from kcp_py.registry.stored import StoredResource
from kcp_py.registry.strategy import Strategy
from kcp_py.storage.keys import CUSTOM_RESOURCES, resource_keys
from kcp_py.tenancy import LOGICAL_CLUSTER
from kcp_py.tenancy.logicalcluster import logical_cluster_keys
from kcp_py.watchcache import Fanout

_PODS: Final = GroupResource("", "pods")
_CONFIG_MAPS: Final = GroupResource("", "configmaps")

Api = ComputedResource | StoredResource | ResourceSource | type[Any]
"""What a library user adds; a class describes a resource by `library.types.resource.resource`."""


class Catalog(NamedTuple):
    """The resources that clusters serve."""

    builtins: Sequence[ServedResource]
    """The resources that every cluster serves."""
    upstream: Sequence[ServedResource]
    """The kinds of Kubernetes among them that the options add."""
    tables: ResourceTables
    crds: CRDSource
    wildcard: WildcardTables


def build_catalog(
    access: Access,
    fanout: Fanout,
    options: Options,
    *,
    apis: Sequence[Api],
    batteries: Batteries,
    rests: Mapping[GroupResource, RestStorage],
    webhooks: Webhooks,
    root_ca: str = "",
    subresources: Sequence[Attachment] = (),
) -> Catalog:
    """Put the catalog together.

    A resource belongs to the first of these that serves it: the server itself, `apis` in their order, the CRDs of the cluster.

    Args:
        access: the store.
        fanout: the changes of the store.
        options: the settings.
        apis: the resources and sources of a library user.
        batteries: which of its own resources the server serves.
        rests: what serves the built-in kinds that no store holds.
        webhooks: calls conversion webhooks.
        root_ca: certificates (PEM) that clients verify the server by; without any namespaces have no `kube-root-ca.crt`.
        subresources: those that a library user adds to resources.

    Raises:
        ValueError: two of `subresources`, or one of them and one of its resource, have the same name; a resource of `apis` has the name
            or the kind of another one that every cluster serves, or needs a battery that is not selected.
    """
    attachments = Attachments(subresources)
    root = options.etcd_prefix
    crd_keys = resource_keys(root, *CRDS.group_resource, namespaced=False)
    defaults = {
        **kubernetes_service(options.external_url(options.secure_port), kubernetes_ip(options)),
        **service_network(options.service_cluster_ip_range or (RANGE,)),
        PRIORITY_CLASSES: system_priority_classes,
        **FLOW_CONTROL,
    }
    context = SourceContext(access.storage, fanout, root, options.cluster_annotation == "always" and not options.single_cluster)
    requested = ClusterObjects(access)
    kinds = UpstreamKinds(requested, clock=access.clock)
    upstream: tuple[ServedResource, ...] = ()
    if batteries.kinds:
        # Imported only if the options need it: see `registry.catalog.compilation`.
        from kcp_py.apis.upstream.resources import upstream_resources  # noqa: PLC0415

        upstream = upstream_resources(root, batteries.kinds, defaults, kinds)
        if any(one.group_resource == _PODS for one in upstream):
            from kcp_py.apis.upstream.subresources.bindings import legacy_bindings  # noqa: PLC0415

            upstream = (legacy_bindings(requested, root), *upstream)
    usages = ClusterUsages()
    apis = [_described(one) if isinstance(one, type) else one for one in apis]
    described = [one for one in apis if not isinstance(one, ResourceSource)]
    own = (cluster_usages(usages).served(root), _cluster_authentication(root), component_statuses(access.storage, root))
    declared: list[Sequence[ServedResource]] = [[one] for one in own if batteries.serves(one)]
    declared.extend(one.served_versions(root) if isinstance(one, StoredResource) else [one.served(root)] for one in described)
    added = [resource for versions in declared for resource in versions]
    batteries.check_scopes((*upstream, *added))
    # Of the resources that are not served, too: what they are must not depend on who defines them.
    names = {(kind.group, kind.plural) for kind in builtin_kinds()}
    names |= {(resource.group, resource.resource) for resource in (*own, *upstream, *added)}
    strategies: dict[GroupResource, Strategy] = {
        CRDS.group_resource: CRDStrategy(builtin=frozenset(names), namespaces="namespaces" in batteries, clock=access.clock),
        LOGICAL_CLUSTER.group_resource: LogicalClusterStrategy(deletion_grace=options.logical_cluster_deletion_grace, clock=access.clock),
        _CONFIG_MAPS: ConfigMapStrategy(root_ca),
        SIGNING_REQUESTS.group_resource: SigningRequestStrategy(access.clock),
    }
    provided = (*filter(batteries.serves, builtin_resources(root, strategies=strategies, rests=rests)), *upstream)
    if options.single_cluster:
        provided = tuple(without_kcp_policy(one) for one in provided)
    _check_distinct(provided, declared)
    versions = ServedVersions(options.runtime_config, single_cluster=options.single_cluster)
    shown = (one if options.namespace_objects else _without_object(one) for one in (*provided, *added) if versions.serves(one))
    root_ca = root_ca if options.namespace_objects else ""
    builtins = tuple(
        attachments.everywhere(_with_root_ca(one if context.annotated else _without_annotation(one), root_ca)) for one in shown
    )
    compiled = CompiledCRDs(root, webhooks, defaults, upstream=kinds, annotated=context.annotated)
    crds = CRDSource(access, fanout, compiled, crd_keys)
    sources: list[ResourceSource] = [
        *([GrantSource()] if "rbac" in batteries and not options.single_cluster else []),
        *_contained(one for one in apis if isinstance(one, ResourceSource)),
    ]
    for source in sources:
        source.connect(context)
    tables = ResourceTables(
        access, fanout, (StaticSource(builtins), *sources, *([crds] if "crds" in batteries else [])), attachments=attachments
    )
    usages.connect(access.storage, tables)
    requested.connect(tables)
    for source in sources:
        followed = {dependency.prefix for dependency in source.depends_on(ROOT)}
        for keys in {resource.keys.prefix: resource.keys for resource in source.declared if resource.rest is None}.values():
            fanout.derive(followed, keys.prefix, ServedEvents(access.storage, source, keys))
    for resource, objects in defaults.items() if batteries.has_kinds_of_kubernetes else ():
        namespaced = any("/" in place for place in objects(ROOT, "", ""))
        keys = resource_keys(root, *resource, namespaced=namespaced, identity=CUSTOM_RESOURCES)
        events = DefaultEvents(
            access.storage,
            keys,
            objects,
            cluster_keys=logical_cluster_keys(root),
            crd_keys=crd_keys,
            resource=resource,
            defines=kinds.defines_own,
        )
        fanout.derive(events.sources, keys.prefix, events)
    wildcard = WildcardTables(access.storage, fanout, tables, defaults=defaults)
    return Catalog(builtins, upstream, tables, crds, wildcard)


def _contained(sources: Iterable[ResourceSource]) -> Iterator[ResourceSource]:
    for source in sources:
        from kcp_py.library.sources import ContainedSource  # noqa: PLC0415 - most programs have none

        yield ContainedSource(source)


def _described(cls: type[Any]) -> StoredResource:
    """Raises DefinitionError."""
    from kcp_py.library.types.resource import stored_resource  # noqa: PLC0415 - few programs have types

    return stored_resource(cls)


@lru_cache(maxsize=1)
def _cluster_authentication(root: str) -> ServedResource:
    # A process may have many control planes, one after the other or forked: its definition is checked once.
    return cluster_authentication().served(root)


def _without_object(resource: ServedResource) -> ServedResource:
    return resource if resource.namespace_object is None else replace(resource, namespace_object=None)


def _without_annotation(resource: ServedResource) -> ServedResource:
    return replace(resource, annotated=False) if resource.annotated else resource


def _with_root_ca(resource: ServedResource, root_ca: str) -> ServedResource:
    """ConfigMaps with one in each namespace that has the certificates."""
    if not root_ca or resource.group_resource != _CONFIG_MAPS:
        return resource
    return replace(resource, namespace_object=root_ca_config_map(root_ca))


def _check_distinct(own: Sequence[ServedResource], declared: Sequence[Sequence[ServedResource]]) -> None:
    """Refuse added resources that would be served in the place of another one.

    Args:
        own: the resources of the server.
        declared: the versions of each added resource.

    Raises:
        ValueError: a group has a resource or a kind twice in one version, or a stored resource has the name of another resource.
    """
    resources = (*own, *(resource for versions in declared for resource in versions))
    names = [(resource.group_resource, resource.version) for resource in resources]
    kinds = [resource.group_version_kind for resource in resources]
    declarations = [
        *(one.group_resource for one in own),
        *(name for versions in declared for name in {one.group_resource for one in versions}),
    ]
    stored = {one.group_resource for one in own} | {one.group_resource for versions in declared for one in versions if one.rest is None}
    for resource in resources[len(own) :]:
        if (
            names.count((resource.group_resource, resource.version)) > 1
            or kinds.count(resource.group_version_kind) > 1
            or (declarations.count(resource.group_resource) > 1 and resource.group_resource in stored)
        ):
            raise ValueError(f"{resource.group_resource} in version {resource.version} has the name or the kind of another resource")
