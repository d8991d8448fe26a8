"""`WriteRequest`: one write of one object, from the request that asks for it down to the transaction.

Source: k8s.io/apiserver hands the same to `rest.Creater`, `rest.Updater` and `rest.GracefulDeleter` as context, options and object info.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final, Literal, NamedTuple

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.meta.options import CreateOptions, DeleteOptions, PatchOptions, UpdateOptions
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served, ServedResource, scale_paths, view_of
from kcp_py.registry.scale import ScalePaths
from kcp_py.registry.subresources import Code
from kcp_py.registry.views import View
from kcp_py.request.context import RequestContext
from kcp_py.request.sight import NO_CLUSTER, Sight
from kcp_py.request.user import UserInfo

WriteOptions = CreateOptions | UpdateOptions | PatchOptions | DeleteOptions

Media = Literal["json", "yaml", "protobuf"]
"""The encodings in which objects are sent and answered."""

Source = Callable[[], Awaitable[dict[str, Any]]]
"""Decodes the object of a request anew at each call. The caller owns the result."""


def create_options_of(options: WriteOptions) -> CreateOptions:
    """The options of the create that an update or an apply turns into (apiserver `updateToCreateOptions`, `patchToCreateOptions`)."""
    assert isinstance(options, CreateOptions), "a deletion creates nothing"
    return CreateOptions(options.dry_run, options.field_manager, options.field_validation)


class FieldManager(NamedTuple):
    """Who becomes the owner of the fields that a write changes."""

    name: str
    time: str
    """RFC 3339 with seconds."""
    applied: bool = False
    """Whether an apply has written the owners of the fields into the object already."""
    part: str = ""
    """The subresource through which a part of an object is written by a write of the whole; that of the request where it is empty."""


class Resolved(NamedTuple):
    """What a request is about."""

    only: ClusterState | None
    """The logical cluster; None for all clusters, over which objects are read."""
    served: Served
    """The resource as the cluster serves it, or as one of all clusters does."""
    namespace: str
    """Empty for cluster-scoped resources, and for all namespaces."""
    name: str
    """Of the URL; empty for a create and for collections."""
    subresource: str = ""
    """`status`, `finalize`, `scale`, that of a computed resource, or empty."""
    sight: Sight = NO_CLUSTER
    """The clusters that a request over all of them may read."""

    @property
    def cluster_state(self) -> ClusterState:
        """The one logical cluster of a request, as every write has it.

        Raises:
            StatusError: 405 for a request over all clusters.
        """
        if self.only is None:
            raise errors.method_not_supported(self.served.resource.group_resource, "this verb", " in the `*` logical cluster")
        return self.only

    @property
    def resource(self) -> ServedResource:
        return self.served.resource

    @property
    def rest(self) -> Code | None:
        """What serves the request; None for stored objects and views of them."""
        resource = self.served.resource
        return resource.subresources[self.subresource].rest if self.subresource else resource.rest

    @property
    def view(self) -> View:
        """What an update may change."""
        return view_of(self.served.resource, self.subresource)

    @property
    def scale(self) -> ScalePaths | None:
        """Where the values of a Scale are, of requests for one."""
        return scale_paths(self.served.resource, self.subresource)


class Decoding(NamedTuple):
    """How the object of a request was decoded. The verbs check the fields of the object with it."""

    body: bytes | None = None
    """The bytes that were decoded; None for an object of this process and for the result of a patch."""
    media: Media = "json"
    """The encoding of `body`."""
    repeated: Sequence[str] = ()
    """The strict decoding errors about repeated keys."""
    large: bool = False
    """Whether the object is too large for the event loop."""
    again: Source | None = None
    """Decodes the object of an update once more, for an attempt after a conflict."""


NO_BODY: Final = Decoding()
"""Of a request without a body, and of an object of this process."""


class WriteRequest(NamedTuple):
    """A create, an update, a patch or a deletion."""

    context: RequestContext
    """Who asks, and where warnings and audit annotations go."""
    target: Resolved
    options: WriteOptions
    size: int = 0
    """Bytes of the request body, about; large objects are handled in threads."""
    manager: FieldManager | None = None
    """None: changed fields have no owner."""
    decoding: Decoding = NO_BODY
    """Of the object that a create or an update gets."""

    @property
    def user(self) -> UserInfo:
        return self.context.user

    @property
    def warnings(self) -> list[str]:
        """Texts for the client; any step may append to it."""
        return self.context.warnings

    @property
    def dry_run(self) -> bool:
        """Whether everything is done but storing."""
        return self.options.dry_run
