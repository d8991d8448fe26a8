"""`Access`: what every verb needs besides its arguments, and the translation of storage errors."""

from __future__ import annotations

import time
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol

import orjson

from kcp_py.aio.turns import Turns
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionChain
from kcp_py.registry.clusterbudget import ClusterBudget
from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.quota import QuotaLedger
from kcp_py.registry.resource import Served, ServedResource
from kcp_py.registry.store.decoded import DecodedObjects
from kcp_py.registry.uid import new_uid
from kcp_py.storage import contract
from kcp_py.storage.contract import Storage
from kcp_py.storage.keys import ResourceKeys
from kcp_py.storage.oldkeys import read_at
from kcp_py.storage.rangecache import RangeCache, range_cache_of


class WriteObserver(Protocol):
    """A cache of stored objects of a cluster."""

    def writing(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """A write begins: data that is read from now on may be visible before the write is acknowledged, and must not be cached.

        Args:
            cluster: in which something is written.
            keys: of the written objects, and maybe of other resources; empty where they are not known.
        """

    def written(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        """The write finished, successfully or not. Arguments as in `writing`."""


class Assignments(Protocol):
    """Assigns values of limited ranges, such as addresses, to the objects of some resources."""

    def follows(self, keys: ResourceKeys) -> bool:
        """Whether the objects of a resource get any."""
        ...

    async def assign(self, cluster: Name, obj: dict[str, Any], old: Mapping[str, Any] | None) -> None:
        """Fill an object, in place, after the plugins that change it and before validation. `old` is the stored one; None for a create.

        Raises:
            StatusError: a value cannot be assigned.
        """
        ...

    async def claimed(
        self, cluster: Name, compares: Sequence[contract.Compare], operations: Sequence[contract.Operation]
    ) -> tuple[Sequence[contract.Compare], Sequence[contract.Operation]]:
        """A transaction on such objects with what keeps others from getting the same values, and gives back values of objects that go.

        Raises:
            ConflictError: an object is not any more what the conditions say.
        """
        ...


@dataclass(slots=True)
class Access:
    """The store and the world around it, as the verbs see them."""

    storage: Storage
    clock: Callable[[], float] = time.time
    new_uid: Callable[[], str] = new_uid
    admission: AdmissionChain = field(default_factory=AdmissionChain)
    """The plugins that see every write before it is stored."""

    observers: dict[str, list[WriteObserver]] = field(default_factory=dict)
    """Prefix of a resource -> the caches that follow its writes, so that they are right for each reader of a write."""

    budget: ClusterBudget = field(default_factory=ClusterBudget)
    """The memory of the caches of clusters."""

    decoded: DecodedObjects = field(default_factory=DecodedObjects)
    """Objects that were updated lately."""

    turns: Turns = field(default_factory=Turns)
    """The writers of objects that several writers change at the same time, by key."""

    range_cache: RangeCache | None = field(init=False)
    """Cached parts of lists, where the store can report when they are outdated."""

    assignments: Assignments | None = None
    """Assigns values to objects; None where there are no ranges of values."""

    ledger: QuotaLedger | None = None
    """Charges the quotas and limits of clusters; None where none are enforced."""

    def __post_init__(self) -> None:
        self.range_cache = range_cache_of(self.storage)

    def transact(
        self,
        cluster: Name,
        keys: ResourceKeys,
        compares: Sequence[contract.Compare],
        operations: Sequence[contract.Operation],
        *,
        enforced: bool = True,
        limited: bool = True,
    ) -> Coroutine[Any, Any, int]:
        """`Storage.transact` for an object of a resource in a cluster, with quotas and limits charged.

        The observers are called before and after.

        Args:
            cluster: in which the object is.
            keys: of its resource.
            compares: the conditions.
            operations: the changes.
            enforced: whether a write that exceeds a quota is refused, with 403; otherwise it is only charged.
            limited: the same for limits of the cluster.
        """
        if self.assignments is not None and self.assignments.follows(keys):
            return self._claiming(self.assignments, cluster, keys, compares, operations, enforced=enforced, limited=limited)
        return self._charging(cluster, keys, compares, operations, enforced=enforced, limited=limited)

    async def _claiming(
        self,
        assignments: Assignments,
        cluster: Name,
        keys: ResourceKeys,
        compares: Sequence[contract.Compare],
        operations: Sequence[contract.Operation],
        *,
        enforced: bool,
        limited: bool,
    ) -> int:
        compares, operations = await assignments.claimed(cluster, compares, operations)
        return await self._charging(cluster, keys, compares, operations, enforced=enforced, limited=limited)

    def _charging(
        self,
        cluster: Name,
        keys: ResourceKeys,
        compares: Sequence[contract.Compare],
        operations: Sequence[contract.Operation],
        *,
        enforced: bool,
        limited: bool,
    ) -> Coroutine[Any, Any, int]:
        if self.ledger is not None and self.ledger.follows(cluster, keys):
            return self.ledger.transact(cluster, keys, compares, operations, enforced=enforced, limited=limited)
        observers = self.observers.get(keys.prefix)
        if not observers:
            return self.storage.transact(compares, operations)
        return self._observed(cluster, tuple(observers), compares, operations)

    async def judge(
        self, cluster: Name, keys: ResourceKeys, compares: Sequence[contract.Compare], operations: Sequence[contract.Operation]
    ) -> None:
        """Check what a dry run would store by the limits of the cluster. Arguments as of `transact`.

        Raises:
            StatusError: 403, a limit would be exceeded.
        """
        if self.ledger is not None and self.ledger.follows(cluster, keys):
            await self.ledger.check_limits(cluster, keys, compares, operations)

    def commit(
        self,
        cluster: Name,
        prefixes: Iterable[str],
        compares: Sequence[contract.Compare],
        operations: Sequence[contract.Operation],
    ) -> Coroutine[Any, Any, int]:
        """`Storage.transact` for objects of some resources in a cluster, without quotas. `prefixes` are those of the resources."""
        observers = [observer for prefix in prefixes for observer in self.observers.get(prefix, ())]
        if not observers:
            return self.storage.transact(compares, operations)
        return self._observed(cluster, observers, compares, operations)

    async def _observed(
        self,
        cluster: Name,
        observers: Sequence[WriteObserver],
        compares: Sequence[contract.Compare],
        operations: Sequence[contract.Operation],
    ) -> int:
        written = [operation.key for operation in operations]
        for observer in observers:
            observer.writing(cluster, written)
        try:
            return await self.storage.transact(compares, operations)
        finally:
            for observer in observers:
                observer.written(cluster, written)

    def observe(self, prefix: str, observer: WriteObserver) -> None:
        """Have an observer called with every write of a resource. `prefix` is that of its keys."""
        self.observers.setdefault(prefix, []).append(observer)

    def now(self) -> str:
        """The present as RFC 3339 with seconds."""
        return format_time(self.clock())


class StoreResult(NamedTuple):
    """The outcome of a write."""

    obj: dict[str, Any]
    """The object in the storage version, as stored."""
    value: bytes
    """Its stored form."""
    mod_revision: int
    """0 for a dry run of a create."""
    created: bool = False
    deleted: bool = False
    given_version: str = ""
    """The resourceVersion of the request for a dry run of a create, which answers with it."""


async def counted(access: Access, key: str, result: StoreResult) -> StoreResult:
    """The result of a write of a quota, with the usage that the ledger has counted after it."""
    item = await access.storage.get(key)
    if item is None or item.mod_revision != result.mod_revision:
        return result
    return result._replace(obj=orjson.loads(item.value), value=item.value)


_DAMAGED_ADVICE: Final = "it can neither be read nor deleted until a backup is restored; kcp-py doctor lists what is damaged"


def translate(error: contract.StorageError) -> StatusError:
    """What a client is told about a storage error."""
    match error:
        case contract.CompactedError():
            return errors.expired(errors.LIST_EXPIRED)
        case contract.FutureRevisionError():
            return errors.too_large_resource_version(error.revision, error.current)
        case contract.DamagedError():
            return errors.internal(f"{error}: {_DAMAGED_ADVICE}")
        case contract.NoSpaceError():
            return StatusError(507, "", "the store is full: nothing can be written until objects are deleted or space is made")
        case contract.UnknownOutcomeError():
            # Without a time to retry after: client-go repeats whatever it is told one for, creates included.
            return errors.timeout("the store did not answer, and the request may have been carried out")
        case contract.UnavailableError():
            return errors.service_unavailable("the store cannot be reached, please try again", retry_after_seconds=1)
        case _:
            return errors.internal("storage failed")


GUARD_ATTEMPTS = 8
"""How often a write is worked out again because what it relied on changed meanwhile."""

LOCK_ATTEMPTS = 64
"""How often a write without an optimistic lock of its own is tried: upstream goes on until the request has no time left
(etcd3 `store.GuaranteedUpdate`)."""


def compares_of(cluster_state: ClusterState, served: Served) -> Sequence[contract.Compare]:
    """The conditions under which a create may be stored at all."""
    return (*cluster_state.guard, *served.guards)


def check_open(cluster_state: ClusterState, resource: ServedResource, name: str) -> None:
    """Refuse new content of a cluster or of a CRD that is being deleted.

    The guards of the cluster and of the CRD make sure that this still holds when the object is stored: the deletion of the content
    relies on it.

    Raises:
        StatusError: 403.
    """
    if cluster_state.terminating and not any(compare.key.startswith(resource.keys.prefix) for compare in cluster_state.guard):
        detail = f"unable to create new content in logical cluster {cluster_state.name} because it is being terminated"
        raise errors.forbidden(resource.group_resource, name, detail)
    if "create" not in resource.verbs:
        raise errors.forbidden(resource.group_resource, name, "create not allowed while custom resource definition is terminating")


async def holds(storage: Storage, compares: Sequence[contract.Compare], *, revision: int = 0) -> bool:
    """Whether the conditions on `create_revision` hold, now or at a revision.

    Raises:
        StorageError: the store cannot be read, or not at the revision.
    """
    for compare in compares:
        item = await (read_at(storage, compare.key, revision, keys_only=True) if revision else storage.get(compare.key))
        if (item.create_revision if item is not None else 0) != compare.create_revision:
            return False
    return True


async def check_life(access: Access, cluster_state: ClusterState) -> None:
    """Check that an object that was just read belongs to the cluster, and not to a later one of its name.

    Raises:
        StaleStateError: it does not.
    """
    if not await holds(access.storage, cluster_state.life):
        raise StaleStateError(cluster_state.life[0].key)


async def check_conflict(access: Access, cluster_state: ClusterState, conflict: contract.ConflictError, key: str) -> None:
    """Tell a conflict about an object, after which it is read again, from one about what the write relied on.

    Args:
        access: the store.
        cluster_state: the logical cluster.
        conflict: what the store said.
        key: of the object. It may be the object of the cluster itself.

    Raises:
        StaleStateError: cluster or CRD changed meanwhile.
    """
    if conflict.key != key:
        raise StaleStateError(conflict.key) from conflict
    if any(compare.key == key for compare in cluster_state.life):
        await check_life(access, cluster_state)
