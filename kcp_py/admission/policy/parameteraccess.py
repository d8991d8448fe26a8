"""`PolicyParameterAccess`: an author of a policy or a binding may read the parameters that it refers to.

Messages of policies show parameters. Upstream checks this in the strategies of the kinds (kubernetes
`pkg/registry/admissionregistration/*/authz.go`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.admission.policy.definitions import kind_of
from kcp_py.admission.policy.objects import PolicyObjects
from kcp_py.admission.policy.permissions import RequestAuthorizer
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.fielderrors import forbidden
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.admissionregistration.install import MUTATING_BINDINGS, MUTATING_POLICIES, VALIDATING_BINDINGS, VALIDATING_POLICIES
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.request.requestinfo import UNPARSED
from kcp_py.request.user import SYSTEM_MASTERS, UserInfo

_POLICIES: Final[Mapping[GroupResource, GroupResource]] = {
    MUTATING_BINDINGS: MUTATING_POLICIES,
    VALIDATING_BINDINGS: VALIDATING_POLICIES,
}
"""The resource of the policies of bindings."""


class PolicyParameterAccess(AdmissionPlugin):
    """Refuses kinds of parameters that their author may not get, and references to parameters that he may not get or list."""

    name = "PolicyParameterAccess"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "UPDATE"})
    resources = frozenset({MUTATING_POLICIES, VALIDATING_POLICIES, *_POLICIES})

    def __init__(self, objects: PolicyObjects, authorizer: RequestAuthorizer) -> None:
        self._objects = objects
        self._authorizer = authorizer

    async def validate(self, attributes: Attributes) -> None:
        """Ask the authorizer where the reference to parameters is new.

        Raises:
            StatusError: 422.
        """
        if attributes.obj is None or attributes.subresource or SYSTEM_MASTERS in attributes.user.groups:
            return
        spec, old = attributes.obj.get("spec") or {}, (attributes.old or {}).get("spec") or {}
        policies = _POLICIES.get(attributes.resource.group_resource)
        if policies is None:
            field, problem = "spec.paramKind", await self._kind_problem(attributes, spec, old)
        else:
            field, problem = "spec.paramRef", await self._reference_problem(attributes, policies, spec, old)
        if problem:
            kind = f"{attributes.resource.kind}.{attributes.resource.group}"
            raise errors.invalid(kind, attributes.name, [forbidden(field, problem)])

    async def _kind_problem(self, attributes: Attributes, spec: Mapping[str, Any], old: Mapping[str, Any]) -> str:
        kind = spec.get("paramKind")
        if kind is None or kind == old.get("paramKind") or await self._may(attributes, "get", kind, "*", "*"):
            return ""
        permission = 'must have "get" permission on all objects of the referenced paramKind'
        return f"user {_shown(attributes.user)} {permission} (kind={kind['kind']}, apiVersion={kind['apiVersion']})"

    async def _reference_problem(
        self, attributes: Attributes, policies: GroupResource, spec: Mapping[str, Any], old: Mapping[str, Any]
    ) -> str:
        reference, name = spec.get("paramRef"), spec.get("policyName", "")
        if reference is None or (reference == old.get("paramRef") and name == old.get("policyName")):
            return ""
        policy = await self._objects.builtin(attributes.request.target.cluster_state, policies, name)
        kind = None if policy is None else (policy.get("spec") or {}).get("paramKind")
        verb = "get" if reference.get("name") else "list"
        if await self._may(attributes, verb, kind, reference.get("namespace") or "", reference.get("name") or ""):
            return ""
        user = _shown(attributes.user)
        if policy is None:
            missing = f'user {user} does not have "{verb}" permission for all groups, versions and resources'
            return f"unable to get policy {name} to determine minimum required permissions and {missing}"
        return f'user {user} does not have "{verb}" permission on the object referenced by paramRef'

    async def _may(self, attributes: Attributes, verb: str, kind: Mapping[str, str] | None, namespace: str, name: str) -> bool:
        """Whether the author may read objects of a kind; any objects where the kind is not known."""
        cluster_state = attributes.request.target.cluster_state
        group = version = resource = "*"
        if kind is not None:
            parsed = kind_of(kind)
            group, version = parsed.group, parsed.version
            resource = await self._objects.resource_of(cluster_state, parsed) or "*"
        info = UNPARSED._replace(
            is_resource=True, verb=verb, group=group, version=version, resource=resource, namespace=namespace, name=name
        )
        answer = await self._authorizer.authorize(attributes.user, cluster_state.name, info)
        return answer is not None and answer.allowed


def _shown(user: UserInfo) -> str:
    """A user as Go prints upstream's type."""
    extra = " ".join(f"{key}:[{' '.join(values)}]" for key, values in sorted(user.extra.items()))
    return f"&{{{user.name} {user.uid} [{' '.join(user.groups)}] map[{extra}]}}"
