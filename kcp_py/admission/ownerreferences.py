"""`OwnerReferencesPermissionEnforcement`: the permissions that owner references need.

A reference can delete its object, and `blockOwnerDeletion` can keep its owner. The first needs the permission to delete the object, the
second the permission to update the finalizers of the owner.

Source: kubernetes `plugin/pkg/admission/gc`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.admission.policy.permissions import RequestAuthorizer
from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.golang.quoting import go_quote
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.request.requestinfo import UNPARSED, RequestInfo

Reference = Mapping[str, Any]

_FIELDS: Final = ("apiVersion", "kind", "name", "uid", "controller", "blockOwnerDeletion")
_DELETE: Final = "cannot set an ownerRef on a resource you can't delete"
_FINALIZE: Final = "cannot set blockOwnerDeletion if an ownerReference refers to a resource you can't set finalizers on"
_UNKNOWN: Final = "cannot set blockOwnerDeletion in this case because cannot find RESTMapping for"


class OwnerReferencesPermissionEnforcement(AdmissionPlugin):
    """Refuses other owner references without these permissions."""

    name = "OwnerReferencesPermissionEnforcement"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "UPDATE"})

    def __init__(self, authorizer: RequestAuthorizer, tables: ResourceTables) -> None:
        """Make the plugin. `tables` find the resources of the kinds of owners."""
        self._authorizer = authorizer
        self._tables = tables

    async def validate(self, attributes: Attributes) -> None:
        """Ask the authorizer where references change. Who creates an object may give it any that do not block.

        Raises:
            StatusError: 403.
        """
        resource = attributes.resource
        if attributes.subresource == "status" and resource.group_resource == ("", "pods"):
            return
        given, stored = _references(attributes.obj), _references(attributes.old)
        if list(map(_values, given)) == list(map(_values, stored)):
            return
        if attributes.operation != "CREATE":
            deletion = UNPARSED._replace(
                is_resource=True,
                verb="delete",
                namespace=attributes.namespace,
                group=resource.group,
                version=resource.version,
                resource=resource.resource,
                subresource=attributes.subresource,
                name=attributes.name,
            )
            await self._check(attributes, deletion, _DELETE)
        blocking = {reference.get("uid"): bool(reference.get("blockOwnerDeletion")) for reference in stored}
        added = [reference for reference in given if reference.get("blockOwnerDeletion") and not blocking.get(reference.get("uid"))]
        if not added:
            return
        anything = _finalizers("*", "*", "*", name="*")
        if await self._refusal(attributes, anything) is None:
            return
        turns = TimeSlice()
        for reference in added:
            # There may be as many as fit into a request.
            await turns.yield_if_due()
            await self._check(attributes, await self._owner(attributes, reference), _FINALIZE)

    async def _owner(self, attributes: Attributes, reference: Reference) -> RequestInfo:
        """The request for the finalizers of an owner.

        Raises:
            StatusError: 403 for a kind that the cluster does not serve.
        """
        group_version, kind = reference.get("apiVersion") or "", reference.get("kind") or ""
        group, _, version = group_version.rpartition("/")
        found = await self._tables.find_kind(attributes.cluster, GroupVersionKind(group, version, kind))
        if found is None:
            problem = f"no matches for kind {go_quote(kind)} in version {go_quote(group_version)}"
            raise _refused(attributes, f"{_UNKNOWN} APIVersion {group_version} Kind {kind}: {problem}")
        namespace = attributes.namespace if found.namespaced else ""
        return _finalizers(found.group, found.version, found.resource, namespace=namespace, name=reference.get("name") or "")

    async def _check(self, attributes: Attributes, info: RequestInfo, text: str) -> None:
        if (reason := await self._refusal(attributes, info)) is not None:
            raise _refused(attributes, f"{text}: {reason}")

    async def _refusal(self, attributes: Attributes, info: RequestInfo) -> str | None:
        """The reason and the error with which the authorizer refuses something; None where it allows it."""
        answer = await self._authorizer.authorize(attributes.user, attributes.cluster, info)
        if answer is None:
            return ", <nil>"
        return None if answer.allowed else f"{answer.reason}, {answer.error or '<nil>'}"


def _references(obj: Mapping[str, Any] | None) -> Sequence[Reference]:
    return ((obj or {}).get("metadata") or {}).get("ownerReferences") or ()


def _values(reference: Reference) -> Sequence[Any]:
    return [reference.get(field) for field in _FIELDS]


def _finalizers(group: str, version: str, resource: str, *, name: str, namespace: str = "") -> RequestInfo:
    return UNPARSED._replace(
        is_resource=True,
        verb="update",
        namespace=namespace,
        group=group,
        version=version,
        resource=resource,
        subresource="finalizers",
        name=name,
    )


def _refused(attributes: Attributes, text: str) -> errors.StatusError:
    return errors.forbidden(attributes.resource.group_resource, attributes.name, text)
