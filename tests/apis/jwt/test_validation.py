"""Validation of JWT authenticators. The messages are compared in `test_configuration`."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.fielderrors import aggregate
from kcp_py.apis.jwt.validation import in_domains, validate_configuration
from tests.apis.jwt.test_configuration import AUTHENTICATOR


def test_issuers_of_others_are_refused() -> None:
    """An issuer whose tokens the server verifies by other means cannot be configured."""
    _, problems = validate_configuration({"jwt": [AUTHENTICATOR]}, ["https://idp.example"])
    text = 'jwt[0].issuer.url: Invalid value: "https://idp.example": URL must not overlap with disallowed issuers: [https://idp.example]'
    assert aggregate(problems) == text


@pytest.mark.parametrize(
    ("key", "inside"),
    [("kcp.io/x", True), ("a.kcp.io/x", True), ("akcp.io/x", False), ("kcp.io.example/x", False), ("kcp.io", False), ("x/kcp.io", False)],
)
def test_domains_of_keys(key: str, *, inside: bool) -> None:
    """A key belongs to the domain before its slash, and to all domains above."""
    assert in_domains(key, "k8s.io", "kcp.io") is inside


def test_authenticators_have_the_values_of_their_documents() -> None:
    """Claims, prefixes and rules arrive, and the discovery document is that of the issuer unless another one is named."""
    document = {
        "issuer": {"url": "https://idp.example/realm/", "audiences": ["a", "b"], "audienceMatchPolicy": "MatchAny"},
        "claimValidationRules": [{"claim": "hd", "requiredValue": "example.com"}, {"expression": "claims.x == 1", "message": "no"}],
        "claimMappings": {
            "username": {"claim": "sub", "prefix": "oidc:"},
            "groups": {"expression": "claims.roles"},
            "uid": {"claim": "sub"},
            "extra": [{"key": "example.org/tenant", "valueExpression": "claims.tenant"}],
        },
        "userValidationRules": [{"expression": "!user.username.startsWith('system:')"}],
    }
    (found,), problems = validate_configuration({"jwt": [document]})
    assert problems == []
    assert found.issuer == "https://idp.example/realm/"
    assert found.discovery_url == "https://idp.example/realm/.well-known/openid-configuration"
    assert found.audiences == {"a", "b"}
    assert found.username == ("sub", "oidc:")
    assert found.required_claims == (("hd", "example.com"),)
    assert [key for key, _ in found.extra] == ["example.org/tenant"]
    assert [rule.message for rule in (*found.claim_rules, *found.user_rules)] == ["no", ""]
