"""Whether the owners of an object exist."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import StatusError, is_absent
from kcp_py.client import Client, Tap
from kcp_py.controllers.garbage.ownership import FOREGROUND, Item, Reference, facts_of
from kcp_py.controllers.garbage.reporting import is_elsewhere
from kcp_py.logicalcluster import Name

_MOST_ABSENT: Final = 4_096


class UnresolvedOwnerError(Exception):
    """The kind of an owner is not served in the cluster, so its existence is unknown."""


class InvalidOwnerError(Exception):
    """A cluster-scoped object has a namespaced owner: nothing is done with it, ever."""

    def __init__(self, owner: Reference) -> None:
        super().__init__(owner.uid)
        self.owner = owner


class Owners(NamedTuple):
    """The owners of an object, as they are now."""

    solid: list[Reference]
    """Those that exist."""
    dangling: list[Reference]
    """Those that do not."""
    waiting: list[Reference]
    """Those that are being deleted and wait for their dependents."""
    misplaced: list[Reference]
    """The dangling ones that do exist in another namespace."""


class AbsentOwners:
    """Owners that were seen to go or not found. Uids are not reused, so entries stay true.

    It spares a look-up of each owner for each of its dependents, and it is the only record of owners whose kind is gone as well.
    """

    def __init__(self) -> None:
        self._namespaces: LRU[tuple[Name, str, str, str, str], str] = LRU(_MOST_ABSENT)

    def add(self, cluster: Name, reference: Reference, namespace: str) -> None:
        """Note that there is no such owner; `namespace` is that of the owner, empty for a cluster-scoped one."""
        self._namespaces.set(_key(cluster, reference), namespace)

    def has(self, cluster: Name, reference: Reference, namespace: str) -> bool:
        """Whether the owner of an object in a namespace is known not to exist."""
        return self._namespaces.get(_key(cluster, reference)) in {"", namespace}

    def clear(self) -> None:
        self._namespaces.clear()


def _key(cluster: Name, reference: Reference) -> tuple[Name, str, str, str, str]:
    """The version does not matter: a kind is the same in all its versions, and a removal is reported in one of them only."""
    return cluster, reference.api_version.rpartition("/")[0], reference.kind, reference.name, reference.uid


class OwnerLookup:
    """Looks owners up in the cluster of their dependent."""

    def __init__(self, client: Client, tap: Tap) -> None:
        self._client = client
        self._tap = tap
        self.absent = AbsentOwners()

    async def classify(self, cluster: Name, item: Item, owners: Iterable[Reference]) -> Owners:
        """The owners of an item as they are now (upstream: `classifyReferences`).

        An owner is where its dependent would have it: in the dependent's namespace, or in none where its kind is cluster-scoped. One with
        another uid is another object.

        Raises:
            UnresolvedOwnerError: the kind of one is not served.
            InvalidOwnerError: one is namespaced and the object is not.
            StatusError: one could not be read.
        """
        found = Owners([], [], [], [])
        for owner in owners:
            await self._sort_in(found, cluster, item, owner)
        return found

    async def _sort_in(self, found: Owners, cluster: Name, item: Item, owner: Reference) -> None:
        if self.absent.has(cluster, owner, item.namespace):
            found.dangling.append(owner)
            return
        kind = await self._client.find_kind(cluster, owner.api_version, owner.kind)
        if kind is None:
            raise UnresolvedOwnerError
        if kind.namespaced and not item.namespace:
            raise InvalidOwnerError(owner)
        namespace = item.namespace if kind.namespaced else ""
        try:
            facts = facts_of(await self._client.get(cluster, kind.resource, namespace, owner.name, metadata_only=True))
        except StatusError as error:
            if not is_absent(error):
                if error.code == 404:
                    # A client that remembers the served kinds may ask for one that is not served any more.
                    raise UnresolvedOwnerError from error
                raise
        else:
            if facts.uid == owner.uid:
                (found.waiting if facts.awaits == FOREGROUND else found.solid).append(owner)
                return
        found.dangling.append(owner)
        if namespace and await is_elsewhere(self._tap, cluster, kind.resource.group_resource, namespace, owner.uid):
            found.misplaced.append(owner)
        else:
            self.absent.add(cluster, owner, namespace)
