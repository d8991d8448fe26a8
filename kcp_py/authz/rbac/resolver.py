"""`Rules`: the rules that apply to a user, as far as authorizers can list them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol, runtime_checkable

from kcp_py.authz.authorizer import AuthorizerUnion
from kcp_py.authz.rbac.rules import PolicyRule
from kcp_py.logicalcluster import Name
from kcp_py.request.user import UserInfo


class Rules(NamedTuple):
    """The rules that apply to a user, and errors about those that could not be found."""

    rules: Sequence[PolicyRule]
    errors: Sequence[str]
    incomplete: bool = False
    """Whether an authorizer cannot list its rules."""


@runtime_checkable
class RuleResolver(Protocol):
    """Gives the rules that apply to a user in a namespace of a cluster."""

    async def rules_for(self, user: UserInfo, cluster: Name, namespace: str) -> Rules: ...


class ConfiguredRules:
    """The rules of all configured authorizers, in their order (k8s.io/apiserver `authorization/union`, `NewRuleResolvers`)."""

    def __init__(self, union: AuthorizerUnion) -> None:
        self._union = union

    async def rules_for(self, user: UserInfo, cluster: Name, namespace: str) -> Rules:
        """See `RuleResolver`."""
        rules: list[PolicyRule] = []
        problems: list[str] = []
        incomplete = False
        for member in self._union.configured:
            if isinstance(member.authorizer, RuleResolver):
                found = await member.authorizer.rules_for(user, cluster, namespace)
                rules += found.rules
                problems += found.errors
                incomplete = incomplete or found.incomplete
        return Rules(rules, problems, incomplete)
