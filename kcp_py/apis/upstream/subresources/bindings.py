"""`pods/binding`: the assignment of a pod to a node, and `bindings`, its older form, a collection that only takes objects.

Source: kubernetes `pkg/registry/core/pod/storage` (`BindingREST`, `LegacyBindingREST`), `pkg/apis/core/validation` (`ValidatePodBinding`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import FieldError, aggregate, invalid, not_supported, required
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.options import UpdateOptions
from kcp_py.apis.upstream import disruption
from kcp_py.apis.upstream.subresources.bodies import SUCCESS, struct_at, text_at
from kcp_py.apis.upstream.subresources.objects import ClusterObjects
from kcp_py.registry.computed import ComputedResource
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.storage import Object, RestStorage
from kcp_py.registry.store.read import Current
from kcp_py.registry.store.update import update
from kcp_py.registry.views import Kind, View
from kcp_py.registry.writerequest import WriteRequest
from kcp_py.schema.contract import CompiledSchema

_PODS: Final = GroupResource("", "pods")
_BINDINGS: Final = GroupResource("", "pods/binding")
_PODS_VERSION: Final = ("", "v1", "pods")
_TEXT: Final = {"type": "string"}
_REFERENCE: Final = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
BINDING_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "apiVersion": _TEXT,
        "kind": _TEXT,
        # Looked at by the code that uses it.
        "metadata": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "target": {"type": "object", "properties": dict.fromkeys(_REFERENCE, _TEXT)},
    },
}


class BindingView(View):
    """What a binding changes of a pod: it was made by the server, and nothing of it is checked."""

    def prepared(self, new: dict[str, Any], old: dict[str, Any], resource: Kind) -> dict[str, Any]:
        del old
        resource.schema.complete(new)
        return new

    def violations(self, schema: CompiledSchema, new: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        del schema, new, old
        return []


class Bindings(RestStorage):
    """Serves `pods/binding`."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects: Final = objects

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """Assign the pod.

        Raises:
            StatusError: 400 for another name, 404, 409 for a pod that is assigned, gated or deleted, and for a precondition; 500 for a
                target of another kind than Node, as upstream.
        """
        target, metadata = request.target, obj["metadata"]
        struct_at(obj, "target", "v1.ObjectReference")
        name = target.name
        if metadata.get("name", "") != name:
            raise errors.bad_request("name in URL does not match name in Binding object")
        if problems := list(_problems(text_at(obj, "target", "kind"), text_at(obj, "target", "name"))):
            raise StatusError(500, "", aggregate(problems))

        async def bound(current: Current | None) -> dict[str, Any]:
            if current is None:
                raise errors.not_found(_PODS, name)
            pod = await current.load()
            _check_preconditions(pod, current.item.mod_revision, metadata)
            return _bound(pod, obj, self._objects.access.now())

        write = request._replace(options=UpdateOptions(dry_run=request.dry_run), manager=None)
        await update(self._objects.unadmitted, write, bound)
        return dict(SUCCESS)


class LegacyBindings(RestStorage):
    """Serves `bindings`."""

    def __init__(self, objects: ClusterObjects) -> None:
        self._objects: Final = objects
        self._bindings: Final = Bindings(objects)

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """Assign the pod of the name.

        Raises:
            StatusError: as `Bindings.create`; 400 without a name.
        """
        target, metadata = request.target, obj["metadata"]
        name = text_at(obj, "metadata", "name")
        if not name:
            raise errors.bad_request("Name parameter required.")
        if problems := names.path_segment_problems(name):
            raise errors.bad_request(f'Name parameter invalid: "{name}": {problems[0]}')
        pods = await self._objects.served(target.cluster_state, *_PODS_VERSION)
        if pods is None:
            raise errors.not_found(_PODS, name)
        # The uid is that of an object which is created; kube-apiserver ignores it, too.
        metadata.pop("uid", None)
        pod = target._replace(served=pods, name=name, subresource="binding")
        return await self._bindings.create(request._replace(target=pod), obj)


def legacy_bindings(objects: ClusterObjects, root: str) -> ServedResource:
    """`bindings` of every cluster, for servers whose clusters all have pods.

    Args:
        objects: those of the cluster of a request.
        root: the prefix of the store's keys.
    """
    rest = LegacyBindings(objects)
    resource = ComputedResource(group="", version="v1", resource="bindings", kind="Binding", rest=rest, schema=BINDING_SCHEMA)
    return replace(resource.served(root), annotated=False, typed=True)


def _problems(kind: str, name: str) -> Iterator[FieldError]:
    if kind not in {"", "Node"}:
        yield not_supported("target.kind", kind, ["Node", "<empty>"])
    if not name:
        yield required("target.name")
    elif kind in {"", "Node"}:
        for text in names.dns_subdomain_problems(name):
            yield invalid("target.name", name, text)


def _check_preconditions(pod: Object, revision: int, wanted: Object) -> None:
    uid, version = wanted.get("uid"), wanted.get("resourceVersion")
    name, found = pod["metadata"]["name"], pod["metadata"]["uid"]
    if uid and uid != found:
        raise errors.conflict(_PODS, name, f"Precondition failed: UID in precondition: {uid}, UID in object meta: {found}")
    if version and version != str(revision):
        detail = f"Precondition failed: ResourceVersion in precondition: {version}, ResourceVersion in object meta: {revision}"
        raise errors.conflict(_PODS, name, detail)


def _bound(pod: dict[str, Any], binding: Object, now: str) -> dict[str, Any]:
    metadata, spec, wanted = pod["metadata"], pod["spec"], binding["metadata"]
    name = metadata["name"]
    if metadata.get("deletionTimestamp"):
        raise errors.conflict(_BINDINGS, name, f"pod {name} is being deleted, cannot be assigned to a host")
    if spec.get("nodeName"):
        raise errors.conflict(_BINDINGS, name, f'pod {name} is already assigned to node "{spec["nodeName"]}"')
    if spec.get("schedulingGates"):
        raise errors.conflict(_BINDINGS, name, f"pod {name} has non-empty .spec.schedulingGates")
    for member in ("annotations", "labels"):
        if given := wanted.get(member):
            metadata[member] = {**(metadata.get(member) or {}), **given}
    status = disruption.with_pod_condition(pod.get("status") or {}, {"type": "PodScheduled", "status": "True"}, now)
    status.pop("nominatedNodeName", None)
    return {**pod, "spec": {**spec, "nodeName": binding["target"]["name"]}, "status": status}
