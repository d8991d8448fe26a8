"""What an object's metadata says to the garbage collector, read from its bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.kinds import GroupResource

FOREGROUND: Final = "foregroundDeletion"
"""The finalizer of an object that waits for its dependents to be deleted."""
ORPHAN: Final = "orphan"
"""The finalizer of an object that waits for its dependents to be let go."""

_DELETION: Final = b'"deletionTimestamp":"'

CONCERNING: Final = ((b'"ownerReferences":[',), (_DELETION, b'"foregroundDeletion"'), (_DELETION, b'"orphan"'))
"""Each object that has owners, or waits for its dependents, has all texts of one of these groups in its bytes."""


class Reference(NamedTuple):
    """An owner reference."""

    api_version: str
    kind: str
    name: str
    uid: str
    blocks: bool
    """blockOwnerDeletion."""


class Facts(NamedTuple):
    """The data of an object that the garbage collector needs."""

    uid: str
    api_version: str
    kind: str
    owners: tuple[Reference, ...]
    awaits: str
    """`ORPHAN` or `FOREGROUND` where the object is being deleted and waits for that; else empty."""
    deleting: bool


class Item(NamedTuple):
    """Which object, within a cluster."""

    resource: GroupResource
    namespace: str
    name: str

    @property
    def text(self) -> str:
        """The form in which a queue holds it."""
        return f"{self.resource.group}/{self.resource.resource}/{self.namespace}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> Item:
        group, resource, namespace, name = text.split("/", 3)
        return cls(GroupResource(group, resource), namespace, name)


def read_facts(value: bytes) -> Facts:
    """The facts of a stored object."""
    return facts_of(orjson.loads(value))


def facts_of(obj: Mapping[str, Any]) -> Facts:
    """The facts of an object, or of its metadata alone; then apiVersion and kind are not the object's.

    Objects that are served by code may have no uid.
    """
    metadata = obj["metadata"]
    deleting = bool(metadata.get("deletionTimestamp"))
    finalizers = metadata.get("finalizers") or () if deleting else ()
    awaits = ORPHAN if ORPHAN in finalizers else FOREGROUND if FOREGROUND in finalizers else ""
    owners = tuple(
        Reference(owner["apiVersion"], owner["kind"], owner["name"], owner["uid"], owner.get("blockOwnerDeletion") is True)
        for owner in metadata.get("ownerReferences") or ()
    )
    return Facts(metadata.get("uid", ""), obj["apiVersion"], obj["kind"], owners, awaits, deleting)
