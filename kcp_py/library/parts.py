"""`ObjectPart`: a part of an object as a subresource, read and written under the optimistic lock of the object."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import PatchOptions
from kcp_py.client.contract import FIELD_MANAGER, Client
from kcp_py.client.local import LocalClient
from kcp_py.registry.rest.patch import JSON_PATCH, MERGE_PATCH
from kcp_py.registry.rest.storage import Admit, Object, ReadRequest, RestStorage
from kcp_py.registry.store import apply_configuration
from kcp_py.registry.writerequest import Resolved, WriteRequest

_SHOWN: Final = ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")
_IDENTITY: Final = ("namespace", "uid", "resourceVersion")
_ATTEMPTS: Final = 6
"""Of an update without a resourceVersion whose object changes meanwhile."""


class ObjectPart(RestStorage):
    """Serves GET, PUT and PATCH of some fields of an object, as `/scale` does: a user may have permissions for them alone.

    The owners of the fields are noted as those of the subresource, in the paths of the object. Server-side apply needs the client of
    the same process, `ControlPlane.client`.

    ::

        config = ObjectPart(lambda: control_plane.client, {"spec": "spec.config"})
        control_plane.subresource("foos.example.com", "config", kind=GroupVersionKind("example.com", "v1", "Config"))(config)

    Answers have the identity and the resourceVersion of the object. A field that an update leaves out is removed from the object.
    """

    def __init__(self, client: Callable[[], Client], fields: Mapping[str, str]) -> None:
        """Serve a part.

        Args:
            client: with whose permissions the object is read and written; called for each request.
            fields: of the subresource -> of the object, as paths such as `spec.config`.

        Raises:
            ValueError: there are no fields, or a field belongs to the metadata, the status, or the type.
        """
        self._client = client
        self._paths = [(tuple(shown.split(".")), tuple(stored.split("."))) for shown, stored in fields.items()]
        for path in (path for pair in self._paths for path in pair):
            if path[0] in {"apiVersion", "kind", "metadata"} or not all(path):
                raise ValueError(f"{'.'.join(path)} cannot be a field of a part")
        if not self._paths or any(stored[0] == "status" for _, stored in self._paths):
            raise ValueError("a part has fields, and none in the status of the object, which is written on its own")

    async def get(self, request: ReadRequest) -> Object:
        """`RestStorage.get`."""
        return self._part(await self._read(request.target))

    async def update(self, request: WriteRequest, obj: Object) -> Object:
        """`RestStorage.update`."""
        target, metadata = request.target, obj.get("metadata") or {}
        version = metadata.get("resourceVersion") or ""
        manager = request.manager.name if request.manager is not None else FIELD_MANAGER
        attempt = 0
        while True:
            attempt += 1
            whole = await self._read(target)
            _check_identity(target, metadata, whole["metadata"])
            for shown, stored in self._paths:
                _put(whole, stored, _value(obj, shown))
            try:
                client, cluster, key = self._client(), target.cluster_state.name, target.resource.key
                if isinstance(client, LocalClient):
                    client = client.through(target.subresource)
                written = await client.update(cluster, key, whole, dry_run=request.dry_run, field_manager=manager)
            except StatusError as error:
                # The read was that of the server: a client that names no version takes any.
                if error.reason != "Conflict" or version not in {"", "0"} or attempt == _ATTEMPTS:
                    raise
                continue
            return self._part(written)

    async def apply(self, request: WriteRequest, configuration: Object, admit: Admit) -> Object:
        """`RestStorage.apply`."""
        target, manager, options = request.target, request.manager, request.options
        client, metadata = self._client(), configuration["metadata"]
        if not isinstance(client, LocalClient):
            raise errors.unsupported_media_type((JSON_PATCH, MERGE_PATCH))
        assert manager is not None, "an apply has a field manager"
        assert isinstance(options, PatchOptions), "an apply has the options of a patch"
        client = client.through(target.subresource, applied=True)
        identity = {name: metadata[name] for name in _IDENTITY if metadata.get(name)}
        attempt = 0
        while True:
            attempt += 1
            whole = await self._read(target)
            resource = target.resource
            config: Object = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": {"name": target.name, **identity}}
            for shown, stored in self._paths:
                _put(config, stored, _value(configuration, shown))
            _check_identity(target, identity, whole["metadata"])
            new, _ = await apply_configuration(
                resource, whole, config, manager, subresource=target.subresource, force=bool(options.force), size=request.size
            )
            part = self._part(new)
            await admit(part)
            for shown, stored in self._paths:
                _put(new, stored, _value(part, shown))
            new["metadata"].update({name: whole["metadata"][name] for name in ("uid", "resourceVersion")})
            try:
                cluster = target.cluster_state.name
                written = await client.update(cluster, resource.key, new, dry_run=request.dry_run, field_manager=manager.name)
            except StatusError as error:
                if error.reason != "Conflict" or "resourceVersion" in identity or attempt == _ATTEMPTS:
                    raise
                continue
            return self._part(written)

    async def _read(self, target: Resolved) -> Object:
        """The object that the part belongs to.

        Raises:
            StatusError: 404.
        """
        return await self._client().get(target.cluster_state.name, target.resource.key, target.namespace, target.name)

    def _part(self, whole: Object) -> Object:
        part: Object = {"metadata": {key: whole["metadata"][key] for key in _SHOWN if key in whole["metadata"]}}
        for shown, stored in self._paths:
            if (value := _value(whole, stored)) is not None:
                _put(part, shown, value)
        return part


def _check_identity(target: Resolved, given: Mapping[str, Any], present: Mapping[str, Any]) -> None:
    """Compare the metadata of a part, where it has some, with that of the object.

    Raises:
        StatusError: 409.
    """
    version, uid = given.get("resourceVersion") or "", given.get("uid") or ""
    if version not in {"", "0", present["resourceVersion"]}:
        raise errors.conflict(target.resource.group_resource, target.name, errors.OBJECT_MODIFIED)
    if uid not in {"", present["uid"]}:
        detail = f"Precondition failed: UID in precondition: {uid}, UID in object meta: {present['uid']}"
        raise errors.conflict(target.resource.group_resource, target.name, detail)


def _value(obj: Object, path: tuple[str, ...]) -> Any:
    """The value at a path; None where there is none."""
    value: Any = obj
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    return value


def _put(obj: Object, path: tuple[str, ...], value: Any) -> None:
    """Set a value at a path, in place; None removes it.

    Raises:
        StatusError: 400 where something on the way is not an object.
    """
    for name in path[:-1]:
        if value is None and not obj.get(name):
            return
        if obj.get(name) is None:
            obj[name] = {}
        obj = obj[name]
        if not isinstance(obj, dict):
            raise errors.bad_request(f"{'.'.join(path)}: {name} is not an object")
    if value is None:
        obj.pop(path[-1], None)
    else:
        obj[path[-1]] = value
