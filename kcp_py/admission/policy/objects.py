"""`PolicyObjects`: the objects of a cluster that policies refer to (parameters, namespaces), and the forms in which objects are served."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import Any, Final

import orjson

from kcp_py.admission.policy.definitions import Parameters
from kcp_py.admission.policy.matching import labels_of
from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind
from kcp_py.apimachinery.meta.names import path_segment_problems
from kcp_py.golang.quoting import go_quote
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.store import Access
from kcp_py.registry.store.access import translate
from kcp_py.registry.store.defaults import default_items, with_defaults
from kcp_py.registry.store.read import find, load_one
from kcp_py.storage.contract import KeyValue, StorageError
from kcp_py.storage.keys import InvalidSegmentError
from kcp_py.storage.paging import read_pages

_PAGE: Final = 500
_NAMESPACES: Final = GroupResource("", "namespaces")


class ConfigurationError(Exception):
    """A policy or a binding cannot be used for a request. `str()` is upstream's text."""


class PolicyObjects:
    """Reads objects for policies. Each read sees the latest write."""

    def __init__(self, access: Access, tables: ResourceTables) -> None:
        self._access = access
        self._tables = tables
        groups: dict[str, list[ServedResource]] = {}
        for resource in tables.builtins:
            groups.setdefault(resource.keys.prefix, []).append(resource)
        self._same_objects: Final = {prefix: found for prefix, found in groups.items() if len(found) > 1}

    def other_groups(self, resource: ServedResource) -> Sequence[GroupResource]:
        """Resources of other groups with the same objects, such as those of Events."""
        found = self._same_objects.get(resource.keys.prefix, ())
        return [one.group_resource for one in found if one.group_resource != resource.group_resource]

    async def equivalents(self, cluster_state: ClusterState, resource: ServedResource) -> Sequence[ServedResource]:
        """The other versions and groups in which the objects of a resource are served."""
        if resource.group_resource in self._tables.builtin_resources:
            return [one for one in self._same_objects.get(resource.keys.prefix, ()) if one.key != resource.key]
        table = await self._tables.get(cluster_state.name)
        return [one.resource for one in table.find_all(resource.group_resource) if one.resource.key != resource.key]

    async def converted(self, obj: Mapping[str, Any] | None, source: ServedResource, target: ServedResource) -> Mapping[str, Any] | None:
        """An object of one version in another one.

        Raises:
            StatusError: the webhook that converts fails.
        """
        if obj is None or source.key == target.key:
            return obj
        converter = source.converter or target.converter
        if converter is None:
            return {**obj, "apiVersion": target.group_version}
        (form,) = await converter([copy.deepcopy(dict(obj))], target.group_version)
        return form

    async def namespace(self, cluster_state: ClusterState, name: str) -> dict[str, Any] | None:
        """A namespace, if it exists.

        Raises:
            StatusError: the store cannot be read.
        """
        return await self.builtin(cluster_state, _NAMESPACES, name)

    async def parameters(
        self, cluster_state: ClusterState, kind: GroupVersionKind | None, reference: Parameters | None, namespace: str
    ) -> Sequence[dict[str, Any] | None]:
        """The parameters with which a policy is evaluated for a request, each in turn. None stands for an evaluation without one.

        Args:
            cluster_state: the cluster of the request.
            kind: of the parameters; None where the policy has none.
            reference: of the binding; None where it has none.
            namespace: of the request.

        Raises:
            ConfigurationError: there are none and that denies, or the reference does not fit the kind.
            StatusError: the store cannot be read.
        """
        if kind is None or reference is None:
            return [None]
        served = await self._served(cluster_state, kind)
        if served is None:
            raise ConfigurationError(f"paramKind kind `{kind.group_version}, Kind={kind.kind}` not known")
        place = ""
        if served.resource.namespaced:
            place = reference.namespace or namespace
            if not place:
                raise ConfigurationError("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources")
        elif reference.namespace:
            raise ConfigurationError("paramRef.namespace must not be provided for a cluster-scoped `paramKind`")
        found: Sequence[dict[str, Any]]
        if reference.name:
            if problems := path_segment_problems(place) if place else []:
                raise ConfigurationError(f"invalid namespace {go_quote(place)}: [{' '.join(problems)}]")
            one = await self._object(cluster_state, served, place, reference.name)
            found = [] if one is None else [one]
        else:
            found = await self._selected(cluster_state, served, place, reference)
        if not found and reference.denies_missing:
            raise ConfigurationError("no params found for policy binding with `Deny` parameterNotFoundAction")
        return found

    async def knows(self, cluster_state: ClusterState, kind: GroupVersionKind) -> bool:
        """Whether the cluster serves a kind."""
        return await self._served(cluster_state, kind) is not None

    async def resource_of(self, cluster_state: ClusterState, kind: GroupVersionKind) -> str:
        """The plural of a kind in a cluster; empty where the cluster does not serve it."""
        served = await self._served(cluster_state, kind)
        return "" if served is None else served.resource.resource

    async def builtin(self, cluster_state: ClusterState, resource: GroupResource, name: str) -> dict[str, Any] | None:
        """An object of a built-in cluster-scoped resource, if it exists.

        Raises:
            StatusError: the store cannot be read.
        """
        served = self._tables.builtin(*self._tables.builtin_resources[resource].key)
        assert served is not None
        return await self._object(cluster_state, served, "", name) if name else None

    async def _served(self, cluster_state: ClusterState, kind: GroupVersionKind) -> Served | None:
        resource = await self._tables.find_kind(cluster_state.name, kind)
        if resource is None:
            return None
        return self._tables.builtin(*resource.key) or (await self._tables.get(cluster_state.name)).find(*resource.key)

    async def _object(self, cluster_state: ClusterState, served: Served, namespace: str, name: str) -> dict[str, Any] | None:
        try:
            item = await find(self._access, cluster_state, served, namespace, name)
        except InvalidSegmentError:
            return None
        except StorageError as error:
            raise translate(error) from error
        return None if item is None else await load_one(served, item)

    async def _selected(
        self, cluster_state: ClusterState, served: Served, namespace: str, reference: Parameters
    ) -> Sequence[dict[str, Any]]:
        """The objects that a selector selects, in the order of their keys."""
        assert reference.selector is not None
        keys = served.resource.keys
        try:
            prefix = keys.namespace_prefix(cluster_state.name, namespace) if namespace else keys.cluster_prefix(cluster_state.name)
        except InvalidSegmentError:
            return []
        stored: list[KeyValue] = []
        try:
            async for page in read_pages(self._access.storage, prefix, limit=_PAGE):
                stored.extend(page.items)
        except StorageError as error:
            raise translate(error) from error
        if served.resource.default_objects is not None:
            stored = with_defaults(stored, [item for item in default_items(served, cluster_state) if item.key.startswith(prefix)])
        found: list[dict[str, Any]] = []
        turns = TimeSlice()
        for item in stored:
            await turns.yield_if_due()
            if reference.selector.matches(labels_of(orjson.loads(item.value))):
                found.append(await load_one(served, item))
        return found
