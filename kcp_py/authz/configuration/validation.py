"""The rules of an AuthorizationConfiguration.

Source: k8s.io/apiserver `pkg/apis/apiserver/validation/validation.go`, kubernetes `pkg/kubeapiserver/authorizer/config.go`.
"""

from __future__ import annotations

import stat
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from kcp_py.apimachinery.fielderrors import FieldError, Printed, duplicate, invalid, not_supported, required
from kcp_py.apimachinery.meta.names import dns_subdomain_problems
from kcp_py.authz.authorizer import aggregate
from kcp_py.authz.configuration.document import AuthorizerConfiguration, ConfigurationError, WebhookConfiguration
from kcp_py.golang import durations
from kcp_py.golang.quoting import go_quote

TYPES: Final = ("ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook")
_ABSENT: Final = {
    "ABAC": "not available: roles and bindings replace files of policies",
    "Node": "not available: logical clusters have no nodes, so there are no kubelets to confine",
}
KUBECONFIG: Final = "KubeConfigFile"
IN_CLUSTER: Final = "InClusterConfig"
_MAX_TIMEOUT: Final = 30 * durations.SECOND


def check_configuration(authorizers: Sequence[AuthorizerConfiguration]) -> None:
    """Check authorizers. It reads the state of the files that they name, and compiles expressions.

    Raises:
        ConfigurationError: a rule is broken.
    """
    problems: list[object] = list(configuration_problems(authorizers))
    if not problems:
        problems += [
            f"expected name {one.type.lower()} for authorizer {one.type} instead of {one.name}"
            for one in authorizers
            if one.type != "Webhook" and one.name != one.type.lower()
        ]
    if problems:
        raise ConfigurationError(aggregate([str(problem) for problem in problems]))


def configuration_problems(authorizers: Sequence[AuthorizerConfiguration]) -> list[FieldError]:
    """The problems of single fields."""
    if not authorizers:
        return [required("authorizers", "at least one authorization mode must be defined")]
    problems: list[FieldError] = []
    types: set[str] = set()
    names: set[str] = set()
    for index, one in enumerate(authorizers):
        path = f"authorizers[{index}]"
        if not one.type:
            problems.append(required(f"{path}.type"))
            continue
        if one.type not in TYPES:
            problems.append(not_supported(f"{path}.type", one.type, TYPES))
            continue
        if one.type in _ABSENT:
            problems.append(invalid(f"{path}.type", one.type, _ABSENT[one.type]))
            continue
        if one.type in types and one.type != "Webhook":
            problems.append(duplicate(f"{path}.type", one.type))
            continue
        types.add(one.type)
        problems += _name_problems(one.name, f"{path}.name", names)
        names.add(one.name)
        problems += _webhook_field_problems(one, path)
    return problems


def _name_problems(name: str, path: str, names: set[str]) -> list[FieldError]:
    if not name:
        return [required(path)]
    if name in names:
        return [duplicate(path, name)]
    if found := dns_subdomain_problems(name):
        return [invalid(path, name, f"authorizer name is invalid: {', '.join(found)}")]
    return []


def _webhook_field_problems(one: AuthorizerConfiguration, path: str) -> list[FieldError]:
    if one.type == "Webhook":
        if one.webhook is None:
            return [required(f"{path}.webhook", "required when type=Webhook")]
        return webhook_problems(one.webhook, path)
    if one.webhook is not None:
        return [invalid(f"{path}.webhook", "non-null", "may only be specified when type=Webhook")]
    return []


def webhook_problems(webhook: WebhookConfiguration, path: str) -> list[FieldError]:
    """The problems of a webhook. The paths are those of upstream, which leave the field `webhook` out."""
    from kcp_py.authz.webhook.conditions import compile_conditions  # noqa: PLC0415 - most servers have no webhooks, and CEL is large

    problems: list[FieldError] = []
    if webhook.timeout == 0:
        problems.append(required(f"{path}.timeout"))
    elif not 0 < webhook.timeout <= _MAX_TIMEOUT:
        problems.append(invalid(f"{path}.timeout", durations.format_duration(webhook.timeout), "must be > 0s and <= 30s"))
    for field, value in (("authorizedTTL", webhook.authorized_ttl), ("unauthorizedTTL", webhook.unauthorized_ttl)):
        if value == 0:
            problems.append(required(f"{path}.{field}"))
        elif value < 0:
            problems.append(invalid(f"{path}.{field}", durations.format_duration(value), "must be > 0s"))
    problems += _choice_problems(webhook.subject_access_review_version, f"{path}.subjectAccessReviewVersion", ("v1", "v1beta1"))
    matching, matching_path = webhook.match_condition_subject_access_review_version, f"{path}.matchConditionSubjectAccessReviewVersion"
    if matching:
        problems += _choice_problems(matching, matching_path, ("v1",))
    elif webhook.match_conditions:
        problems.append(required(matching_path, "required if match conditions are specified"))
    problems += _choice_problems(webhook.failure_policy, f"{path}.failurePolicy", ("NoOpinion", "Deny"))
    problems += _connection_problems(webhook, f"{path}.connectionInfo")
    return [*problems, *compile_conditions(webhook.match_conditions, f"{path}.matchConditions")[1]]


def _choice_problems(value: str, path: str, choices: Sequence[str]) -> list[FieldError]:
    if not value:
        return [required(path)]
    return [] if value in choices else [not_supported(path, value, choices)]


def _connection_problems(webhook: WebhookConfiguration, path: str) -> list[FieldError]:
    kind, file, file_path = webhook.connection_type, webhook.kube_config_file, f"{path}.kubeConfigFile"
    if not kind:
        return [required(f"{path}.type")]
    if kind == IN_CLUSTER:
        if file is not None:
            return [invalid(file_path, file, f"can only be set when type={KUBECONFIG}")]
        return [invalid(f"{path}.type", kind, "not available: the server does not run in a cluster of its own")]
    if kind != KUBECONFIG:
        shown = Printed(f'{{"Type":{go_quote(kind)},"KubeConfigFile":{"null" if file is None else go_quote(file)}}}')
        return [not_supported(f"{path}.type", shown, (IN_CLUSTER, KUBECONFIG))]
    if not file:
        return [required(file_path)]
    if not Path(file).is_absolute():
        return [invalid(file_path, file, "must be an absolute path")]
    try:
        mode = Path(file).stat().st_mode
    except (OSError, ValueError) as error:
        reason = (getattr(error, "strerror", None) or str(error)).lower()
        return [invalid(file_path, file, f"error loading file: stat {file}: {reason}")]
    return [] if stat.S_ISREG(mode) else [invalid(file_path, file, "must be a regular file")]
