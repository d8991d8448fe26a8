"""JWT authenticators that were validated: their expressions are compiled, and their fields have types."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from kcp_py.apis.jwt.expressions import CompiledExpression


class ClaimValue(NamedTuple):
    """The value of a claim, which is used with a prefix."""

    claim: str
    prefix: str = ""


Source = ClaimValue | CompiledExpression
"""What a part of the user is made of."""


class Rule(NamedTuple):
    """An expression that must be true."""

    expression: CompiledExpression
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JWTAuthenticator:
    """How tokens of one issuer are verified, and how users are made of them. Immutable."""

    issuer: str
    """The URL in the claim `iss`."""
    discovery_url: str
    """The URL of the discovery document."""
    authorities: bytes = b""
    """PEM certificates of the authorities of the provider; empty for those of the system."""
    audiences: frozenset[str]
    """A token must have one of them."""
    username: Source
    groups: Source | None = None
    uid: Source | None = None
    extra: tuple[tuple[str, CompiledExpression], ...] = ()
    """Key -> expression, in order."""
    required_claims: tuple[tuple[str, str], ...] = ()
    """Claim -> the text that it must be."""
    claim_rules: tuple[Rule, ...] = ()
    user_rules: tuple[Rule, ...] = ()
