"""From a configuration of issuers to what verifies their tokens."""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from kcp_py.aio.clock import Clock
from kcp_py.apimachinery.fielderrors import FieldError, aggregate, not_supported
from kcp_py.apis.jwt.authenticators import ClaimValue, JWTAuthenticator
from kcp_py.apis.jwt.validation import validate_configuration
from kcp_py.authn.oidc.distributed import ClaimResolver
from kcp_py.authn.oidc.errors import AuthenticationError
from kcp_py.authn.oidc.keysets import WAIT_SECONDS, Getter, Provider
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
    clock: Clock,
) -> JWTTokens:
    """Validate a configuration, and make what verifies the tokens of its issuers.

    Args:
        document: an `AuthenticationConfiguration`.
        caller: fetches the keys of the issuers.
        algorithms: the signature algorithms that are accepted; empty for all that are supported.
        disallowed: issuers that others verify.
        problems: those that the configuration has anyway.
        clock: when tokens and keys end.

    Raises:
        AuthenticationError: the configuration is invalid.
    """
    found, more = validate_configuration(document, disallowed)
    unknown = [not_supported("oidc-signing-algs", algorithm, ALGORITHMS) for algorithm in algorithms if algorithm not in ALGORITHMS]
    if every := [*more, *problems, *unknown]:
        raise AuthenticationError(f"invalid authentication configuration: {aggregate(every)}")
    accepted = algorithms or ALGORITHMS
    issuers = [issuer_of(authenticator, caller, algorithms=accepted, now=clock.time, clock=clock.monotonic) for authenticator in found]
    return JWTTokens(issuers, algorithms=accepted, now=clock.time)


def issuer_of(
    authenticator: JWTAuthenticator,
    caller: Getter,
    *,
    cluster: str = "",
    algorithms: Collection[str] = ALGORITHMS,
    wait: float = WAIT_SECONDS,
    now: Callable[[], float] = time.time,
    clock: Callable[[], float] = time.monotonic,
) -> Issuer:
    """An issuer with what fetches its keys, and its distributed claims where groups are a claim.

    Args:
        authenticator: the rules of the issuer.
        caller: fetches documents.
        cluster: the cluster that trusts the issuer, for logs; empty for an issuer of the operator.
        algorithms: the signature algorithms that are accepted.
        wait: seconds that a request waits for a fetch.
        now: seconds since the epoch.
        clock: seconds of a monotonic clock.
    """
    provider = Provider(authenticator, caller, cluster=cluster, wait=wait, clock=clock)
    groups = authenticator.groups
    if not isinstance(groups, ClaimValue):
        return Issuer(authenticator, provider)
    resolver = ClaimResolver(
        authenticator, provider, caller, claim=groups.claim, cluster=cluster, algorithms=algorithms, wait=wait, now=now
    )
    return Issuer(authenticator, provider, resolver)
