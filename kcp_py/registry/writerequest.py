"""`WriteRequest`: one write of one object, from the request that asks for it down to the transaction.

Source: k8s.io/apiserver hands the same to `rest.Creater`, `rest.Updater` and `rest.GracefulDeleter` as context, options and object info.
"""

from __future__ import annotations

from typing import NamedTuple

from kcp_py.apimachinery.meta.options import CreateOptions, DeleteOptions, PatchOptions, UpdateOptions
from kcp_py.registry.resource import Served, ServedResource, scale_paths
from kcp_py.registry.scale import ScalePaths
from kcp_py.registry.scope import ClusterScope
from kcp_py.request.context import RequestContext
from kcp_py.request.user import UserInfo

WriteOptions = CreateOptions | UpdateOptions | PatchOptions | DeleteOptions


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
    """Whether the entries of the object are settled already, by an apply."""


class Resolved(NamedTuple):
    """What a write is about."""

    scope: ClusterScope
    """The logical cluster."""
    served: Served
    """The resource as the cluster serves it."""
    namespace: str
    """Empty for cluster-scoped resources."""
    name: str
    """Of the URL; empty for a create."""
    subresource: str = ""
    """`status`, `finalize`, `scale` or empty."""

    @property
    def resource(self) -> ServedResource:
        return self.served.resource

    @property
    def scale(self) -> ScalePaths | None:
        """Where the values of a Scale are, of requests for one."""
        return scale_paths(self.served.resource, self.subresource)


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
