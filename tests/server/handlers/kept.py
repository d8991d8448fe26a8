"""`Kept`: a class of a user that keeps objects in memory, with resourceVersions, and takes every write."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from copy import deepcopy

from kcp_py.apimachinery import errors
from kcp_py.registry.rest.storage import Object, ObjectEvent, ReadRequest, RestStorage
from kcp_py.registry.writerequest import Resolved, WriteRequest

Place = tuple[str, str, str]
"""Cluster, namespace and name."""


class Kept(RestStorage):
    """Keeps objects as they are given to it."""

    def __init__(self, *, keeps_owners: bool = True) -> None:
        """Keep nothing yet.

        Args:
            keeps_owners: whether `metadata.managedFields` are kept, too.
        """
        self.objects: dict[Place, Object] = {}
        self.watches: set[tuple[str, asyncio.Queue[ObjectEvent | Exception | None]]] = set()
        """Of each watch, its cluster and its changes; None ends it."""
        self.before_update: Callable[[], Awaitable[None]] | None = None
        """Called once, before an update compares resourceVersions."""
        self.requests: list[WriteRequest] = []
        self._keeps_owners = keeps_owners
        self._version = 0

    async def get(self, request: ReadRequest) -> Object:
        target = request.target
        if (found := self.objects.get(_place(target, target.name))) is None:
            raise errors.not_found(target.resource.group_resource, target.name)
        return deepcopy(found)

    async def list(self, request: ReadRequest) -> Sequence[Object]:
        target = request.target
        cluster, namespace, _ = _place(target, "")
        return [deepcopy(one) for place, one in self.objects.items() if place[0] == cluster and namespace in {"", place[1]}]

    async def watch(self, request: ReadRequest) -> AsyncGenerator[ObjectEvent, None]:
        watch = str(request.target.cluster_state.name), asyncio.Queue[ObjectEvent | Exception | None]()
        self.watches.add(watch)
        try:
            for found in await self.list(request):
                yield ObjectEvent("ADDED", found)
            while (change := await watch[1].get()) is not None:
                if isinstance(change, Exception):
                    raise change
                yield change
        finally:
            self.watches.discard(watch)

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        place = _place(request.target, obj["metadata"]["name"])
        if place in self.objects:
            raise errors.already_exists(request.target.resource.group_resource, place[2])
        return self._keep(request, place, obj, "ADDED")

    async def update(self, request: WriteRequest, obj: Object) -> Object:
        if (interfere := self.before_update) is not None:
            self.before_update = None
            await interfere()
        place = _place(request.target, request.target.name)
        if place not in self.objects:
            raise errors.not_found(request.target.resource.group_resource, place[2])
        if obj["metadata"].get("resourceVersion") not in {None, self.objects[place]["metadata"]["resourceVersion"]}:
            raise errors.conflict(request.target.resource.group_resource, place[2], errors.OBJECT_MODIFIED)
        return self._keep(request, place, obj, "MODIFIED")

    async def delete(self, request: WriteRequest) -> None:
        place = _place(request.target, request.target.name)
        self.tell(place[0], ObjectEvent("DELETED", self.objects.pop(place)))

    def put(self, cluster: str, name: str, **spec: object) -> None:
        """An object that is there without a request."""
        self._version += 1
        metadata = {"name": name, "namespace": "default", "uid": f"uid-of-{name}", "resourceVersion": str(self._version)}
        self.objects[cluster, "default", name] = {"metadata": metadata, "spec": spec}
        self.tell(cluster, ObjectEvent("ADDED", deepcopy(self.objects[cluster, "default", name])))

    def tell(self, cluster: str, change: ObjectEvent | Exception | None) -> None:
        """Pass a change to the watches of a cluster, or end them."""
        for watched, changes in self.watches:
            if watched == cluster:
                changes.put_nowait(change)

    def _keep(self, request: WriteRequest, place: Place, obj: Object, change: str) -> Object:
        self.requests.append(request)
        if not self._keeps_owners:
            obj["metadata"].pop("managedFields", None)
        self._version += 1
        obj["metadata"]["resourceVersion"] = str(self._version)
        if not request.dry_run:
            self.objects[place] = deepcopy(obj)
            self.tell(place[0], ObjectEvent(change, deepcopy(obj)))
        return obj


def _place(target: Resolved, name: str) -> Place:
    return str(target.cluster_state.name), target.namespace, name
