"""The file of an AuthorizationConfiguration: its fields, defaults and strictness."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.authz.configuration.document import (
    AuthorizerConfiguration,
    ConfigurationError,
    WebhookConfiguration,
    parse_configuration,
)
from kcp_py.authz.configuration.validation import configuration_problems
from kcp_py.golang.durations import SECOND

ROOT = Path(__file__).parents[3]

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\n"
WEBHOOK = """
authorizers:
- type: Webhook
  name: hook
  webhook:
    timeout: 3s
    authorizedTTL: 1m
    unauthorizedTTL: 500ms
    cacheUnauthorizedRequests: false
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo:
      type: KubeConfigFile
      kubeConfigFile: /etc/hook.kubeconfig
    matchConditions:
    - expression: "true"
- type: RBAC
  name: rbac
"""


@pytest.mark.parametrize("version", ["v1", "v1beta1", "v1alpha1"])
def test_a_configuration(version: str) -> None:
    """All versions have the same fields."""
    content = (HEAD.replace("/v1", f"/{version}") + WEBHOOK).encode()
    assert parse_configuration(content) == (
        AuthorizerConfiguration(
            "Webhook",
            "hook",
            WebhookConfiguration(
                60 * SECOND,
                cache_authorized_requests=True,
                unauthorized_ttl=SECOND // 2,
                cache_unauthorized_requests=False,
                timeout=3 * SECOND,
                subject_access_review_version="v1",
                match_condition_subject_access_review_version="v1",
                failure_policy="Deny",
                connection_type="KubeConfigFile",
                kube_config_file="/etc/hook.kubeconfig",
                match_conditions=("true",),
            ),
        ),
        AuthorizerConfiguration("RBAC", "rbac"),
    )


def test_the_sample() -> None:
    """The sample of the documentation is a configuration whose only fault is that its kubeconfig is not there."""
    authorizers = parse_configuration((ROOT / "config" / "samples" / "authorization-configuration.yaml").read_bytes())
    (problem,) = configuration_problems(authorizers)
    assert problem.field == "authorizers[1].connectionInfo.kubeConfigFile"


def test_defaults() -> None:
    """Answers are kept for five minutes and for thirty seconds. An empty file has no authorizers."""
    (found,) = parse_configuration(f"{HEAD}authorizers: [{{type: Webhook, name: hook, webhook: {{}}}}]".encode())
    assert found.webhook == WebhookConfiguration()
    assert found.webhook.authorized_ttl == 300 * SECOND
    assert found.webhook.unauthorized_ttl == 30 * SECOND
    assert found.webhook.cache_authorized_requests
    assert parse_configuration(b"") == ()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("a: [", "yaml"),
        ("[]", "the document is not an object"),
        ("kind: AuthorizationConfiguration", "Object 'apiVersion' is missing"),
        ("apiVersion: apiserver.config.k8s.io/v1", "Object 'Kind' is missing"),
        (HEAD.replace("/v1", "/v2"), 'no kind "AuthorizationConfiguration" is registered for version "apiserver.config.k8s.io/v2"'),
        (HEAD.replace("apiserver.config.k8s.io/v1", "[v1]"), "no kind"),
        (HEAD.replace("AuthorizationConfiguration", "{a: b}"), "no kind"),
        (HEAD.replace("Authorization", "Authentication"), 'no kind "AuthenticationConfiguration" is registered'),
        (HEAD + "authorizer: []", 'strict decoding error: unknown field "authorizer"'),
        (HEAD + "authorizers: [{tipe: RBAC}]", 'strict decoding error: unknown field "authorizers[0].tipe"'),
        (HEAD + "authorizers: [{webhook: {connectionInfo: {file: x}}}]", 'unknown field "authorizers[0].webhook.connectionInfo.file"'),
        (HEAD + "authorizers: []\nauthorizers: []", 'key "authorizers" already set in map'),
        (HEAD + "authorizers: {}", "authorizers is not a list"),
        (HEAD + "authorizers: [RBAC]", "authorizers[0] is not an object"),
        (HEAD + "authorizers: [{type: 1}]", "authorizers[0].type is not a string"),
        (HEAD + "authorizers: [{webhook: {timeout: 3}}]", "authorizers[0].webhook.timeout is not a string"),
        (HEAD + "authorizers: [{webhook: {timeout: soon}}]", 'authorizers[0].webhook.timeout: time: invalid duration "soon"'),
        (HEAD + "authorizers: [{webhook: {cacheAuthorizedRequests: 1}}]", "cacheAuthorizedRequests is not true or false"),
    ],
)
def test_files_that_are_refused(content: str, message: str) -> None:
    """Unknown and repeated fields are errors, as are values of other types."""
    with pytest.raises(ConfigurationError) as caught:
        parse_configuration(content.encode())
    text = str(caught.value)
    assert text.startswith("failed to load AuthorizationConfiguration from file: ")
    assert message in text
