"""Users made of claims: claims with prefixes, and expressions."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.authn.oidc.claims import ClaimError, user_of
from kcp_py.request.user import UserInfo
from tests.authn.oidc.conftest import compiled

CLAIMS: dict[str, Any] = {
    "iss": "https://idp.example",
    "sub": "u-1",
    "name": "jane",
    "email": "jane@example.com",
    "email_verified": True,
    "exp": 9999999999,
    "level": 3,
    "groups": ["a", "b"],
    "roles": "admin,dev",
    "empty": "",
    "nothing": None,
    "kubernetes.io": {"name-space": "x"},
    "nested": {"list": [{"a/b": "deep"}], "__x": "under"},
}


def user(mappings: dict[str, Any], claims: dict[str, Any] | None = None, **more: Any) -> UserInfo:
    issuer = {"url": "https://idp.example", "audiences": ["kcp"]}
    (authenticator,) = compiled({"issuer": issuer, "claimMappings": mappings, **more})
    return user_of(authenticator, {**CLAIMS, **(claims or {})})


def name(expression: str, claims: dict[str, Any] | None = None) -> str:
    return user({"username": {"expression": expression}}, claims).name


NAME = {"username": {"claim": "name", "prefix": ""}}


def test_claims_have_prefixes() -> None:
    """User name and groups get theirs, the uid has none."""
    mappings = {
        "username": {"claim": "name", "prefix": "oidc:"},
        "groups": {"claim": "groups", "prefix": "g:"},
        "uid": {"claim": "sub"},
    }
    assert user(mappings) == UserInfo("oidc:jane", "u-1", ("g:a", "g:b"), {})


@pytest.mark.parametrize(
    ("claims", "valid"),
    [({}, True), ({"email_verified": False}, False), ({"email_verified": "true"}, False), ({"email_verified": None}, False)],
)
def test_an_email_address_must_be_verified(claims: dict[str, Any], *, valid: bool) -> None:
    """The claim email names a user only if the provider does not deny that it was verified."""
    mappings = {"username": {"claim": "email", "prefix": ""}}
    if valid:
        assert user(mappings, claims).name == "jane@example.com"
    else:
        with pytest.raises(ClaimError, match=r"email_verified|email not verified"):
            user(mappings, claims)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("claims.name", "jane"),
        ("'x:' + claims.name", "x:jane"),
        ("claims.level == 3.0 ? 'three' : 'other'", "three"),
        ("type(claims.level) == double ? 'double' : 'int'", "double"),
        ("claims.?missing.orValue('none')", "none"),
        ("has(claims.missing) ? 'has' : 'has not'", "has not"),
        ("claims.kubernetes__dot__io.name__dash__space", "x"),
        ("claims['kubernetes.io']['name-space']", "x"),
        ("claims.nested.list[0].a__slash__b", "deep"),
        ("claims.nested.__underscores__x", "under"),
        ("claims.email_verified ? claims.email.split('@')[0] : ''", "jane"),
    ],
)
def test_expressions_read_claims(expression: str, expected: str) -> None:
    """Numbers are floats, missing claims can be tested, and members with other characters have escaped names."""
    assert name(expression) == expected


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("claims.missing", "expression 'claims.missing' resulted in error: no such key: missing"),
        ("claims.level", "username claim expression must return a string"),
        ("claims.groups", "username claim expression must return a string"),
        ("claims.nothing", "username claim expression must return a string"),
        ("claims.empty", "empty username is not allowed"),
    ],
)
def test_expressions_without_a_name_give_no_user(expression: str, problem: str) -> None:
    """A missing claim, another type and an empty text are refused."""
    with pytest.raises(ClaimError) as caught:
        name(expression)
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("claims.groups", ("a", "b")),
        ("claims.roles", ("admin,dev",)),
        ("claims.roles.split(',')", ("admin", "dev")),
        ("claims.empty", ()),
        ("claims.nothing", ()),
        ("['', 'x', '']", ("x",)),
        ("[]", ()),
        ("claims.groups.map(g, 'oidc:' + g)", ("oidc:a", "oidc:b")),
        ("[[]]", None),
        ("[1]", None),
        ("true", None),
        ("claims.nested", None),
        ("claims.missing", None),
    ],
)
def test_groups_and_extra_are_texts(expression: str, expected: tuple[str, ...] | None) -> None:
    """A text or a list of texts; empty ones are left out, and anything else is refused."""
    extra = [{"key": "example.org/x", "valueExpression": expression}]
    for mappings in ({**NAME, "groups": {"expression": expression}}, {**NAME, "extra": extra}):
        if expected is None:
            with pytest.raises(ClaimError):
                user(mappings)
        else:
            made = user(mappings)
            assert (made.groups or made.extra.get("example.org/x", ())) == expected


def test_the_token_id_is_the_credential() -> None:
    """The claim jti becomes the id of the credential, which no expression can set."""
    assert user(NAME, {"jti": "t-1"}).extra == {"authentication.kubernetes.io/credential-id": ("JTI=t-1",)}
    assert user(NAME, {"jti": ""}).extra == user(NAME, {"jti": 5}).extra == {}


@pytest.mark.parametrize(
    ("rule", "problem"),
    [
        ({"claim": "name", "requiredValue": "jane"}, ""),
        ({"claim": "name", "requiredValue": "john"}, "required claim name value does not match"),
        ({"claim": "missing", "requiredValue": "x"}, "required claim missing not present in ID token"),
        ({"claim": "level", "requiredValue": "3"}, "required claim level value does not match"),
        ({"expression": "claims.exp - 1.0 > 5.0", "message": "late"}, ""),
        (
            {"expression": "claims.level > 5.0", "message": "level too low"},
            "validation expression 'claims.level > 5.0' failed: level too low",
        ),
        ({"expression": "claims.missing == 'x'"}, "expression 'claims.missing == 'x'' resulted in error: no such key: missing"),
    ],
)
def test_claims_are_validated(rule: dict[str, str], problem: str) -> None:
    """By required values, which are texts, and by expressions."""
    if not problem:
        assert user(NAME, claimValidationRules=[rule]).name == "jane"
        return
    with pytest.raises(ClaimError) as caught:
        user(NAME, claimValidationRules=[rule])
    assert str(caught.value) == problem


@pytest.mark.parametrize(
    ("expression", "valid"),
    [
        ("!user.username.startsWith('system:')", True),
        ("user.groups.exists(g, g == 'b')", True),
        ("user.groups.all(g, g == 'b')", False),
        ("user.uid == 'u-1' && user.extra['example.org/x'] == ['jane']", True),
        ("user.extra.example__dot__org__slash__x[0] == 'jane'", True),
        ("user.extra['missing'][0] == 'x'", False),
    ],
)
def test_users_are_validated(expression: str, *, valid: bool) -> None:
    """Expressions see the user that was made, and a failing one refuses the token."""
    mappings = {
        **NAME,
        "groups": {"claim": "groups", "prefix": ""},
        "uid": {"claim": "sub"},
        "extra": [{"key": "example.org/x", "valueExpression": "claims.name"}],
    }
    rules = [{"expression": expression, "message": "no"}]
    if valid:
        assert user(mappings, userValidationRules=rules).name == "jane"
    else:
        with pytest.raises(ClaimError):
            user(mappings, userValidationRules=rules)


def test_expressions_have_a_budget() -> None:
    """An expression that multiplies its input ends with an error long before it is done."""
    expression = "claims.l.map(a, claims.l.map(b, claims.l.map(c, a + b + c))).size() == 1 ? 'a' : 'b'"
    with pytest.raises(ClaimError, match="cost limit"):
        name(expression, {"l": ["x"] * 200})


def test_claims_that_are_nested_too_deeply_name_no_user() -> None:
    """A provider may pass on what users write. Claims that the decoder accepts and expressions cannot walk make a token invalid."""
    deep = orjson.loads(b"[" * 1000 + b"]" * 1000)
    with pytest.raises(ClaimError, match="nested too deeply"):
        name("claims.name", {"profile": deep})
