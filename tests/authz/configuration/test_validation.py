"""The rules of an AuthorizationConfiguration, with upstream's texts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcp_py.authz.configuration.document import AuthorizerConfiguration, ConfigurationError, WebhookConfiguration
from kcp_py.authz.configuration.validation import check_configuration, configuration_problems
from kcp_py.golang.durations import SECOND

RBAC = AuthorizerConfiguration("RBAC", "rbac")


def hook(file: Path, name: str = "hook", **more: Any) -> AuthorizerConfiguration:
    """A webhook that breaks no rule but those that `more` breaks."""
    valid = WebhookConfiguration(
        timeout=SECOND,
        subject_access_review_version="v1",
        failure_policy="NoOpinion",
        connection_type="KubeConfigFile",
        kube_config_file=str(file),
    )
    return AuthorizerConfiguration("Webhook", name, valid._replace(**more))


@pytest.fixture
def file(tmp_path: Path) -> Path:
    found = tmp_path / "hook.kubeconfig"
    found.touch()
    return found


def texts(*authorizers: AuthorizerConfiguration) -> list[str]:
    return [str(problem) for problem in configuration_problems(authorizers)]


@pytest.mark.parametrize(
    ("authorizers", "expected"),
    [
        ((), ["authorizers: Required value: at least one authorization mode must be defined"]),
        ((AuthorizerConfiguration(),), ["authorizers[0].type: Required value"]),
        ((AuthorizerConfiguration("RBAC"),), ["authorizers[0].name: Required value"]),
        (
            (AuthorizerConfiguration("Foo", "foo"),),
            [
                (
                    'authorizers[0].type: Unsupported value: "Foo": '
                    'supported values: "ABAC", "AlwaysAllow", "AlwaysDeny", "Node", "RBAC", "Webhook"'
                )
            ],
        ),
        ((RBAC, AuthorizerConfiguration("RBAC", "again")), ['authorizers[1].type: Duplicate value: "RBAC"']),
        ((RBAC, AuthorizerConfiguration("AlwaysDeny", "rbac")), ['authorizers[1].name: Duplicate value: "rbac"']),
        (
            (AuthorizerConfiguration("Node", "node"),),
            [
                (
                    'authorizers[0].type: Invalid value: "Node": not available: logical clusters have no nodes, '
                    "so there are no kubelets to confine"
                )
            ],
        ),
        (
            (AuthorizerConfiguration("ABAC", "abac"),),
            ['authorizers[0].type: Invalid value: "ABAC": not available: roles and bindings replace files of policies'],
        ),
        ((AuthorizerConfiguration("Webhook", "hook"),), ["authorizers[0].webhook: Required value: required when type=Webhook"]),
        (
            (RBAC._replace(webhook=WebhookConfiguration()),),
            ['authorizers[0].webhook: Invalid value: "non-null": may only be specified when type=Webhook'],
        ),
    ],
)
def test_authorizers(authorizers: tuple[AuthorizerConfiguration, ...], expected: list[str]) -> None:
    """Types are known and, except for webhooks, not repeated; names are distinct."""
    assert texts(*authorizers) == expected


@pytest.mark.parametrize("name", ["FOO.example.domain", "foo_bar", "-foo"])
def test_names_are_subdomains(name: str) -> None:
    """The text has the rule."""
    (found,) = texts(AuthorizerConfiguration("RBAC", name))
    assert found.startswith(f'authorizers[0].name: Invalid value: "{name}": authorizer name is invalid: a lowercase RFC 1123 subdomain')


def test_several_webhooks(file: Path) -> None:
    """Only webhooks can be repeated, under other names."""
    assert texts(hook(file), RBAC, hook(file, "hook.example.com")) == []
    assert texts(hook(file), hook(file)) == ['authorizers[1].name: Duplicate value: "hook"']


@pytest.mark.parametrize(
    ("more", "expected"),
    [
        ({"timeout": 0}, "timeout: Required value"),
        ({"timeout": -30 * SECOND}, 'timeout: Invalid value: "-30s": must be > 0s and <= 30s'),
        ({"timeout": 60 * SECOND}, 'timeout: Invalid value: "1m0s": must be > 0s and <= 30s'),
        ({"authorized_ttl": 0}, "authorizedTTL: Required value"),
        ({"authorized_ttl": -30 * SECOND}, 'authorizedTTL: Invalid value: "-30s": must be > 0s'),
        ({"unauthorized_ttl": 0}, "unauthorizedTTL: Required value"),
        ({"unauthorized_ttl": -30 * SECOND}, 'unauthorizedTTL: Invalid value: "-30s": must be > 0s'),
        ({"subject_access_review_version": ""}, "subjectAccessReviewVersion: Required value"),
        (
            {"subject_access_review_version": "v2beta1"},
            'subjectAccessReviewVersion: Unsupported value: "v2beta1": supported values: "v1", "v1beta1"',
        ),
        (
            {"match_conditions": ("true",)},
            "matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are specified",
        ),
        (
            {"match_condition_subject_access_review_version": "v1beta1"},
            'matchConditionSubjectAccessReviewVersion: Unsupported value: "v1beta1": supported values: "v1"',
        ),
        ({"failure_policy": ""}, "failurePolicy: Required value"),
        ({"failure_policy": "AlwaysAllow"}, 'failurePolicy: Unsupported value: "AlwaysAllow": supported values: "NoOpinion", "Deny"'),
        ({"connection_type": ""}, "connectionInfo.type: Required value"),
        (
            {"connection_type": "Other", "kube_config_file": None},
            (
                'connectionInfo.type: Unsupported value: {"Type":"Other","KubeConfigFile":null}: '
                'supported values: "InClusterConfig", "KubeConfigFile"'
            ),
        ),
        (
            {"connection_type": "InClusterConfig", "kube_config_file": ""},
            'connectionInfo.kubeConfigFile: Invalid value: "": can only be set when type=KubeConfigFile',
        ),
        (
            {"connection_type": "InClusterConfig", "kube_config_file": None},
            'connectionInfo.type: Invalid value: "InClusterConfig": not available: the server does not run in a cluster of its own',
        ),
        ({"kube_config_file": None}, "connectionInfo.kubeConfigFile: Required value"),
        ({"kube_config_file": "hook"}, 'connectionInfo.kubeConfigFile: Invalid value: "hook": must be an absolute path'),
        (
            {"kube_config_file": "/no/such/file"},
            (
                'connectionInfo.kubeConfigFile: Invalid value: "/no/such/file": '
                "error loading file: stat /no/such/file: no such file or directory"
            ),
        ),
        ({"kube_config_file": "/"}, 'connectionInfo.kubeConfigFile: Invalid value: "/": must be a regular file'),
        (
            {"match_conditions": (" ",), "match_condition_subject_access_review_version": "v1"},
            "matchConditions[0].expression: Required value",
        ),
    ],
)
def test_webhooks(file: Path, more: dict[str, Any], expected: str) -> None:
    """The paths leave `webhook` out, as upstream's do."""
    assert texts(hook(file, **more)) == [f"authorizers[0].{expected}"]


def test_all_problems_are_reported() -> None:
    """In one text."""
    with pytest.raises(ConfigurationError) as caught:
        check_configuration([AuthorizerConfiguration("RBAC"), AuthorizerConfiguration("Foo", "foo")])
    assert str(caught.value).startswith('[authorizers[0].name: Required value, authorizers[1].type: Unsupported value: "Foo"')


def test_names_of_other_types() -> None:
    """They are fixed: metrics and reasons would not be comparable otherwise."""
    check_configuration([RBAC, AuthorizerConfiguration("AlwaysDeny", "alwaysdeny")])
    with pytest.raises(ConfigurationError, match="expected name rbac for authorizer RBAC instead of mine"):
        check_configuration([AuthorizerConfiguration("RBAC", "mine")])
