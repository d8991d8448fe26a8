"""Users made of the claims of verified tokens.

Source: k8s.io/apiserver `plugin/pkg/authenticator/token/oidc` (`getUsername`, `getGroups`, `getUID`, `getExtra`).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

from kcp_py.apis.jwt.authenticators import ClaimValue, JWTAuthenticator, Rule, Source
from kcp_py.apis.jwt.expressions import CompiledExpression, ExpressionError
from kcp_py.authn.certificate import CREDENTIAL_ID
from kcp_py.cel.values import Budget
from kcp_py.request.user import UserInfo

Claims = Mapping[str, Any]

EXPRESSION_BUDGET: Final = 1_000_000
"""What all expressions for one token may cost together: about 50 ms."""


class ClaimError(Exception):
    """The claims do not give a valid user. `str()` is the reason, for logs and tests."""


def user_of(authenticator: JWTAuthenticator, claims: Claims, *, budget: int = EXPRESSION_BUDGET) -> UserInfo:
    """The user of a verified token.

    Args:
        authenticator: the rules of its issuer.
        claims: decoded JSON.
        budget: what all expressions may cost together.

    Raises:
        ClaimError: a mapping has no value, a required claim differs, or a validation rule is not true.
    """
    mapping = _Mapping(claims, Budget(budget))
    try:
        name = mapping.username(authenticator.username)
        groups = mapping.texts(authenticator.groups) if authenticator.groups is not None else ()
        uid = mapping.text(authenticator.uid, "uid") if authenticator.uid is not None else ""
        extra = mapping.extra_of(authenticator)
        _check_required(authenticator, claims)
        user = UserInfo(name, uid, groups, MappingProxyType(extra))
        mapping.check(authenticator.claim_rules, mapping.decoded)
        if authenticator.user_rules:
            mapping.check(authenticator.user_rules, _as_json(user))
    except ExpressionError as error:
        raise ClaimError(str(error)) from None
    except RecursionError:
        raise ClaimError("the claims are nested too deeply") from None
    return user


class _Mapping:
    """The evaluation of the rules of one issuer for one token."""

    def __init__(self, claims: Claims, budget: Budget) -> None:
        self._claims = claims
        self._budget = budget
        self._decoded: dict[str, Any] | None = None

    @property
    def decoded(self) -> dict[str, Any]:
        """The claims as expressions see them: Go decodes all numbers as floats."""
        if self._decoded is None:
            self._decoded = {name: _with_floats(value) for name, value in self._claims.items()}
        return self._decoded

    def username(self, source: Source) -> str:
        if isinstance(source, ClaimValue) and source.claim == "email":
            verified = self._claims.get("email_verified", True)
            if not isinstance(verified, bool):
                raise ClaimError("parse 'email_verified' claim: not a boolean")
            if not verified:
                raise ClaimError("email not verified")
        name = self.text(source, "username")
        if not name:
            raise ClaimError("empty username is not allowed")
        return name

    def text(self, source: Source, part: str) -> str:
        if isinstance(source, ClaimValue):
            value = self._claims.get(source.claim)
            if not isinstance(value, str):
                raise ClaimError(f'parse {part} claim "{source.claim}": {"claim not present" if value is None else "not a string"}')
            return source.prefix + value
        value = source.evaluate(self.decoded, self._budget)
        if not isinstance(value, str):
            raise ClaimError(f"{part} claim expression must return a string")
        return value

    def texts(self, source: Source) -> tuple[str, ...]:
        """The values of groups: a text or a list of texts."""
        if isinstance(source, CompiledExpression):
            return self._expression_texts(source)
        if source.claim not in self._claims:
            return ()
        value = self._claims[source.claim]
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
            raise ClaimError(f'parse groups claim "{source.claim}": neither a string nor a list of strings')
        return tuple(source.prefix + one for one in value)

    def extra_of(self, authenticator: JWTAuthenticator) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        jti = self._claims.get("jti")
        if isinstance(jti, str) and jti:
            found[CREDENTIAL_ID] = (f"JTI={jti}",)
        for key, expression in authenticator.extra:
            if values := self._expression_texts(expression):
                found[key] = values
        return found

    def check(self, rules: tuple[Rule, ...], value: Mapping[str, Any]) -> None:
        """Evaluate validation rules.

        Raises:
            ClaimError: a rule is not true.
        """
        for rule in rules:
            if rule.expression.evaluate(value, self._budget) is not True:
                raise ClaimError(f"validation expression '{rule.expression.text}' failed: {rule.message}")

    def _expression_texts(self, expression: CompiledExpression) -> tuple[str, ...]:
        value = expression.evaluate(self.decoded, self._budget)
        if value is None:
            return ()
        values = [value] if isinstance(value, str) else value
        if not isinstance(values, list) or not all(isinstance(one, str) for one in values):
            raise ClaimError("expression must return a string or a list of strings")
        return tuple(filter(None, values))


def _check_required(authenticator: JWTAuthenticator, claims: Claims) -> None:
    for claim, wanted in authenticator.required_claims:
        if claim not in claims:
            raise ClaimError(f"required claim {claim} not present in ID token")
        if claims[claim] != wanted or not isinstance(claims[claim], str):
            raise ClaimError(f"required claim {claim} value does not match")


def _as_json(user: UserInfo) -> dict[str, Any]:
    extra = {key: list(values) for key, values in user.extra.items()}
    return {"username": user.name, "uid": user.uid, "groups": list(user.groups), "extra": extra}


def _with_floats(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _with_floats(member) for name, member in value.items()}
    if isinstance(value, list):
        return [_with_floats(member) for member in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value
