"""Controller `validatingadmissionpolicy-status-controller`: warns in the status of policies about expressions that do not fit the kinds.

Source: kubernetes `pkg/controller/validatingadmissionpolicystatus`. As there, a policy is checked once for each of its generations, and
not again when a CRD changes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final

import orjson

from kcp_py.aio.lru import LRU
from kcp_py.aio.offload import OFFLOAD_OWNER, offload
from kcp_py.apimachinery.kinds import GroupVersionKind, GroupVersionResource
from kcp_py.client import Client, KindSchema, ObjectChange
from kcp_py.controllers.names import VALIDATING_POLICY_STATUS
from kcp_py.controllers.objects import find
from kcp_py.controllers.runtime.controller import ControllerSource, own_key
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name

if TYPE_CHECKING:
    from kcp_py.cel.types import Type
    from kcp_py.schema.rules.published_types import PublishedType

POLICIES: Final = GroupVersionResource("admissionregistration.k8s.io", "v1", "validatingadmissionpolicies")
_FIELD_MANAGER: Final = "validatingadmissionpolicy-status"
_KEPT_TYPES: Final = 20_000
"""How many types of fields are kept, those of the kinds that were used last. A Pod has 1,650, which take about 1 MB."""


class PolicyStatusController:
    """Checks each policy when its specification has changed."""

    name = VALIDATING_POLICY_STATUS
    per_cluster = 1

    def __init__(self, client: Client) -> None:
        """Make the controller. `client` is that of all clusters."""
        self._client = client
        self._types: LRU[tuple[str, bytes], PublishedType] = LRU(_KEPT_TYPES, weigh=lambda found: found.size)

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """All policies."""
        return (ControllerSource(POLICIES, self.keys),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The policy, unless it was checked already."""
        return own_key(change) if change.value is not None and _is_due(orjson.loads(change.value)) else ()

    async def reconcile(self, key: Key) -> int:
        policy = await find(self._client, POLICIES, key)
        if policy is None or not _is_due(policy):
            return 0
        OFFLOAD_OWNER.set(key.cluster)
        warnings = await self._warnings(key.cluster, policy["spec"])
        checking = {"expressionWarnings": warnings} if warnings else {}
        configuration = {
            "apiVersion": str(POLICIES.group_version),
            "kind": policy["kind"],
            # With the uid the status of a policy that was deleted does not go to another one of its name.
            "metadata": {"name": key.name, "uid": policy["metadata"]["uid"]},
            "status": {"observedGeneration": policy["metadata"]["generation"], "typeChecking": checking},
        }
        await self._client.apply(key.cluster, POLICIES, configuration, field_manager=_FIELD_MANAGER, force=True, subresource="status")
        return 0

    async def _warnings(self, cluster: Name, spec: Mapping[str, Any]) -> list[dict[str, str]]:
        # Most servers have no policies, and CEL is large.
        from kcp_py.apis.admissionregistration.typechecking import (  # noqa: PLC0415
            CheckedKind,
            ServedKind,
            checked_kinds,
            type_problems,
            type_warnings,
        )

        served = [ServedKind(one.resource, one.singular, one.kind) for one in await self._client.resources(cluster)]
        types = [(kind, await self._type(cluster, kind)) for kind in checked_kinds(spec, served)]
        kinds = [CheckedKind(kind, found) for kind, found in types if found is not None]
        if not kinds:
            return []
        params = await self._type(cluster, _kind_of(spec["paramKind"])) if spec.get("paramKind") else None
        # A piece of work for each kind, so that policies of other clusters have their turns in between.
        return type_warnings(spec, [await offload(type_problems, spec, kind, params) for kind in kinds])

    async def _type(self, cluster: Name, kind: GroupVersionKind) -> Type | None:
        schema = await self._client.schema(cluster, kind)
        return None if schema is None else (await offload(self._made, kind.kind, schema)).type

    def _made(self, name: str, schema: KindSchema) -> PublishedType:
        """The type of a kind, made once for all clusters whose kinds have the same name and schema. This runs in a thread."""
        from kcp_py.schema.rules.published_types import published_type  # noqa: PLC0415

        key = name, sha256(orjson.dumps(schema.document, option=orjson.OPT_SORT_KEYS)).digest()
        found = self._types.get(key)
        if found is None:
            found = published_type(schema.document, schema.models, name)
            self._types.set(key, found)
        return found


def _is_due(policy: Mapping[str, Any]) -> bool:
    """Whether a policy has changed since it was last checked."""
    observed = (policy.get("status") or {}).get("observedGeneration") or 0
    return bool(policy["metadata"].get("generation", 0) > observed and not policy["metadata"].get("deletionTimestamp"))


def _kind_of(reference: Mapping[str, str]) -> GroupVersionKind:
    group, _, version = reference["apiVersion"].rpartition("/")
    return GroupVersionKind(group, version, reference["kind"])
