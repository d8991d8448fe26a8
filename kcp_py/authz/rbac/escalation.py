"""`EscalationCheck`: authors of roles and bindings grant only permissions that they have.

Source: kubernetes `pkg/registry/rbac/{role,clusterrole,rolebinding,clusterrolebinding}/policybased`, `escalation_check.go` and
`validation/rule.go` (`ConfirmNoEscalation`) of the same folder.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.aio.offload import offload
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.rbac.policy import GROUP, inherited_objects
from kcp_py.authz.authorizer import Authorizer
from kcp_py.authz.rbac.indexes import RBACIndexes
from kcp_py.authz.rbac.rules import FULL_AUTHORITY, PolicyRule, describe, parse_rules, uncovered
from kcp_py.golang.quoting import go_quote
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.user import SYSTEM_MASTERS, UserInfo

_ROLES: Final = frozenset((GroupResource(GROUP, "roles"), GroupResource(GROUP, "clusterroles")))
_BINDINGS: Final = frozenset((GroupResource(GROUP, "rolebindings"), GroupResource(GROUP, "clusterrolebindings")))
_MOST_COMPARISONS: Final = 10_000
"""Comparisons of words with rules. A check that needs more runs in a thread."""
_AGGREGATION_REFUSED: Final = "must have cluster-admin privileges to use the aggregationRule"
_OF_THE_COLLECTOR: Final = ("ownerReferences", "finalizers")
_OF_THE_SERVER: Final = ("managedFields", "resourceVersion", "uid", "creationTimestamp", "generation", "selfLink")


class EscalationCheck(AdmissionPlugin):
    """Refuses roles with rules, and bindings to roles with rules, that their author does not have.

    The verbs `escalate` on roles and `bind` on the role of a binding are permissions to do so, and so is the group `system:masters`. It is
    the last plugin that sees an object before validation: what other plugins add is checked. A deletion that brings an
    inherited object back is checked like a write of that object.
    """

    name = "RBACEscalation"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "UPDATE", "DELETE"})
    resources = _ROLES | _BINDINGS

    def __init__(self, indexes: RBACIndexes, authorizer: Authorizer) -> None:
        """Prepare.

        Args:
            indexes: what authors have.
            authorizer: is asked for the verbs `escalate` and `bind`.
        """
        self._indexes = indexes
        self._authorizer = authorizer

    async def mutate(self, attributes: Attributes) -> None:
        """Check a role or a binding.

        Raises:
            StatusError: 403 for one that grants too much; 404 for a binding to a role that does not exist, whose author may not bind it.
        """
        old = attributes.old
        obj = _returning(attributes) if attributes.operation == "DELETE" else attributes.obj
        if obj is None or SYSTEM_MASTERS in attributes.user.groups or (old is not None and is_for_the_collector(obj, old)):
            return
        if attributes.resource.group_resource in _ROLES:
            await self._check_role(attributes, obj)
        else:
            await self._check_binding(attributes, obj)

    async def _check_role(self, attributes: Attributes, obj: Mapping[str, Any]) -> None:
        resource, old = attributes.resource.resource, attributes.old or {}
        info = _request("escalate", resource, attributes.request.target.namespace, attributes.request.target.name)
        if await self._allows(attributes, info):
            return
        await self._confirm(attributes, parse_rules(obj.get("rules")))
        if _is_composed(obj) or _is_composed(old):
            held = await self._held(attributes)
            if uncovered(held, FULL_AUTHORITY):
                raise errors.forbidden(attributes.resource.group_resource, attributes.name, _AGGREGATION_REFUSED)

    async def _check_binding(self, attributes: Attributes, obj: Mapping[str, Any]) -> None:
        reference = obj.get("roleRef") or {}
        kind, name = reference.get("kind", ""), reference.get("name", "")
        namespace = attributes.request.target.namespace
        resource = {"ClusterRole": "clusterroles", "Role": "roles"}.get(kind)
        if resource is None or (kind == "Role" and not namespace):
            # Validation refuses it.
            return
        if await self._allows(attributes, _request("bind", resource, namespace, name)):
            return
        index = await self._indexes.get(attributes.request.target.cluster_state.name)
        rules = index.rules_of((namespace if kind == "Role" else "", name))
        if rules is None:
            raise errors.not_found(attributes.resource.group_resource, name)
        await self._confirm(attributes, rules)

    async def _allows(self, attributes: Attributes, info: RequestInfo) -> bool:
        decision = await self._authorizer.authorize(attributes.user, attributes.request.target.cluster_state.name, info)
        return decision is not None and decision.allowed

    async def _held(self, attributes: Attributes) -> Sequence[PolicyRule]:
        index = await self._indexes.get(attributes.request.target.cluster_state.name)
        return index.rules_for(attributes.user, attributes.request.target.namespace)

    async def _confirm(self, attributes: Attributes, rules: Sequence[PolicyRule]) -> None:
        held = await self._held(attributes)
        # The author decides how many rules there are to compare.
        words = sum(len(values) for rule in rules for values in rule)
        missing = await offload(uncovered, held, rules) if len(held) * words > _MOST_COMPARISONS else uncovered(held, rules)
        if missing:
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, _refusal(attributes.user, missing))


def _refusal(user: UserInfo, missing: Sequence[PolicyRule]) -> str:
    groups = f"[{' '.join(map(go_quote, user.groups))}]"
    lines = "\n".join(describe(missing))
    return f"user {go_quote(user.name)} (groups={groups}) is attempting to grant RBAC permissions not currently held:\n{lines}"


def _request(verb: str, resource: str, namespace: str, name: str) -> RequestInfo:
    return UNPARSED._replace(is_resource=True, verb=verb, group=GROUP, version="*", resource=resource, namespace=namespace, name=name)


def _returning(attributes: Attributes) -> Mapping[str, Any] | None:
    """The inherited object that is in effect again when an own one is deleted; None where there is none, or an equal one."""
    place = (attributes.request.target.namespace, attributes.name)
    for obj in inherited_objects()[attributes.resource.group_resource.resource]:
        if (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]) == place:
            old = attributes.old or {}
            return None if all(old.get(field) == obj.get(field) for field in ("rules", "roleRef", "subjects")) else obj
    return None


def _is_composed(role: Mapping[str, Any]) -> bool:
    return bool((role.get("aggregationRule") or {}).get("clusterRoleSelectors"))


def is_for_the_collector(obj: Mapping[str, Any], old: Mapping[str, Any]) -> bool:
    """Whether an update changes nothing but what garbage collection needs (`IsOnlyMutatingGCFields`)."""
    return _without(obj) == _without(old)


def _without(obj: Mapping[str, Any]) -> Mapping[str, Any]:
    ignored = (*_OF_THE_COLLECTOR, *_OF_THE_SERVER)
    return {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name not in ignored}}
