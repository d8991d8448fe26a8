"""`Snapshots`: the content of one logical cluster at one revision, saved, restored, and copied into another cluster.

A snapshot has the objects of a cluster as they are stored: every version of a kind reads them afterwards, uids and owners included. The
LogicalCluster itself is not content: its uid, its labels and its limits are those of the cluster in which a snapshot is restored. What the
server derives from the content is written with it (addresses of services) or counted again (quotas, limits).

A restore changes only what differs, through the ordinary changes of the store: watches see `ADDED`, `MODIFIED` and `DELETED`, and caches of
every server follow. It passes neither validation nor admission: the program that holds a snapshot answers for it.
"""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, NamedTuple, Protocol

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import CRDS, NAMESPACES, GroupResource
from kcp_py.logicalcluster import Name, parse_name
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.store import Access
from kcp_py.registry.store.access import translate
from kcp_py.storage.contract import Compare, ConflictError, Delete, Operation, Put, StorageError
from kcp_py.storage.keys import CUSTOM_RESOURCES, InvalidSegmentError, ResourceKeys, resource_keys
from kcp_py.tenancy.clusters import LogicalClusters
from kcp_py.tenancy.logicalcluster import LOGICAL_CLUSTER

VERSION: Final = 1
_BATCH: Final = 480
"""Operations of one transaction; a few more create the cluster and its guards."""
_SECRETS: Final = GroupResource("", "secrets")
_TOKEN: Final = b'"kubernetes.io/service-account-token"'
_MIDDLE_OF_UID: Final = re.compile(rb"-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-")
"""It begins with a literal, so that a search passes over all other text at once: four times as fast as one for whole uids."""
_UID_HEAD: Final = 8
_UID_TAIL: Final = 12


class StoredKey(NamedTuple):
    """Where an object is stored, without its cluster."""

    prefix: str
    """Of the resource, without the prefix of the store: `/core/configmaps/`."""
    namespace: str
    """Empty for cluster-scoped objects."""
    name: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The content of a logical cluster. A value: it does not change, and any control plane can restore it."""

    cluster: Name
    """Where it was saved."""
    revision: int
    """At which it was saved."""
    objects: Mapping[StoredKey, bytes] = field(repr=False)
    """The stored form of each object."""
    claims: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """What services have of the ranges of addresses and ports."""

    def __len__(self) -> int:
        """How many objects it has."""
        return len(self.objects)

    def to_bytes(self) -> bytes:
        """The snapshot as lines of JSON: a head, then an object on each line. It contains secrets."""
        head = {"kind": "LogicalClusterSnapshot", "version": VERSION, "cluster": self.cluster, "revision": self.revision}
        lines = [orjson.dumps(head)]
        lines += [b'{"key":%b,"value":%b}' % (orjson.dumps(list(key)), value) for key, value in self.objects.items()]
        lines += [orjson.dumps({"claim": claim, "value": value.decode()}) for claim, value in self.claims.items()]
        return b"\n".join([*lines, orjson.dumps({"end": len(self.objects)}), b""])

    @classmethod
    def from_bytes(cls, data: bytes) -> Snapshot:
        """Read what `to_bytes` has written.

        Raises:
            ValueError: it is something else, damaged, or not whole.
        """
        try:
            first, *lines, last = (orjson.loads(line) for line in data.splitlines())
            if first["kind"] != "LogicalClusterSnapshot" or first["version"] != VERSION:
                raise ValueError("no snapshot of a logical cluster that this version can read")
            objects, claims = {}, {}
            for line in lines:
                if "claim" in line:
                    claims[line["claim"]] = line["value"].encode()
                    continue
                key, metadata = StoredKey(*line["key"]), line["value"]["metadata"]
                if (metadata["name"], metadata.get("namespace") or "") != (key.name, key.namespace):
                    raise ValueError(f"the object at {key} has another name")
                objects[key] = orjson.dumps(line["value"])
            if last["end"] != len(objects):
                raise ValueError("the snapshot is not whole")
            return cls(parse_name(first["cluster"]), int(first["revision"]), objects, claims)
        except (AttributeError, KeyError, TypeError, orjson.JSONDecodeError) as error:
            raise ValueError(f"the snapshot is damaged: {error}") from error


class Restored(NamedTuple):
    """What a restore has done."""

    cluster: Name
    revision: int
    """After it; 0 where nothing differed."""
    written: int
    """How many objects were created or replaced."""
    deleted: int


class Recounting(Protocol):
    """What charges quotas and limits: `registry.quota.QuotaLedger`."""

    def expect(self, cluster: Name) -> None:
        """See the writes of a cluster, whose content is about to be replaced."""
        ...

    async def replaced(self, cluster: Name) -> None:
        """Count the quotas of a cluster and its limits again."""
        ...


class Snapshots:
    """Saves, restores and clones logical clusters. For programs and operators: it asks for no permission."""

    def __init__(
        self,
        access: Access,
        clusters: LogicalClusters,
        *,
        root: str,
        keys_of: Callable[[Name], Awaitable[Sequence[ResourceKeys]]],
        ledger: Recounting,
    ) -> None:
        """Put the parts together.

        Args:
            access: the store.
            clusters: which there are.
            root: the prefix of the store.
            keys_of: the keys of each resource that may have objects in a cluster.
            ledger: counts quotas and limits again.
        """
        self._access = access
        self._clusters = clusters
        self._root = root
        self._keys_of = keys_of
        self._ledger = ledger
        self._own = clusters.prefix
        self._crds = resource_keys(root, *CRDS.group_resource, namespaced=False).prefix
        self._namespaces = resource_keys(root, *NAMESPACES.group_resource, namespaced=False).prefix
        self._secrets = resource_keys("", *_SECRETS, namespaced=True).prefix
        self._claims = f"{root}/.kcp-py/service-claims/"

    async def save(self, cluster: str) -> Snapshot:
        """The content of a cluster at one revision.

        Raises:
            StatusError: 404, there is no such cluster; 503, the store cannot be read.
        """
        name = parse_name(cluster)
        await self._existing(name)
        try:
            found = await self._content(name)
        except StorageError as error:
            raise translate(error) from error
        return Snapshot(name, found.revision, found.objects, found.claims)

    async def restore(self, snapshot: Snapshot, cluster: str | None = None) -> Restored:
        """Make the content of a cluster that of a snapshot. What came later is deleted; a cluster that does not exist is created.

        More than 480 changes are several transactions: an error between them leaves a part, and the same call completes it. Objects keep
        their uids, so restore a snapshot in the cluster that it comes from; `clone` is for other ones.

        Args:
            snapshot: of this control plane or of another one.
            cluster: by default that of the snapshot.

        Raises:
            StatusError: 400, an object of the snapshot can be in no cluster; 409, the cluster is being deleted, or is created meanwhile;
                503, the store cannot be read or written.
        """
        name = snapshot.cluster if cluster is None else parse_name(cluster)
        state = await self._writable(name)
        try:
            return await self._restore(state, snapshot)
        except ConflictError as error:
            raise errors.conflict(LOGICAL_CLUSTER.group_resource, name, "the logical cluster was created or deleted meanwhile") from error
        except StorageError as error:
            raise translate(error) from error

    async def clone(self, source: str | Snapshot, target: str) -> Restored:
        """Make the content of a cluster a copy of another one's, with new uids; references by uid, such as owners, lead to the copies.

        Tokens in secrets are left out: they are those of the other cluster, and the server makes new ones.

        Args:
            source: a cluster or a snapshot.
            target: the cluster; created if it does not exist.

        Raises:
            StatusError: as `save` and `restore`; 400 where both are the same cluster.
        """
        if parse_name(source if isinstance(source, str) else source.cluster) == parse_name(target):
            raise errors.bad_request(f'"{target}" cannot be a clone of itself')
        snapshot = await self.save(source) if isinstance(source, str) else source
        return await self.restore(await self._renewed(snapshot), target)

    async def _renewed(self, snapshot: Snapshot) -> Snapshot:
        """A snapshot with new uids."""
        new: dict[bytes, bytes] = {}
        turns = TimeSlice()
        uids = _random_uids(len(snapshot.objects))
        for value in snapshot.objects.values():
            await turns.yield_if_due()
            old = orjson.loads(value)["metadata"].get("uid")
            if isinstance(old, str):
                new[old.encode()] = next(uids)

        objects = {}
        for key, value in snapshot.objects.items():
            await turns.yield_if_due()
            objects[key] = _with_uids(_without_token(value) if key.prefix == self._secrets and _TOKEN in value else value, new)
        return Snapshot(snapshot.cluster, snapshot.revision, objects, snapshot.claims)

    async def _restore(self, state: ClusterState, snapshot: Snapshot) -> Restored:
        name = state.name
        present = await self._content(name)
        try:
            wanted = await self._stored(name, snapshot.objects, snapshot.claims)
        except ValueError as error:
            raise errors.bad_request(f"the snapshot cannot be restored: {error}") from error
        before = await self._stored(name, present.objects, present.claims)
        operations = await self._operations(wanted, before)
        prefixes = {f"{self._root}{key.prefix}" for objects in (present.objects, snapshot.objects) for key in objects}
        revision = await self._carry_out(state, prefixes, operations) if operations else 0
        objects = [operation for operation in operations if not operation.key.startswith(self._claims)]
        written = sum(isinstance(operation, Put) for operation in objects)
        return Restored(name, revision, written, len(objects) - written)

    async def _operations(self, wanted: Mapping[str, bytes], before: Mapping[str, bytes]) -> Sequence[Operation]:
        """What makes one content out of another. A definition and a namespace are there before what needs them, and go after it."""
        turns = TimeSlice()
        ranked: tuple[list[Operation], ...] = ([], [], [], [], [], [])
        for key in before:
            await turns.yield_if_due()
            if key not in wanted:
                ranked[2 - self._rank(key)].append(Delete(key))
        for key, value in wanted.items():
            await turns.yield_if_due()
            if before.get(key) != value:
                ranked[3 + self._rank(key)].append(Put(key, value))
        return [*chain.from_iterable(ranked)]

    async def _carry_out(self, state: ClusterState, prefixes: set[str], operations: Sequence[Operation]) -> int:
        """Write, and count quotas and limits again, also after a part. Returns the revision."""
        name, revision = state.name, 0
        self._ledger.expect(name)
        try:
            for start in range(0, len(operations), _BATCH):
                revision = await self._write(state, prefixes, operations[start : start + _BATCH])
                if state.create_with:
                    state = await self._existing(name)
                # Some stores write without waiting for anything.
                await asyncio.sleep(0)
        finally:
            await self._ledger.replaced(name)
        return revision

    async def _write(self, state: ClusterState, prefixes: set[str], operations: Sequence[Operation]) -> int:
        # While the cluster lives: its labels and limits may change meanwhile.
        compares: Sequence[Compare] = state.guard if state.create_with else state.life
        written = prefixes | {self._own} if state.create_with else prefixes
        return await self._access.commit(state.name, sorted(written), compares, (*state.create_with, *operations))

    def _rank(self, key: str) -> int:
        return 0 if key.startswith(self._crds) else 1 if key.startswith(self._namespaces) else 2

    async def _content(self, cluster: Name) -> _Content:
        """The stored objects of a cluster, at one revision."""
        storage = self._access.storage
        revision = await storage.revision()
        objects: dict[StoredKey, bytes] = {}
        turns = TimeSlice()
        for keys in await self._keys_of(cluster):
            if keys.prefix == self._own:
                continue
            folder, prefix = keys.cluster_prefix(cluster), keys.prefix.removeprefix(self._root)
            for item in (await storage.range(folder, revision=revision)).items:
                namespace, _, name = item.key[len(folder) :].rpartition("/")
                objects[StoredKey(prefix, namespace, name)] = item.value
                await turns.yield_if_due()
        folder = f"{self._claims}{cluster}="
        claims = (await storage.range(folder, revision=revision)).items
        return _Content(revision, objects, {item.key[len(folder) :]: item.value for item in claims})

    async def _stored(self, cluster: Name, objects: Mapping[StoredKey, bytes], claims: Mapping[str, bytes]) -> dict[str, bytes]:
        """Objects and claims by their keys in a cluster, which are checked: a snapshot may come from anywhere.

        Raises:
            InvalidSegmentError: an object does not belong to a resource, or is the cluster itself.
        """
        of_prefix: dict[tuple[str, bool], ResourceKeys] = {}
        found = {}
        turns = TimeSlice()
        for place, value in objects.items():
            await turns.yield_if_due()
            keys = of_prefix.get((place.prefix, bool(place.namespace)))
            if keys is None:
                keys = of_prefix[place.prefix, bool(place.namespace)] = self._keys_at(place)
            found[keys.object_key(cluster, place.namespace, place.name)] = value
        return found | {f"{self._claims}{cluster}={claim}": value for claim, value in claims.items()}

    def _keys_at(self, place: StoredKey) -> ResourceKeys:
        group, resource, *identity = place.prefix.strip("/").split("/")
        keys = resource_keys(self._root, group, resource, namespaced=bool(place.namespace), identity=CUSTOM_RESOURCES if identity else "")
        if keys.prefix != f"{self._root}{place.prefix}" or keys.prefix == self._own:
            raise InvalidSegmentError(f"{place.prefix} is no resource of a snapshot")
        return keys

    async def _existing(self, cluster: Name) -> ClusterState:
        state = await self._clusters.state(cluster)
        if state is None:
            raise errors.not_found(LOGICAL_CLUSTER.group_resource, cluster)
        return state

    async def _writable(self, cluster: Name) -> ClusterState:
        state = await self._clusters.state(cluster) or self._clusters.uncreated(cluster)
        if state.terminating or state.inactive or state.delete_after:
            raise errors.conflict(LOGICAL_CLUSTER.group_resource, cluster, "the logical cluster is being deleted or is inactive")
        return state


class _Content(NamedTuple):
    revision: int
    objects: Mapping[StoredKey, bytes]
    claims: Mapping[str, bytes]


def _random_uids(count: int) -> Iterator[bytes]:
    """UUIDs of version 4 (RFC 9562), from one read of random bytes: a third of the time of `uuid.uuid4` for each."""
    digits = os.urandom(16 * count).hex()
    for start in range(0, len(digits), 32):
        one = digits[start : start + 32]
        variant = "89ab"[int(one[16], 16) & 3]
        yield f"{one[:8]}-{one[8:12]}-4{one[13:16]}-{variant}{one[17:20]}-{one[20:]}".encode()


def _with_uids(value: bytes, new: Mapping[bytes, bytes]) -> bytes:
    """A stored object with other uids, wherever they stand in it."""
    parts: list[bytes] = []
    end = 0
    for match in _MIDDLE_OF_UID.finditer(value):
        first, last = match.start() - _UID_HEAD, match.end() + _UID_TAIL
        if first >= end and (uid := new.get(value[first:last])) is not None:
            parts += (value[end:first], uid)
            end = last
    return b"".join((*parts, value[end:])) if parts else value


def _without_token(value: bytes) -> bytes:
    """A stored Secret with the token of a service account, without the token."""
    secret: dict[str, Any] = orjson.loads(value)
    data = secret.get("data")
    if secret.get("type") == "kubernetes.io/service-account-token" and isinstance(data, dict):
        data.pop("token", None)
    return orjson.dumps(secret)
