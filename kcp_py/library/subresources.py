"""Functions and classes of a program as subresources of resources that are described elsewhere."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.kinds import GroupResource, GroupVersionKind
from kcp_py.client.contract import Client
from kcp_py.library.functions import check_parameters, name_of
from kcp_py.logicalcluster import parse_name
from kcp_py.registry.catalog.attachments import Attachment
from kcp_py.registry.rest.storage import Object, ReadRequest, RestStorage
from kcp_py.registry.subresources import CUSTOM_STATUS, Subresource
from kcp_py.registry.views import WHOLE
from kcp_py.registry.writerequest import WriteRequest
from kcp_py.schema.compilation import compile_schema
from kcp_py.server.connection import Connection

Serving = Callable[..., Any] | RestStorage
"""A function, a `RestStorage`, or a class of it that is made without arguments."""
_ARGUMENTS: Final[Mapping[str, tuple[str, ...]]] = {
    "connect": ("connection",),
    "create": ("request", "obj", "body"),
    "get": ("request", "obj"),
    "update": ("request", "obj", "body"),
}
"""Verb of a function -> its arguments."""
_OF_NAMESPACES: Final = ("finalize", "status")
"""The only subresources that paths of namespaces can name (k8s.io/apiserver `endpoints/request/requestinfo.go`)."""
CONNECTED_VERBS: Final = ("create", "get")
"""The verbs of a subresource that streams: those of GET and POST, as `pods/exec` has."""


class Place(NamedTuple):
    """Where a subresource belongs; the fields are the arguments of `Extensions.subresource`."""

    resource: str
    name: str
    verb: str = "create"
    kind: GroupVersionKind | None = None
    schema: Mapping[str, Any] | None = None
    clusters: Collection[str] | None = None
    override: bool = False


class FunctionSubresource(RestStorage):
    """A function for each verb. Each is called with the object that the subresource belongs to."""

    def __init__(self, client: Callable[[], Client]) -> None:
        self._client = client
        self.functions: Final[dict[str, Callable[..., Awaitable[Object]]]] = {}

    @property
    def verbs(self) -> tuple[str, ...]:
        """`RestStorage.verbs`."""
        found = set(self.functions)
        return tuple(sorted({*found, "patch"} if found >= {"get", "update"} else found))

    async def get(self, request: ReadRequest) -> Object:
        """`RestStorage.get`."""
        return await self.functions["get"](request, await self._parent(request))

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """`RestStorage.create`."""
        return await self.functions["create"](request, await self._parent(request), obj)

    async def update(self, request: WriteRequest, obj: Object) -> Object:
        """`RestStorage.update`."""
        return await self.functions["update"](request, await self._parent(request), obj)

    async def _parent(self, request: ReadRequest | WriteRequest) -> Object:
        """The object that the subresource belongs to.

        Raises:
            StatusError: 404.
        """
        target = request.target
        return await self._client().get(target.cluster_state.name, target.resource.key, target.namespace, target.name)


class StreamSubresource(RestStorage):
    """A function that answers over a `Connection`."""

    def __init__(self, function: Callable[[Connection], Awaitable[None]]) -> None:
        self._function = function

    @property
    def verbs(self) -> tuple[str, ...]:
        """`RestStorage.verbs`."""
        return CONNECTED_VERBS

    async def connect(self, connection: Connection) -> None:
        """Answer one request."""
        await self._function(connection)


def attach(attachments: list[Attachment], serving: Serving, place: Place, client: Callable[[], Client]) -> None:
    """Add a subresource, or a further verb of one that functions serve.

    Raises:
        ValueError: an argument has no meaning, or the subresource has the verb already.
        TypeError: the function has other parameters.
    """
    name, _, group = place.resource.partition(".")
    resource = GroupResource(group, name)
    if not name or not place.name or "/" in place.resource + place.name:
        raise ValueError(f"no subresource: {place.resource}/{place.name}")
    if place.resource == "namespaces" and place.name not in _OF_NAMESPACES:
        raise ValueError(f"namespaces/{place.name}: the URL is that of the resource {place.name} in a namespace")
    clusters = None if place.clusters is None else frozenset(map(parse_name, place.clusters))
    made: Any = serving() if isinstance(serving, type) and issubclass(serving, RestStorage) else serving
    if isinstance(made, RestStorage):
        attachments.append(Attachment(resource, _entry(place, made), clusters, place.override))
        return
    if place.verb not in _ARGUMENTS:
        raise ValueError(f"{place.resource}/{place.name}: the verb {place.verb} is none of {', '.join(_ARGUMENTS)}")
    check_parameters(made, *_ARGUMENTS[place.verb])
    if place.verb == "connect":
        attachments.append(Attachment(resource, _entry(place, StreamSubresource(made)), clusters, place.override))
        return
    for index, one in enumerate(attachments):
        rest = one.subresource.rest
        same = (one.resource, one.subresource.name, one.clusters) == (resource, place.name, clusters)
        if same and isinstance(rest, FunctionSubresource):
            _add(rest, made, place)
            attachments[index] = one._replace(subresource=one.subresource._replace(verbs=rest.verbs))
            return
    functions = FunctionSubresource(client)
    _add(functions, made, place)
    attachments.append(Attachment(resource, _entry(place, functions), clusters, place.override))


def _add(functions: FunctionSubresource, function: Callable[..., Any], place: Place) -> None:
    if place.verb in functions.functions:
        raise ValueError(f"{place.resource}/{place.name}: {name_of(functions.functions[place.verb])} serves {place.verb} already")
    functions.functions[place.verb] = function


def _entry(place: Place, rest: RestStorage) -> Subresource:
    """An entry of the table of a resource. Owners of fields are kept through a status as through that of a custom resource."""
    streams = hasattr(rest, "connect")
    return Subresource(
        place.name,
        rest.verbs or (CONNECTED_VERBS if streams else ()),
        place.kind,
        CUSTOM_STATUS.view if place.name == CUSTOM_STATUS.name else WHOLE,
        rest=rest,
        schema=compile_schema(place.schema) if place.schema is not None else None,
        continues=streams,
        streams=streams,
    )
