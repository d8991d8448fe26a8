"""`Attachments`: subresources that a program adds to resources: its own, those of the server, and those that CRDs of tenants define."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, NamedTuple
from weakref import WeakKeyDictionary

import structlog

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.subresources import Subresource

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.registry")


class Attachment(NamedTuple):
    """One subresource of a resource that is described elsewhere."""

    resource: GroupResource
    subresource: Subresource
    clusters: frozenset[Name] | None = None
    """The logical clusters in which the resource has it; None for all."""
    override: bool = False
    """Whether it takes the place of a subresource of the same name."""

    def __str__(self) -> str:
        return f"{self.resource}/{self.subresource.name}"


class Attachments:
    """All of them. A resource that gets the same ones in several clusters stays one object."""

    def __init__(self, attachments: Iterable[Attachment] = ()) -> None:
        """Group them by their resources.

        Raises:
            ValueError: two have the same resource, name and cluster.
        """
        self._by_resource: dict[GroupResource, list[Attachment]] = {}
        for one in attachments:
            others = self._by_resource.setdefault(one.resource, [])
            for other in others:
                shared = one.clusters is None or other.clusters is None or bool(one.clusters & other.clusters)
                if other.subresource.name == one.subresource.name and shared:
                    raise ValueError(f"subresource {one} is added twice")
            others.append(one)
        self._extended: Final[WeakKeyDictionary[ServedResource, dict[tuple[str, ...], ServedResource]]] = WeakKeyDictionary()
        self._reported: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._by_resource)

    def everywhere(self, resource: ServedResource) -> ServedResource:
        """A resource that every cluster serves, with its further subresources.

        Raises:
            ValueError: it has a subresource of the name, or the attachment is for some clusters only.
        """
        found = self._by_resource.get(resource.group_resource, ())
        for one in found:
            if one.clusters is not None:
                raise ValueError(f"subresource {one}: every logical cluster serves {one.resource}, leave out the clusters")
            if one.subresource.name in resource.subresources and not one.override:
                raise ValueError(f"subresource {one}: the resource has one of this name, replace it with override=True")
        return _extended(resource, found) if found else resource

    def in_cluster(self, cluster: Name, served: Served) -> Served:
        """A resource as a cluster serves it, with its further subresources. What a CRD defines itself stays, unless it is overridden."""
        found: list[Attachment] = []
        for one in self._by_resource.get(served.resource.group_resource, ()):
            if one.clusters is not None and cluster not in one.clusters:
                continue
            if one.subresource.name in served.resource.subresources and not one.override:
                if str(one) not in self._reported:
                    self._reported.add(str(one))
                    _log.warning("subresource_not_attached", subresource=str(one), reason="the resource has one of this name")
                continue
            found.append(one)
        if not found:
            return served
        known = self._extended.setdefault(served.resource, {})
        key = tuple(f"{one.subresource.name} {id(one.subresource.rest)}" for one in found)
        if (resource := known.get(key)) is None:
            resource = known[key] = _extended(served.resource, found)
        return served._replace(resource=resource)


def _extended(resource: ServedResource, attachments: Sequence[Attachment]) -> ServedResource:
    added: Mapping[str, Subresource] = {one.subresource.name: one.subresource for one in attachments}
    described = "".join(f"\n{one.name} {','.join(one.verbs)} {one.kind}" for one in added.values())
    digest = hashlib.sha256(resource.digest + described.encode()).digest() if resource.digest else b""
    return replace(resource, subresources={**resource.subresources, **added}, digest=digest)
