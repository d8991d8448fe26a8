"""Times, audiences and signatures of JWTs (go-oidc `verify.go`)."""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any, Final

from kcp_py.authn.oidc.keysets import KeySet, Provider
from kcp_py.authn.oidc.signatures import Token, is_signed

_SKEW_SECONDS: Final = 300.0
"""How far `nbf` may be ahead, as in go-oidc."""


def valid_until(token: Token, audiences: Collection[str], now: float) -> float | None:
    """Until when the token is valid; None if it is not valid now or not for one of the audiences."""
    claims = token.claims
    if not any(audience in audiences for audience in _texts(claims.get("aud"))):
        return None
    end, start = _seconds(claims.get("exp")), _seconds(claims.get("nbf", 0))
    if end is None or start is None or end < now or now + _SKEW_SECONDS < start:
        return None
    return end


def expiry_text(token: Token, now: float) -> str:
    """The end of a token that has expired, as Go prints it; empty for others."""
    end = _seconds(token.claims.get("exp"))
    if end is None or not end < now:
        return ""
    try:
        return f"{datetime.fromtimestamp(int(end), UTC):%Y-%m-%d %H:%M:%S} +0000 UTC"
    except (OverflowError, OSError, ValueError):
        return ""


async def verifying_keys(token: Token, provider: Provider) -> KeySet | None:
    """The keys of the provider, one of which has signed the token; None if none has. Newer keys are fetched where that is needed."""
    keys = await provider.keys()
    if keys is not None and not is_signed(token, keys.keys):
        keys = await provider.newer_than(keys)
        if keys is not None and not is_signed(token, keys.keys):
            keys = None
    return keys


def _texts(value: Any) -> list[str]:
    values = [value] if isinstance(value, str) else value if isinstance(value, list) else []
    return [one for one in values if isinstance(one, str)]


def _seconds(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
