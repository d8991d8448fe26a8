"""Controller `storage-version-migrator-controller`: stores the objects of a resource again, in the version in which they are stored now.

A write that changes nothing stores an object whose stored form has another version. When all objects of a CRD have been written, the older
versions leave its `status.storedVersions`, so that they can be removed from the CRD. Upstream has three controllers for this. The
conditions are theirs, with two differences: errors that pass are only logged, and kinds that the server stores itself have one version.

Source: kubernetes `pkg/controller/storageversionmigrator`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.apimachinery.meta.timestamps import format_time, parse_time
from kcp_py.client import Client, ObjectChange
from kcp_py.controllers.conditions import with_condition
from kcp_py.controllers.names import STORAGE_VERSION_MIGRATOR
from kcp_py.controllers.objects import find
from kcp_py.controllers.runtime.controller import ControllerSource, Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.runtime.sweeps import pages
from kcp_py.logicalcluster import Name

Object = Mapping[str, Any]

MIGRATIONS: Final = GroupVersionResource("storagemigration.k8s.io", "v1", "storageversionmigrations")
CRDS: Final = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
LONGEST_WAIT_SECONDS: Final = 60.0
"""For a resource that is not served. A migration that is older fails."""
_RETRY_SECONDS: Final = 5.0
_PASSING: Final = frozenset({410, 429, 500, 503, 504})
"""Codes of errors after which a migration is tried again."""
_RUNNING: Final = "The migration is running"


class _FailedError(Exception):
    """A migration cannot succeed; the text is upstream's."""


class StorageVersionMigrator:
    """Runs the migrations of each resource of a cluster one after the other, the oldest first."""

    name = STORAGE_VERSION_MIGRATOR
    per_cluster = 1

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.time) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            clock: Unix seconds.
        """
        self._client = client
        self._clock = clock

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """All migrations."""
        return (ControllerSource(MIGRATIONS, self.keys),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The resource of the migration: the end of one migration is the beginning of the next one."""
        value = change.value if change.value is not None else change.previous
        if value is not None and (resource := _resource(orjson.loads(value))).resource:
            yield Key(change.cluster, "", str(resource))

    async def reconcile(self, key: Key) -> int | Later:
        migrations = [one async for page in pages(self._client, key.cluster, MIGRATIONS) for one in page if str(_resource(one)) == key.name]
        migrations.sort(key=lambda one: (one["metadata"]["creationTimestamp"], one["metadata"]["name"]))
        for one in migrations:
            if _is_true(one, "Running") and _has_ended(one):
                await self._finish(key.cluster, one)
        due = [one for one in migrations if not _has_ended(one)]
        if not due:
            return 0
        active = next((one for one in due if _is_true(one, "Running")), due[0])
        try:
            return await self._migrate(key.cluster, active)
        except _FailedError as error:
            await self._write(key.cluster, await self._fresh(key.cluster, active), _failed(str(error)))
        return 0

    async def _migrate(self, cluster: Name, migration: Object) -> int | Later:
        """Begin a migration or go on with it.

        Raises:
            _FailedError: it cannot succeed.
            StatusError: it has to be tried again.
        """
        resource = _resource(migration)
        served = await self._client.find_resource(cluster, resource)
        if served is None:
            if self._clock() - parse_time(migration["metadata"]["creationTimestamp"]) < LONGEST_WAIT_SECONDS:
                return Later(_RETRY_SECONDS)
            raise _FailedError("resource does not exist in discovery")
        if not _is_true(migration, "Running"):
            await self._mark(
                cluster, resource, _migrating("True", "MigrationRunning", f"Migration {migration['metadata']['name']} is running")
            )
            migration = await self._write(cluster, migration, _running(_RUNNING))
        if not _version(migration):
            migration = await self._write(cluster, migration, version=await self._revision(cluster, served.resource))
        count = await self._store_again(cluster, served.resource, int(_version(migration)))
        message = f"{_RUNNING}, {count} objects verified migrated" if count else _RUNNING
        ended = {"type": "Succeeded", "status": "True", "reason": "StorageVersionMigrationSucceeded", "message": "Migration completed"}
        await self._write(cluster, migration, _running(message), ended)
        return 0

    async def _revision(self, cluster: Name, resource: GroupVersionResource) -> str:
        try:
            return (await self._client.list(cluster, resource, limit=1, metadata_only=True)).resource_version
        except StatusError as error:
            raise _of_error(error, resource) from error

    async def _store_again(self, cluster: Name, resource: GroupVersionResource, revision: int) -> int:
        """Write all objects that were last written up to a revision. Those that change or go meanwhile need it no more.

        Returns:
            The number of objects.
        """
        count = 0
        async for page in pages(self._client, cluster, resource, metadata_only=True):
            for one in page:
                count += 1
                metadata = one["metadata"]
                if int(metadata["resourceVersion"]) > revision:
                    continue
                document = {"metadata": {"resourceVersion": metadata["resourceVersion"], "uid": metadata["uid"]}}
                namespace, name = metadata.get("namespace", ""), metadata["name"]
                try:
                    await self._client.patch(cluster, resource, namespace, name, document=document, field_manager=self.name)
                except StatusError as error:
                    if error.code not in {404, 409}:
                        raise _of_error(error, resource) from error
        return count

    async def _finish(self, cluster: Name, migration: Object) -> None:
        """Tell in the CRD and in the migration that it does not run any more."""
        succeeded = _is_true(migration, "Succeeded")
        await self._mark(cluster, _resource(migration), _migrating("False", f"Migration{'Succeeded' if succeeded else 'Failed'}", ""))
        await self._write(
            cluster, migration, {"type": "Running", "status": "False", "reason": "MigrationCompleted", "message": "Migration completed"}
        )

    async def _mark(self, cluster: Name, resource: GroupResource, condition: Object) -> None:
        """Put a condition into the status of the resource's CRD, if it has one.

        With a success, the stored versions of a CRD that is still the one with which the migration began become the one.
        """
        crd = await find(self._client, CRDS, Key(cluster, "", str(resource)))
        if crd is None:
            return
        generation, status = crd["metadata"].get("generation", 0), crd.get("status") or {}
        begun: Object = next((one for one in status.get("conditions") or () if one["type"] == "StorageMigrating"), {})
        same = begun.get("observedGeneration") == generation
        if condition["reason"] == "MigrationSucceeded":
            told = "and the stored versions have been updated"
            if same:
                status = {**status, "storedVersions": [one["name"] for one in crd["spec"]["versions"] if one["storage"]]}
            else:
                told = "but the stored versions have not been updated due to a generation mismatch"
            condition = {**condition, "message": f"The migration has succeeded {told}"}
        elif condition["reason"] == "MigrationFailed":
            condition = {**condition, "message": "The migration has failed"}
        changed = with_condition(status, {**condition, "observedGeneration": generation}, format_time(self._clock()))
        if changed is not None:
            await self._client.update(cluster, CRDS, {**crd, "status": changed}, subresource="status")

    async def _fresh(self, cluster: Name, migration: Object) -> Object:
        found = await find(self._client, MIGRATIONS, Key(cluster, "", migration["metadata"]["name"]))
        return migration if found is None else found

    async def _write(self, cluster: Name, migration: Object, *conditions: Object, version: str = "") -> Object:
        """Put conditions or the version into the status of a migration; the migration after that.

        Raises:
            StatusError: a conflict where it has changed meanwhile.
        """
        status, now = dict(migration.get("status") or {}), format_time(self._clock())
        if version:
            status["resourceVersion"] = version
        for condition in conditions:
            status = with_condition(status, condition, now) or status
        if status == (migration.get("status") or {}):
            return migration
        return await self._client.update(cluster, MIGRATIONS, {**migration, "status": status}, subresource="status")


def _resource(migration: Object) -> GroupResource:
    """The resource of a migration; one without a name where other software has written it."""
    try:
        resource = migration["spec"]["resource"]
        return GroupResource(resource.get("group") or "", resource.get("resource") or "")
    except (AttributeError, KeyError, TypeError):
        return GroupResource("", "")


def _version(migration: Object) -> str:
    version: str = (migration.get("status") or {}).get("resourceVersion") or ""
    return version


def _is_true(migration: Object, kind: str) -> bool:
    return any(one["type"] == kind and one["status"] == "True" for one in (migration.get("status") or {}).get("conditions") or ())


def _has_ended(migration: Object) -> bool:
    return _is_true(migration, "Succeeded") or _is_true(migration, "Failed")


def _running(message: str) -> Object:
    return {"type": "Running", "status": "True", "reason": "MigrationRunning", "message": message}


def _failed(message: str) -> Object:
    text = f"migration encountered unhandled error: {message}"
    return {"type": "Failed", "status": "True", "reason": "StorageVersionMigrationFailed", "message": text}


def _migrating(status: str, reason: str, message: str) -> Object:
    return {"type": "StorageMigrating", "status": status, "reason": reason, "message": message}


def _of_error(error: StatusError, resource: GroupVersionResource) -> Exception:
    """What an error means for a migration."""
    if error.code in _PASSING:
        return error
    if error.code == 405:
        name = f"{resource.group_version}, Resource={resource.resource}"
        return _FailedError(f'resource "{name}" does not support discovery operations: [update patch list]')
    return _FailedError(error.message)
