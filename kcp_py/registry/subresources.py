"""The subresources of stored objects: views of an object with verbs of their own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple, Protocol

from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.registry.scale import ScalePaths
from kcp_py.schema.contract import CompiledSchema


class Code(Protocol):
    """The storage of a resource or subresource that is not a stored object: a `registry.rest.storage.RestStorage`."""

    @property
    def verbs(self) -> tuple[str, ...]:
        """In the order of discovery."""
        ...


class Subresource(NamedTuple):
    """One entry of the table of a resource."""

    name: str
    """The last segment of the URL."""
    verbs: tuple[str, ...]
    """In the order of discovery."""
    kind: GroupVersionKind | None = None
    """The kind of bodies and answers; None: that of the resource."""
    scale: ScalePaths | None = None
    """Where the object has what its Scale shows; None for all but `scale`."""
    rest: Code | None = None
    """What serves it; None for a view of the stored object."""
    schema: CompiledSchema | None = None
    """Of `kind`; None allows any object."""


APPROVAL: Final = Subresource("approval", ("get", "patch", "update"))
"""Through it alone a CertificateSigningRequest is approved or denied."""
FINALIZE: Final = Subresource("finalize", ("update",))
"""Through it alone `spec.finalizers` of a namespace changes."""
STATUS: Final = Subresource("status", ("get", "patch", "update"))
"""Through it alone the status changes."""
SCALE_KIND: Final = GroupVersionKind("autoscaling", "v1", "Scale")


def table_of(
    *, approval: bool = False, finalize: bool = False, status: bool = False, scale: ScalePaths | None = None
) -> Mapping[str, Subresource]:
    """Name -> subresource, in the order of discovery.

    Args:
        approval: whether `/approval` is served.
        finalize: whether `/finalize` is served.
        status: whether `/status` is served.
        scale: where `/scale` finds its values; None where it is not served.
    """
    found = [APPROVAL] if approval else []
    if finalize:
        found.append(FINALIZE)
    if status:
        found.append(STATUS)
    if scale is not None:
        found.append(Subresource("scale", ("get", "patch", "update"), SCALE_KIND, scale))
    return {subresource.name: subresource for subresource in found}
