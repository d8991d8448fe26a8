"""`DefaultEvents`: the events of objects that clusters have without storing them, where a CRD defines their kind.

Such an object appears when its CRD is established, and is gone when the CRD terminates or is deleted. A watch over all clusters may be open
by then and has to deliver it. Where a kind is built in, the object comes and goes with its cluster (`tenancy.clusters`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import orjson

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.bootstrap.known import known_kinds
from kcp_py.registry.resource import DefaultObjects, Origin
from kcp_py.schema.names_conditions import is_condition_true
from kcp_py.storage.keys import CUSTOM_RESOURCES, ResourceKeys, Route, resource_keys
from kcp_py.watchcache import Feed, ObjectEvent
from kcp_py.watchcache.feed import derived_event


class DefaultEvents:
    """Derives the events of one resource's default objects from the events of CRDs."""

    def __init__(self, feed: Feed, definition_keys: ResourceKeys, resource: GroupResource, objects: DefaultObjects) -> None:
        """Follow the feed.

        Args:
            feed: the changes of the store.
            definition_keys: of CRDs.
            resource: a namespaced resource of Kubernetes.
            objects: what a cluster has of it by default.
        """
        self._crd_name = f"{resource.resource}.{resource.group or 'core'}"
        self._keys = resource_keys(definition_keys.root, *resource, namespaced=True, identity=CUSTOM_RESOURCES)
        self._objects = objects
        feed.derive(definition_keys.prefix, self._keys.prefix, self._of_definition)

    def _of_definition(self, event: ObjectEvent) -> Iterable[ObjectEvent]:
        if event.route.name != self._crd_name:
            return
        before = None if event.previous is None else _origin(event.previous.value)
        after = None if event.value is None else _origin(event.value)
        if (before is None) == (after is None):
            return
        origin = after or before
        assert origin is not None
        for place, value in self._objects(event.route.cluster, origin.uid, origin.created_at).items():
            namespace, _, name = place.rpartition("/")
            route = Route(self._keys.prefix, event.route.cluster, namespace, name)
            added = after is not None
            yield derived_event(event, route, value=value if added else None, previous=None if added else value)


def _origin(value: bytes) -> Origin | None:
    """What default objects come with; None where the CRD does not serve a kind of Kubernetes as it is published."""
    try:
        crd: dict[str, Any] = orjson.loads(value)
        metadata = crd["metadata"]
        if not is_condition_true(crd, "Established") or is_condition_true(crd, "Terminating") or metadata.get("deletionTimestamp"):
            return None
        if not _defines_own_kind(crd["spec"]):
            return None
        return Origin(metadata["uid"], metadata["creationTimestamp"], 0)
    except (KeyError, TypeError, ValueError, AttributeError):
        # A stored CRD that is malformed serves nothing.
        return None


def _defines_own_kind(spec: Mapping[str, Any]) -> bool:
    kinds = known_kinds()
    if not any((spec["group"], version["name"], spec["names"]["kind"]) in kinds for version in spec["versions"]):
        return False
    # The rules of upstream kinds are loaded where a cluster has one: see `registry.definitions`.
    from kcp_py.registry.known import is_own  # noqa: PLC0415

    return any(is_own(spec, version, (version.get("schema") or {}).get("openAPIV3Schema") or {}) for version in spec["versions"])
