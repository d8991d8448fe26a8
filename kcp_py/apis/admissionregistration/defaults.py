"""Defaults of the kinds of the group, filled into decoded objects (kubernetes `pkg/apis/admissionregistration/v1/defaults.go`)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

_ALL_SCOPES: Final = "*"
_HTTPS: Final = 443
_MATCHING: Final[Mapping[str, Any]] = {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
_WEBHOOK: Final[Mapping[str, Any]] = {"failurePolicy": "Fail", **_MATCHING, "timeoutSeconds": 10}
_MUTATING_WEBHOOK: Final[Mapping[str, Any]] = {**_WEBHOOK, "reinvocationPolicy": "Never"}


def default_mutating_webhooks(obj: dict[str, Any]) -> None:
    """Fill a MutatingWebhookConfiguration, in place."""
    _default_webhooks(obj, _MUTATING_WEBHOOK)


def default_validating_webhooks(obj: dict[str, Any]) -> None:
    """Fill a ValidatingWebhookConfiguration, in place."""
    _default_webhooks(obj, _WEBHOOK)


def default_policy(obj: dict[str, Any]) -> None:
    """Fill a policy of either kind, in place."""
    spec = obj.get("spec")
    if spec is None:
        spec = obj["spec"] = {}
    _fill(spec, {"failurePolicy": "Fail"})
    _default_matching(spec.get("matchConstraints"))


def default_binding(obj: dict[str, Any]) -> None:
    """Fill a binding of either kind, in place."""
    _default_matching((obj.get("spec") or {}).get("matchResources"))


def _default_webhooks(obj: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    for webhook in obj.get("webhooks") or ():
        _fill(webhook, defaults)
        _default_scopes(webhook.get("rules"))
        if (service := (webhook.get("clientConfig") or {}).get("service")) is not None:
            _fill(service, {"port": _HTTPS})


def _default_matching(matching: Any) -> None:
    if matching is not None:
        _fill(matching, _MATCHING)
        _default_scopes(matching.get("resourceRules"))
        _default_scopes(matching.get("excludeResourceRules"))


def _default_scopes(rules: Any) -> None:
    for rule in rules or ():
        _fill(rule, {"scope": _ALL_SCOPES})


def _fill(obj: dict[str, Any], defaults: Mapping[str, Any]) -> None:
    for field, value in defaults.items():
        if obj.get(field) is None:
            obj[field] = {} if value == {} else value
