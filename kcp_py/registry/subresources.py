"""The subresources of stored objects: views of an object with verbs of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.registry.scale import ScalePaths
from kcp_py.registry.views import WHOLE, ApprovalView, CustomStatusView, FinalizeView, ScaleView, StatusView, View
from kcp_py.schema.contract import CompiledSchema


class Code(Protocol):
    """The storage of a resource or subresource that is not a stored object: a `registry.rest.storage.RestStorage`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """In the order of discovery."""
        ...

    @property
    def applies(self) -> bool:
        """Whether a subresource with a kind of its own takes server-side apply."""
        ...


class Connections(Protocol):
    """What answers requests for a connection to an object, whatever their method, such as `pods/exec`."""

    async def connect(self, target: Any, query: Mapping[str, Sequence[str]]) -> None:
        """Answer with nothing at all (204).

        Args:
            target: a `registry.writerequest.Resolved`.
            query: the options of the connection.

        Raises:
            StatusError: any other answer.
        """


class Subresource(NamedTuple):
    """One entry of the table of a resource."""

    name: str
    """The last segment of the URL."""
    verbs: tuple[str, ...]
    """In the order of discovery."""
    kind: GroupVersionKind | None = None
    """The kind of bodies and answers; None: that of the resource."""
    view: View = WHOLE
    """What an update through it may change of the object."""
    scale: ScalePaths | None = None
    """Where the object has what its Scale shows; None for all but `/scale` of stored objects."""
    rest: Code | None = None
    """What serves it; None for a view of the stored object."""
    schema: CompiledSchema | None = None
    """Of `kind`; None allows any object."""
    accepts: tuple[str, ...] = ()
    """Further values of `apiVersion` in bodies of `kind`."""
    connections: Connections | None = None
    """What answers, where requests ask for connections; they have no bodies of a kind then."""
    continues: bool = False
    """Whether paths go on behind its name, as those of proxies do."""
    streams: bool = False
    """Whether `rest` answers each request over a `server.connection.Connection`."""


_CHANGED: Final = ("get", "patch", "update")
APPROVAL: Final = Subresource("approval", _CHANGED, view=ApprovalView())
"""Through it alone a CertificateSigningRequest is approved or denied."""
FINALIZE: Final = Subresource("finalize", ("update",), view=FinalizeView())
"""Through it alone `spec.finalizers` of a namespace changes."""
STATUS: Final = Subresource("status", _CHANGED, view=StatusView())
"""Through it alone the status of a typed object changes."""
CUSTOM_STATUS: Final = STATUS._replace(view=CustomStatusView())
"""Through it alone the status of a custom resource changes."""
SCALE_KIND: Final = GroupVersionKind("autoscaling", "v1", "Scale")


def status_entry(*, typed: bool) -> Subresource:
    """`/status` of a typed kind or of a custom resource."""
    return STATUS if typed else CUSTOM_STATUS


def scale_entry(paths: ScalePaths) -> Subresource:
    """`/scale` of objects that have its values at these paths."""
    return Subresource("scale", _CHANGED, SCALE_KIND, ScaleView(), paths)


def table_of(*entries: Subresource) -> Mapping[str, Subresource]:
    """Name -> subresource, in the order of discovery, which is that of the entries."""
    return {entry.name: entry for entry in entries}
