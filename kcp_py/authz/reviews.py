"""The answers to access reviews: what `kubectl auth can-i` and the interfaces of clusters ask before they show anything.

Source: kubernetes `pkg/registry/authorization/*/rest.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apis.authorization.validation import local_review_problems, review_problems, self_review_problems
from kcp_py.authz.authorizer import Authorizer, aggregate
from kcp_py.authz.rbac.resolver import RuleResolver
from kcp_py.authz.rbac.rules import PolicyRule
from kcp_py.registry.rest.storage import Object, RestStorage
from kcp_py.registry.writerequest import WriteRequest
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.selectors import RequestSelectors, review_selectors
from kcp_py.request.user import UserInfo

Problems = Callable[[Mapping[str, Any]], Sequence[FieldError]]
"""Finds the problems of a review."""

_MOST_WORDS: Final = 100_000
"""About so many words of rules are in one answer: making it must not hold up the server."""


class AccessReviews(RestStorage):
    """Answers reviews of access in the cluster of the request: of the caller, or of the user that the review names."""

    def __init__(self, authorizer: Authorizer, problems: Problems = review_problems) -> None:
        """Prepare.

        Args:
            authorizer: decides.
            problems: finds the problems of a review of the kind.
        """
        self._authorizer = authorizer
        self._problems = problems

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """The review with its answer.

        Raises:
            StatusError: 422 for a review that asks nothing.
        """
        if namespace := request.target.namespace:
            obj.setdefault("metadata", {}).setdefault("namespace", namespace)
        if problems := self._problems(obj):
            raise errors.invalid(f".{request.target.resource.group}", "", problems)
        spec = obj["spec"]
        user = self._user(request, spec)
        attributes = spec.get("resourceAttributes")
        info = _resource_info(attributes) if attributes is not None else _path_info(spec["nonResourceAttributes"])
        decision = await self._authorizer.authorize(user, request.target.cluster_state.name, info)
        status: Object = {"allowed": decision is not None and decision.allowed}
        if decision is not None and decision.final and not decision.allowed:
            status["denied"] = True
        if decision is not None and decision.reason:
            status["reason"] = decision.reason
        failures = [decision.error] if decision is not None and decision.error else []
        if failures := [*failures, *_ignored_selectors(info.selectors)]:
            status["evaluationError"] = "; ".join(failures)
        return {**obj, "status": status}

    def _user(self, request: WriteRequest, spec: Mapping[str, Any]) -> UserInfo:
        del request
        extra = {key: tuple(values or ()) for key, values in (spec.get("extra") or {}).items()}
        return UserInfo(spec.get("user") or "", spec.get("uid") or "", tuple(spec.get("groups") or ()), extra)


class LocalAccessReviews(AccessReviews):
    """Answers reviews that ask about one namespace."""

    def __init__(self, authorizer: Authorizer) -> None:
        super().__init__(authorizer, local_review_problems)


class SelfAccessReviews(AccessReviews):
    """Answers reviews of the caller."""

    def __init__(self, authorizer: Authorizer) -> None:
        super().__init__(authorizer, self_review_problems)

    def _user(self, request: WriteRequest, spec: Mapping[str, Any]) -> UserInfo:
        del spec
        return request.context.user


class SelfRulesReviews(RestStorage):
    """Answers with the rules that apply to the caller in a namespace of the cluster."""

    def __init__(self, resolver: RuleResolver) -> None:
        self._resolver = resolver

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """The rules.

        Raises:
            StatusError: 400 for a review without a namespace.
        """
        namespace = (obj.get("spec") or {}).get("namespace")
        if not namespace:
            raise errors.bad_request("no namespace on request")
        found = await self._resolver.rules_for(request.context.user, request.target.cluster_state.name, namespace)
        rules = _first(found.rules)
        problems = list(found.errors)
        if len(rules) < len(found.rules):
            problems.append(f"only the first {len(rules)} of {len(found.rules)} rules are shown")
        status: Object = {
            "resourceRules": [_resource_rule(rule) for rule in rules if rule.resources],
            "nonResourceRules": [
                {"verbs": list(rule.verbs), "nonResourceURLs": list(rule.non_resource_urls)} for rule in rules if rule.non_resource_urls
            ],
            "incomplete": found.incomplete or len(rules) < len(found.rules),
        }
        if problems:
            status["evaluationError"] = aggregate(problems)
        return {"metadata": {}, "spec": {}, "status": status}


def _first(rules: Sequence[PolicyRule]) -> Sequence[PolicyRule]:
    """The rules that an answer shows: roles of a cluster can have gigabytes of them."""
    words = 0
    for position, rule in enumerate(rules):
        words += 5 + sum(map(len, rule))
        if words > _MOST_WORDS:
            return rules[:position]
    return rules


def _resource_rule(rule: PolicyRule) -> Object:
    answered: Object = {"verbs": list(rule.verbs)}
    for field, values in (("apiGroups", rule.api_groups), ("resources", rule.resources), ("resourceNames", rule.resource_names)):
        if values:
            answered[field] = list(values)
    return answered


def _resource_info(attributes: Mapping[str, Any]) -> RequestInfo:
    return UNPARSED._replace(
        is_resource=True,
        verb=attributes.get("verb") or "",
        group=attributes.get("group") or "",
        version=attributes.get("version") or "*",
        namespace=attributes.get("namespace") or "",
        resource=attributes.get("resource") or "",
        subresource=attributes.get("subresource") or "",
        name=attributes.get("name") or "",
        selectors=review_selectors(attributes),
    )


def _path_info(attributes: Mapping[str, Any]) -> RequestInfo:
    return UNPARSED._replace(verb=attributes.get("verb") or "", path=attributes.get("path") or "")


def _ignored_selectors(selectors: RequestSelectors | None) -> list[str]:
    """Errors about selectors that cannot be read, as upstream words them. The decision ignores them then."""
    if selectors is None:
        return []
    found = (("fieldSelector", selectors.field_requirements()), ("labelSelector", selectors.label_requirements()))
    return [
        f"spec.resourceAttributes.{field} {'partially ' if requirements.items else ''}ignored due to parse error"
        for field, requirements in found
        if requirements.failed
    ]
