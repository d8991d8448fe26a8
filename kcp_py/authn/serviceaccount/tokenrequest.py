"""`TokenRequests`: the subresource `serviceaccounts/token`, with which tokens are issued.

Source: kubernetes `pkg/registry/core/serviceaccount/storage/token.go`, `pkg/apis/authentication/validation`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.fielderrors import FieldError, invalid
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.authn.serviceaccount.claims import Account, Lifetime, Reference
from kcp_py.authn.serviceaccount.issuer import TokenIssuer
from kcp_py.authn.tokens import Audiences
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.resource import Served
from kcp_py.registry.rest.storage import Object, RestStorage
from kcp_py.registry.store import Access
from kcp_py.registry.store.access import translate
from kcp_py.registry.store.read import find
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.storage.contract import ConflictError, StorageError
from kcp_py.storage.keys import InvalidSegmentError

_KIND: Final = GroupResource("authentication.k8s.io", "TokenRequest")
_GROUP_KIND: Final = "TokenRequest.authentication.k8s.io"
_DEFAULT_SECONDS: Final = 3600
_LEAST_SECONDS: Final = 600
_MOST_SECONDS: Final = 2**32
_PROJECTED_SECONDS: Final = 3607
"""The lifetime that kubelets of old releases ask for, on behalf of pods that never read their token again."""
_EXTENDED_SECONDS: Final = 365 * 86400
_ISSUED: Final = "authentication.kubernetes.io/issued-credential-id"
_BINDABLE: Final = {"Pod": "pods", "Secret": "secrets", "Node": "nodes"}
_WEBHOOKS: Final = frozenset(("ValidatingWebhookConfiguration", "MutatingWebhookConfiguration"))


class Limits(NamedTuple):
    """How long tokens are valid."""

    most_seconds: int = 0
    """Longer ones are shortened, with a warning; 0: no limit."""
    extend: bool = True
    """Whether tokens of pods that ask for `_PROJECTED_SECONDS` are valid for a year."""


class TokenRequests(RestStorage):
    """Answers a TokenRequest with a token."""

    def __init__(self, access: Access, issuer: TokenIssuer, *, audiences: Audiences, limits: Limits) -> None:
        """Prepare.

        Args:
            access: the store, of which accounts and bound objects are read.
            issuer: signs.
            audiences: of this server, for requests that name none.
            limits: of the lifetime.
        """
        self._access = access
        self._issuer = issuer
        self._audiences = audiences
        self._limits = limits
        self._tables: ResourceTables | None = None

    def connect(self, tables: ResourceTables) -> None:
        """Say what the clusters serve: pods and nodes may be defined by CRDs."""
        self._tables = tables

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """The request with its token.

        Raises:
            StatusError: 400 for an object to which tokens cannot be bound, 404 for a missing account or object, 409 where the uid is that
                of another one, 422.
            StaleStateError: the cluster changed meanwhile.
        """
        target = request.target
        metadata, spec = obj["metadata"], dict(obj.get("spec") or {})
        if (given := metadata.get("name")) and given != target.name:
            problem = invalid("metadata.name", given, "must match the service account name if specified")
            raise errors.invalid(_GROUP_KIND, target.name, [problem])
        found = await self._read(target.cluster_state, target.served, target.namespace, target.name)
        await self._create_cluster(target.cluster_state)
        uid = found["metadata"]["uid"]
        if (given := metadata.get("uid")) and given != uid:
            detail = f"the UID in the token request ({given}) does not match the UID of the service account ({uid})"
            raise errors.conflict(_KIND, target.name, detail)
        account = Account(target.cluster_state.name, target.namespace, target.name, uid)
        spec["audiences"] = list(spec.get("audiences") or self._audiences)
        seconds = spec.get("expirationSeconds")
        spec["expirationSeconds"] = _DEFAULT_SECONDS if seconds is None else seconds
        spec.setdefault("boundObjectRef", None)
        if problems := validate(spec):
            raise errors.invalid(_GROUP_KIND, "", problems)
        bound = await self._bound(target, spec["boundObjectRef"])
        # The expiration that is told is never later than the claim.
        now = float(int(self._access.clock()))
        lifetime = self._lifetime(spec, now, request.warnings, pod="pod" in bound)
        token_id = self._access.new_uid()
        try:
            token = await self._issuer.bound_token(account, lifetime, spec["audiences"], token_id=token_id, bound=bound)
        except StorageError as error:
            raise translate(error) from error
        request.context.audit_annotations[_ISSUED] = f"JTI={token_id}"
        filled = {**metadata, "name": target.name, "namespace": target.namespace, "uid": uid, "creationTimestamp": format_time(now)}
        status = {"token": token, "expirationTimestamp": format_time(now + spec["expirationSeconds"])}
        return {"metadata": filled, "spec": spec, "status": status}

    async def _create_cluster(self, state: ClusterState) -> None:
        """Create a cluster that has no object yet, as writes do: the uids of its accounts follow from its own.

        Raises:
            StaleStateError: it was created.
        """
        if state.created_revision:
            return
        try:
            await self._access.storage.transact(state.guard, state.create_with)
        except ConflictError as error:
            raise StaleStateError(error.key) from error
        except StorageError as error:
            raise translate(error) from error
        raise StaleStateError(state.create_with[0].key)

    def _lifetime(self, spec: Object, now: float, warnings: list[str], *, pod: bool) -> Lifetime:
        """When the token is valid. A lifetime that is too long is shortened in the spec, with a warning."""
        seconds, most = spec["expirationSeconds"], self._limits.most_seconds
        if 0 < most < seconds:
            warnings.append(f"requested expiration of {seconds} seconds shortened to {most} seconds")
            spec["expirationSeconds"] = seconds = most
        if self._limits.extend and pod and seconds == _PROJECTED_SECONDS and set(spec["audiences"]) <= set(self._audiences):
            return Lifetime(now, now + _EXTENDED_SECONDS, now + seconds)
        return Lifetime(now, now + seconds)

    async def _bound(self, target: Resolved, reference: Mapping[str, Any] | None) -> Mapping[str, Reference]:
        """The objects to which the token is bound, by the names of their claims."""
        if reference is None:
            return {}
        kind, name = reference.get("kind") or "", reference.get("name") or ""
        group, _, version = (reference.get("apiVersion") or "").rpartition("/")
        plural = _BINDABLE.get(kind) if not group else None
        if plural is None:
            raise errors.bad_request(f"cannot bind token to object of type {group}/{version}, Kind={kind}")
        obj = await self._object(target, plural, name)
        if plural == "pods" and (obj.get("spec") or {}).get("serviceAccountName") != target.name:
            detail = f'cannot bind token for serviceaccount "{target.name}" to pod running with different serviceaccount name.'
            raise errors.bad_request(detail)
        uid = obj["metadata"]["uid"]
        if (given := reference.get("uid")) and given != uid:
            detail = f"the UID in the bound object reference ({given}) does not match the UID in record. "
            raise errors.conflict(GroupResource("", kind), name, f"{detail}The object might have been deleted and then recreated")
        bound = {kind.lower(): Reference(name, uid)}
        if plural == "pods" and (node := (obj.get("spec") or {}).get("nodeName")):
            bound["node"] = await self._node(target, node)
        return bound

    async def _node(self, target: Resolved, name: str) -> Reference:
        """The node of a pod, without a uid where it does not exist."""
        try:
            obj = await self._object(target, "nodes", name)
        except errors.StatusError as error:
            if error.code != 404:
                raise
            return Reference(name, "")
        return Reference(name, obj["metadata"]["uid"])

    async def _object(self, target: Resolved, plural: str, name: str) -> Object:
        assert self._tables is not None, "connected while the server starts"
        state = target.cluster_state
        served = self._tables.builtin("", "v1", plural)
        if served is None:
            served = (await self._tables.get(state.name)).find("", "v1", plural)
        if served is None:
            raise errors.not_found(GroupResource("", plural), name)
        namespace = target.namespace if served.resource.namespaced else ""
        return await self._read(state, served, namespace, name)

    async def _read(self, state: ClusterState, served: Served, namespace: str, name: str) -> Object:
        resource = served.resource.group_resource
        try:
            item = await find(self._access, state, served, namespace, name)
        except InvalidSegmentError:
            item = None
        if item is None:
            raise errors.not_found(resource, name)
        found: Object = orjson.loads(item.value)
        return found


def validate(spec: Mapping[str, Any]) -> Sequence[FieldError]:
    """The problems of the spec of a TokenRequest."""
    seconds, attestations = spec["expirationSeconds"], spec.get("attestations")
    problems = []
    if seconds < _LEAST_SECONDS:
        problems.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration less than 10 minutes"))
    if seconds > _MOST_SECONDS:
        problems.append(invalid("spec.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds"))
    reference = spec.get("boundObjectRef") or {}
    of_webhook = reference.get("kind") in _WEBHOOKS and reference.get("apiVersion") == "admissionregistration.k8s.io/v1"
    if attestations and not of_webhook:
        detail = "attestations may only be specified with a webhook bound object reference"
        return [invalid("spec.attestations", attestations, detail)]
    return problems
