"""The problems of configurations of admission webhooks.

Source: kubernetes `pkg/apis/admissionregistration/validation`. What upstream tolerates in objects that older versions have stored is not
tolerated: there are none.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, invalid, not_supported, required
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.names import dns_subdomain_problems
from kcp_py.apimachinery.meta.selectorvalidation import selector_problems
from kcp_py.apis.admissionregistration.conditions import condition_problems
from kcp_py.apis.admissionregistration.rules import operation_problems, rule_problems
from kcp_py.schema.webhookclient import ACCEPTED_REVIEW_VERSIONS, review_version_errors, service_errors, url_errors

Object = Mapping[str, Any]

EXEMPT: Final = frozenset(
    {GroupResource("authentication.k8s.io", review) for review in ("selfsubjectreviews", "tokenreviews")}
    | {
        GroupResource("authorization.k8s.io", review)
        for review in ("localsubjectaccessreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews", "subjectaccessreviews")
    }
)
"""Resources that neither webhooks nor policies see (kubernetes `pkg/kubeapiserver/admission/exclusion`)."""

_FAILURE_POLICIES: Final = ("Fail", "Ignore")
_MATCH_POLICIES: Final = ("Equivalent", "Exact")
_REINVOCATION_POLICIES: Final = ("IfNeeded", "Never")
_SIDE_EFFECTS: Final = ("None", "NoneOnDryRun")
_LEAST_SEGMENTS: Final = 3
_LONGEST_TIMEOUT: Final = 30
"""Seconds."""
_VERSIONS: Final = ", ".join(ACCEPTED_REVIEW_VERSIONS)


def webhook_problems(obj: Object, old: Object | None, *, mutating: bool) -> list[FieldError]:
    """The problems of a configuration.

    Args:
        obj: the configuration.
        old: the configuration before an update, or None. Conditions that did not change are not compiled again.
        mutating: whether it is a MutatingWebhookConfiguration.
    """
    problems: list[FieldError] = []
    names: set[str] = set()
    webhooks = obj.get("webhooks") or ()
    has_changed = old is None or _conditions(obj) != _conditions(old)
    for index, webhook in enumerate(webhooks):
        path = f"webhooks[{index}]"
        problems += _webhook_problems(webhook, path, mutating=mutating)
        if has_changed:
            problems += condition_problems(webhook.get("matchConditions") or (), f"{path}.matchConditions", _compile_problems)
        versions = webhook.get("admissionReviewVersions") or ()
        missing = f"must specify one of {_VERSIONS}"
        problems += review_version_errors(versions, f"{path}.admissionReviewVersions", require_known=True, missing=missing)
        if name := webhook.get("name"):
            if name in names:
                problems.append(duplicate(f"{path}.name", name))
            names.add(name)
    return problems


def webhook_warnings(obj: Object) -> list[str]:
    """Rules that name resources that webhooks never see."""
    return [
        f"webhooks[{position}].rules[{index}]: {resource} is excluded from admission webhooks; this rule will have no effect"
        for position, webhook in enumerate(obj.get("webhooks") or ())
        for index, rule in enumerate(webhook.get("rules") or ())
        for resource in _exempt_of(rule)
    ]


def _exempt_of(rule: Object) -> list[GroupResource]:
    groups, resources = rule.get("apiGroups") or (), rule.get("resources") or ()
    if "*" in groups or "*" in resources:
        return []
    named = dict.fromkeys(GroupResource(group, resource) for group in groups for resource in resources)
    return [resource for resource in named if resource in EXEMPT]


def _compile_problems(text: str, path: str) -> list[FieldError]:
    # Most webhooks have no conditions, and CEL is large.
    from kcp_py.apis.admissionregistration.environment import Declared, environment_of  # noqa: PLC0415
    from kcp_py.apis.admissionregistration.expressions import CONDITION, compile_in  # noqa: PLC0415

    error = compile_in(environment_of(Declared()), text, CONDITION).error
    return [invalid(path, text, error)] if error else []


def _conditions(obj: Object) -> list[Any]:
    return [webhook.get("matchConditions") or [] for webhook in obj.get("webhooks") or ()]


def _webhook_problems(webhook: Object, path: str, *, mutating: bool) -> list[FieldError]:
    problems = _name_problems(webhook.get("name") or "", f"{path}.name")
    for index, rule in enumerate(webhook.get("rules") or ()):
        here = f"{path}.rules[{index}]"
        problems += operation_problems(rule.get("operations") or (), f"{here}.operations") + rule_problems(rule, here)
    problems += _choice_problems(webhook, "failurePolicy", path, _FAILURE_POLICIES)
    problems += _choice_problems(webhook, "matchPolicy", path, _MATCH_POLICIES)
    if webhook.get("sideEffects") is None:
        problems.append(required(f"{path}.sideEffects", f"must specify one of {', '.join(_SIDE_EFFECTS)}"))
    problems += _choice_problems(webhook, "sideEffects", path, _SIDE_EFFECTS)
    timeout = webhook.get("timeoutSeconds")
    if timeout is not None and not 1 <= timeout <= _LONGEST_TIMEOUT:
        problems.append(invalid(f"{path}.timeoutSeconds", timeout, "the timeout value must be between 1 and 30 seconds"))
    for field in ("namespaceSelector", "objectSelector"):
        problems += selector_problems(webhook.get(field) or {}, f"{path}.{field}")
    if mutating:
        problems += _choice_problems(webhook, "reinvocationPolicy", path, _REINVOCATION_POLICIES)
    return problems + _client_problems(webhook.get("clientConfig") or {}, f"{path}.clientConfig")


def _name_problems(name: str, path: str) -> list[FieldError]:
    if not name:
        return [required(path)]
    if problems := dns_subdomain_problems(name):
        return [invalid(path, name, ",".join(problems))]
    if name.count(".") < _LEAST_SEGMENTS - 1:
        return [invalid(path, name, "should be a domain with at least three segments separated by dots")]
    return []


def _choice_problems(webhook: Object, field: str, path: str, choices: tuple[str, ...]) -> list[FieldError]:
    value = webhook.get(field)
    return [] if value is None or value in choices else [not_supported(f"{path}.{field}", value, choices)]


def _client_problems(client: Object, path: str) -> list[FieldError]:
    url, service = client.get("url"), client.get("service")
    if (url is None) == (service is None):
        return [required(path, "exactly one of url or service is required")]
    if url is not None:
        return url_errors(url, f"{path}.url")
    # Upstream takes the one for the other: a missing name is reported as a missing namespace.
    swapped = {**(service or {}), "name": (service or {}).get("namespace"), "namespace": (service or {}).get("name")}
    return service_errors(swapped, f"{path}.service")
