"""`RestStorage`: what serves the requests for a resource or a subresource, and what its verbs are asked and answer with.

Source: k8s.io/apiserver `pkg/registry/rest` (`Getter`, `Lister`, `Watcher`, `Creater`, `Updater`, `Patcher`, `GracefulDeleter`,
`CollectionDeleter`).
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from typing import Any, ClassVar, Final, NamedTuple

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.meta.options import ListOptions
from kcp_py.logicalcluster import Name
from kcp_py.registry.rest.listing import Listing
from kcp_py.registry.rest.watching import StoredWatch
from kcp_py.registry.scale import scale_of, show_scale
from kcp_py.registry.store import load_one
from kcp_py.registry.store.access import StoreResult
from kcp_py.registry.store.read import from_storage
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.request.context import RequestContext
from kcp_py.storage.contract import KeyValue

Object = dict[str, Any]
"""Decoded JSON. `metadata.name` is required, `metadata.namespace` where the resource is namespaced; the server adds apiVersion and kind."""

Admit = Callable[[Object], Awaitable[None]]
"""Asks admission about an object.

Raises:
    StatusError: a plugin refuses it.
"""

_METHODS: Final = ("create", "delete", "get", "list", "update", "watch")


class ReadRequest(NamedTuple):
    """A get, a list or a watch."""

    context: RequestContext
    """Who asks, and where warnings go."""
    target: Resolved
    """The name is empty for a list and a watch."""
    options: ListOptions = ListOptions()
    """Selectors, limit and resourceVersion. The server applies selectors and limits itself: an implementation may use them to read less."""
    in_cluster: str = ""
    """Of a get over all clusters: the cluster that the client names; empty where it names none."""


class ObjectEvent(NamedTuple):
    """One change that a watch shows."""

    type: str
    """`ADDED`, `MODIFIED`, `DELETED`, or `BOOKMARK`, see `bookmark`."""
    obj: Object
    previous: Object | None = None
    """The object before the change, where the storage knows it. A watch with selectors that resumes needs it."""


INITIAL_EVENTS_END: Final = "k8s.io/initial-events-end"


def bookmark(version: int, *, initial_events_end: bool = False) -> ObjectEvent:
    """How far a watch has come.

    Args:
        version: the resourceVersion.
        initial_events_end: whether it ends the events that `sendInitialEvents` asks for.
    """
    metadata: Object = {"resourceVersion": str(version)}
    if initial_events_end:
        metadata["annotations"] = {INITIAL_EVENTS_END: "true"}
    return ObjectEvent("BOOKMARK", {"metadata": metadata})


class ObjectsAt(NamedTuple):
    """A list and the resourceVersion behind which a watch goes on."""

    items: Sequence[Object]
    version: int


class StoredObject(NamedTuple):
    """A stored object that was read. It is answered as bytes where its stored form allows that, and decoded only where it must be."""

    target: Resolved
    """In the cluster of the object."""
    item: KeyValue
    wildcard: bool = False
    """Whether it was read over all clusters."""

    def spliced(self) -> bytes | None:
        """The answer as compact JSON; None where the object has to be decoded for that."""
        target, item = self.target, self.item
        if item.mod_revision < target.served.fresh_since or (target.subresource and target.scale is not None):
            return None
        assert target.only is not None, "an object has one cluster"
        return target.served.resource.renderer.splice(item, target.only.name, wildcard=self.wildcard)

    def metadata(self) -> Object:
        """The metadata alone, which is the same in every version: nothing is converted."""
        target, item = self.target, self.item
        obj = {"metadata": orjson.loads(item.value)["metadata"]}
        return target.resource.renderer.add_server_fields(obj, item.mod_revision, target.cluster_state.name, wildcard=self.wildcard)

    async def decoded(self) -> Object:
        """The object, or its Scale, with the fields that the server adds to answers.

        Raises:
            StatusError: it cannot be converted, or has no Scale.
        """
        target, item = self.target, self.item
        obj = await load_one(target.served, item)
        obj = target.resource.renderer.add_server_fields(obj, item.mod_revision, target.cluster_state.name, wildcard=self.wildcard)
        return obj if (paths := target.scale) is None else show_scale(obj, paths)


class WrittenObject(NamedTuple):
    """What a write has made of a stored object, as `StoredObject`."""

    target: Resolved
    written: StoreResult

    @property
    def created(self) -> bool:
        """Whether the write has made the object."""
        return self.written.created

    @property
    def deleted(self) -> bool:
        """Whether the object is gone. Else it is there, changed or marked for deletion."""
        return self.written.deleted

    @property
    def size(self) -> int:
        """Bytes of the object, about."""
        return len(self.written.value)

    @property
    def answers_deletion(self) -> bool:
        """Whether the answer to a deletion is the object: it is still there, or its kind asks for that. Else it is a Status."""
        return not self.written.deleted or self.target.resource.strategy.return_deleted_object

    def spliced(self) -> bytes | None:
        """See `StoredObject.spliced`."""
        target, written = self.target, self.written
        if not written.mod_revision or (target.subresource and target.scale is not None):
            return None
        assert target.only is not None, "an object has one cluster"
        return target.served.resource.renderer.splice_value(written.value, written.mod_revision, target.only.name)

    async def decoded(self) -> Object:
        """See `StoredObject.decoded`."""
        target, written = self.target, self.written
        obj = await from_storage(target.resource, orjson.loads(written.value))
        obj = target.resource.renderer.add_server_fields(obj, written.mod_revision, target.cluster_state.name)
        if written.given_version:
            obj["metadata"]["resourceVersion"] = written.given_version
        return obj if (paths := target.scale) is None else scale_of(obj, paths)


class RestStorage:
    """Serves a resource or a subresource. Override the verbs that it has; discovery, requests and OpenAPI follow.

    A class with `get` and `update` can be patched (k8s.io/apiserver `rest.Patcher`): the server gets the object, patches it, and calls
    `update`; where that raises 409 and the client named no resourceVersion, it does so again.

    A user's class is called for one logical cluster, `request.target.cluster_state`, after authentication and authorization. It returns
    decoded objects, which belong to the server from then on and are changed by it. A refusal is a `StatusError`, see
    `apimachinery.errors`. The other types of results are those of stored objects (`registry.rest.stored`), which are answered
    without decoding.
    """

    versioned: ClassVar[bool] = False
    """Whether lists have a resourceVersion (`ObjectsAt`) behind which `watch` resumes: it begins with the existing objects only where
    `options.resource_version` is empty or `0`, or where `options.send_initial_events` is set, which it ends with a bookmark. It raises
    `errors.expired` for a version that is too old. Then `kubectl get -w` prints each object once."""

    deletes_collections: ClassVar[bool] = False
    """Whether a class with `list` and `delete` takes a DELETE of a collection: the server lists, selects, and calls `delete` for each."""

    @property
    def applies(self) -> bool:
        """Whether a subresource with a kind of its own takes server-side apply: `apply`. Other resources do without it."""
        return type(self).apply is not RestStorage.apply

    @property
    def verbs(self) -> tuple[str, ...]:
        """The verbs that the class overrides, in the order of discovery.

        Besides, there are `patch` where these are `get` and `update`, and `deletecollection` where the class says so.
        """
        found = {verb for verb in _METHODS if getattr(type(self), verb) is not getattr(RestStorage, verb)}
        if found >= {"get", "update"}:
            found.add("patch")
        if self.deletes_collections and found >= {"delete", "list"}:
            found.add("deletecollection")
        return tuple(sorted(found))

    async def get(self, request: ReadRequest) -> Object | StoredObject:
        """One object by its name.

        Raises:
            StatusError: 404.
        """
        raise errors.method_not_supported(request.target.resource.group_resource, "get")

    async def list(self, request: ReadRequest) -> Sequence[Object] | ObjectsAt | Listing:
        """The objects of a namespace, or of all namespaces where `request.target.namespace` is empty."""
        raise errors.method_not_supported(request.target.resource.group_resource, "list")

    def common_version(self, versions: Mapping[Name, int]) -> int:
        """The resourceVersion of a list over several clusters, behind which a watch of each of them misses nothing.

        Args:
            versions: those of the lists of the clusters. By default the result is the highest one; a class whose clusters change while
                others are read overrides it.
        """
        return max(versions.values(), default=0)

    def watch(self, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None] | StoredWatch:
        """The objects as ADDED, then every change, see `versioned`. The generator is closed when the client leaves."""
        raise errors.method_not_supported(request.target.resource.group_resource, "watch")

    async def create(self, request: WriteRequest, obj: Object) -> Object | WrittenObject:
        """What a POST answers with: the created object, or any other document.

        Args:
            request: who posts to what; for a subresource, the name is that of its object.
            obj: the decoded body.
        """
        del obj
        raise errors.method_not_supported(request.target.resource.group_resource, "create")

    async def update(self, request: WriteRequest, obj: Object) -> Object | WrittenObject:
        """What a PUT or a PATCH answers with.

        Args:
            request: who updates what; its options are PatchOptions for a PATCH.
            obj: the new object. Refuse it with 409 where its resourceVersion, if it has one, is not that of the present object.
        """
        del obj
        raise errors.method_not_supported(request.target.resource.group_resource, "update")

    async def apply(self, request: WriteRequest, configuration: Object, admit: Admit) -> Object | WrittenObject:
        """What server-side apply to a subresource with a kind of its own answers with.

        Args:
            request: who applies; its options are PatchOptions, and its manager owns what it applies.
            configuration: of the kind of the subresource, checked and without defaults.
            admit: asks admission about the result, before it is stored. Plugins change the result in place.
        """
        del configuration, admit
        raise errors.method_not_supported(request.target.resource.group_resource, "patch")

    async def delete(self, request: WriteRequest) -> Object | WrittenObject | None:
        """Delete an object; what the answer shows, None for a Status."""
        raise errors.method_not_supported(request.target.resource.group_resource, "delete")
