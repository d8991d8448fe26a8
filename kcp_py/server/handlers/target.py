"""From a request to what it is about: the cluster's state, the resource as served there, namespace, name and subresource."""

from __future__ import annotations

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.authz.forbidden import forbidden
from kcp_py.logicalcluster import Name, Wildcard
from kcp_py.registry.catalog.table import ResourceTable, ResourceUnion
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.rest.verbs import unknown_subresource
from kcp_py.registry.writerequest import Resolved
from kcp_py.request.context import RequestContext
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend
from kcp_py.tenancy import LOGICAL_CLUSTER

_NEEDS_NAME = frozenset(("get", "update", "patch", "delete"))


def resolve_cached(backend: Backend, exchange: Exchange) -> Resolved | None:
    """`resolve` without waiting, where the state and the resources of an active cluster are cached; else None.

    Raises:
        StatusError: see `resolve`.
    """
    context = exchange.context
    cluster = context.cluster
    if isinstance(cluster, Wildcard):
        return None
    cluster_state = backend.clusters.cached(cluster)
    if cluster_state is None or cluster_state.inactive or cluster_state.delete_after:
        return None
    info = context.info
    key = (info.group, info.version, info.resource)
    served = backend.tables.everywhere.get(key)
    if served is None:
        table = backend.tables.cached(cluster)
        if table is None:
            return None
        served = table.served.get(key)
    return None if served is None else _resolved(exchange, cluster_state, served)


async def resolve(backend: Backend, exchange: Exchange) -> Resolved:
    """Work out what a request is about.

    Raises:
        StatusError: 403 for a missing or inactive cluster, 404 for an unserved resource, 405 for a verb that the
        resource does not know.
    """
    context = exchange.context
    info = context.info
    cluster = context.cluster
    if isinstance(cluster, Wildcard):
        served = await backend.wildcard.find(
            info.group, info.version, info.resource, sight=context.sight, accept=lambda found: _has_path(info, found)
        )
        if served is None:
            raise unknown_in_group(await backend.wildcard.union(context.sight), info.group)
        return _resolved(exchange, None, served)
    cluster_state = await resolve_cluster(backend, context, cluster)
    # What every cluster serves needs no table: nothing is worked out, or kept, for a cluster that is not there.
    key = (info.group, info.version, info.resource)
    served = backend.tables.everywhere.get(key)
    if served is None:
        table = await backend.tables.get(cluster)
        served = table.served.get(key)
        if served is None:
            raise unknown_in_group(table, info.group)
    return _resolved(exchange, cluster_state, served)


def unknown_in_group(table: ResourceTable | ResourceUnion, group: str) -> StatusError:
    """404 for a version or a resource that is not served. In the groups of built-in kinds it is a Status, in others it is plain text."""
    typed = any(resource.group == group and resource.typed for resource in table.resources())
    return errors.unserved() if typed else errors.unknown_path()


def _resolved(exchange: Exchange, cluster_state: ClusterState | None, served: Served) -> Resolved:
    context = exchange.context
    info = context.info
    resource = served.resource
    namespace = info.namespace if info.namespace and resource.namespaced else _namespace(context, resource)
    if resource.warnings and cluster_state is not None:
        # Over all clusters the words of one of them mean nothing.
        exchange.warnings.extend(resource.warnings)
    verb = info.verb
    if verb not in resource.verbs or info.subresource or (verb in _NEEDS_NAME) is not (len(info.parts) > 1):
        # Everything but a verb that the resource has, of an object with a name or of a collection without.
        _check_verb(context, resource)
    if exchange.method == "HEAD" and resource.typed:
        # There are no such routes of built-in kinds; for custom resources it is a GET.
        raise method_not_allowed()
    exchange.resolved = resource.key
    return Resolved(cluster_state, served, namespace, info.name, info.subresource, context.sight)


async def resolve_cluster(backend: Backend, context: RequestContext, cluster: Name) -> ClusterState:
    """The state of the cluster that a request names.

    Raises:
        StatusError: 403, the same for a cluster that does not exist as for one that the caller may not enter; 403 for one that is
            inactive or deleted.
    """
    cluster_state = await backend.clusters.state(cluster)
    if cluster_state is None:
        info = context.info
        creates_it = info.verb == "create" and (info.group, info.resource) == (LOGICAL_CLUSTER.group, LOGICAL_CLUSTER.resource)
        if not (backend.implicit_clusters or creates_it):
            raise forbidden(context.user, info)
        return backend.clusters.uncreated(cluster)
    if cluster_state.delete_after and not _passes_inactive(context):
        resource = GroupResource(LOGICAL_CLUSTER.group, LOGICAL_CLUSTER.resource)
        hint = f'until {cluster_state.delete_after} "kcp-py cluster undelete {cluster}" brings it back'
        raise errors.forbidden(resource, cluster, f"logical cluster is deleted; {hint}")
    if cluster_state.inactive and not _passes_inactive(context):
        resource = GroupResource(LOGICAL_CLUSTER.group, LOGICAL_CLUSTER.resource)
        raise errors.forbidden(resource, cluster, "logical cluster is marked inactive")
    return cluster_state


def _passes_inactive(context: RequestContext) -> bool:
    """What stays open in an inactive cluster, so that it can be switched on again (kcp: its own object and OpenAPI)."""
    info = context.info
    if info.is_resource:
        return (info.group, info.version, info.resource) == LOGICAL_CLUSTER
    return info.path.startswith("/openapi")


def _has_path(info: RequestInfo, resource: ServedResource) -> bool:
    """Whether a resource has the scope of a path over all clusters. A collection without a namespace is for both scopes."""
    if len(info.parts) > 1 and info.verb == "get":
        return resource.namespaced is bool(info.namespace)
    return resource.namespaced or not info.namespace or (resource.resource == "namespaces" and not resource.group)


def _namespace(context: RequestContext, resource: ServedResource) -> str:
    """The namespace of the request, where the path fits the resource's scope; anything else is a path that nothing serves."""
    info = context.info
    if resource.namespaced:
        if not info.namespace:
            # A namespaced resource without its namespace can be listed and watched, nothing else. Reviews cannot even be listed.
            if len(info.parts) > 1 or (resource.typed and "list" not in resource.verbs):
                raise _unknown_place(resource)
            if info.verb not in {"list", "watch"}:
                raise method_not_allowed() if resource.typed else errors.unknown_path()
        return info.namespace
    if info.namespace and not (resource.resource == "namespaces" and not resource.group and _names_itself(info)):
        raise _unknown_place(resource)
    return ""


def _unknown_place(resource: ServedResource) -> StatusError:
    """404 for a path of the other scope."""
    return errors.unserved() if resource.typed else errors.unknown_path()


def _names_itself(info: RequestInfo) -> bool:
    """Whether the namespace of the path is the object and not the place of namespaces: /namespaces/x, not /namespaces/x/namespaces."""
    return info.parts[1:2] == (info.namespace,) and info.path.count("/namespaces/") == 1


def _check_verb(context: RequestContext, resource: ServedResource) -> None:
    info = context.info
    named = len(info.parts) > 1
    if info.subresource:
        subresource = resource.subresources.get(info.subresource)
        if subresource is None or (len(info.parts) > 3 and not subresource.continues):
            raise unknown_subresource(resource, info.name)
        if info.verb not in subresource.verbs:
            raise method_not_allowed() if resource.typed else errors.method_not_supported(resource.group_resource, info.verb)
        return
    if not info.verb or (info.verb in _NEEDS_NAME and not named) or (info.verb == "create" and named):
        raise _unrouted(resource, named=named)
    if info.verb not in resource.verbs:
        if resource.rest is not None:
            raise _unrouted(resource, named=named) if resource.typed else errors.method_not_supported(resource.group_resource, info.verb)
        if info.verb == "create":
            detail = "create not allowed while custom resource definition is terminating"
            raise errors.forbidden(resource.group_resource, "", detail)
        if info.verb not in {"update", "patch"}:
            # Built-in kinds have no route for verbs that they do not know. Custom resources lose verbs while their CRD is terminating,
            # with messages of their own.
            raise method_not_allowed() if resource.typed else errors.method_not_supported(resource.group_resource, info.verb)


def _unrouted(resource: ServedResource, *, named: bool) -> StatusError:
    """404 for the objects of a built-in kind that can be created only, since kube-apiserver has no route for their names; else 405."""
    return errors.unserved() if named and resource.typed and _NEEDS_NAME.isdisjoint(resource.verbs) else method_not_allowed()


def method_not_allowed() -> StatusError:
    """405 for a method that the path does not take."""
    return StatusError(405, "MethodNotAllowed", "the server does not allow this method on the requested resource", details={})
