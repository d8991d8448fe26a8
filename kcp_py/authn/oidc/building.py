"""From a configuration of issuers to what verifies their tokens."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kcp_py.apimachinery.fielderrors import FieldError, aggregate, not_supported
from kcp_py.apis.jwt.validation import validate_configuration
from kcp_py.authn.oidc.errors import AuthenticationError
from kcp_py.authn.oidc.keysets import Provider
from kcp_py.authn.oidc.signatures import ALGORITHMS
from kcp_py.authn.oidc.tokens import Issuer, JWTTokens
from kcp_py.egress import Caller


def build_tokens(
    document: Mapping[str, Any],
    caller: Caller,
    *,
    algorithms: Sequence[str],
    disallowed: Sequence[str],
    problems: Sequence[FieldError],
    now: Callable[[], float],
) -> JWTTokens:
    """Validate a configuration, and make what verifies the tokens of its issuers.

    Args:
        document: an `AuthenticationConfiguration`.
        caller: fetches the keys of the issuers.
        algorithms: the signature algorithms that are accepted; empty for all that are supported.
        disallowed: issuers that others verify.
        problems: those that the configuration has anyway.
        now: seconds since the epoch.

    Raises:
        AuthenticationError: the configuration is invalid.
    """
    found, more = validate_configuration(document, disallowed)
    unknown = [not_supported("oidc-signing-algs", algorithm, ALGORITHMS) for algorithm in algorithms if algorithm not in ALGORITHMS]
    if every := [*more, *problems, *unknown]:
        raise AuthenticationError(f"invalid authentication configuration: {aggregate(every)}")
    issuers = [Issuer(authenticator, Provider(authenticator, caller)) for authenticator in found]
    return JWTTokens(issuers, algorithms=algorithms or ALGORITHMS, now=now)
