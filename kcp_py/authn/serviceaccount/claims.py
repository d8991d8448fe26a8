"""The claims of service account tokens, written and read. Pure.

Source: kubernetes `pkg/serviceaccount/{claims,legacy}.go`; the claims with the name of the cluster are kcp's.
"""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.logicalcluster import InvalidClusterError, Name, parse_name
from kcp_py.request.user import SERVICE_ACCOUNT_PREFIX

LEGACY_ISSUER: Final = "kubernetes/serviceaccount"
"""The issuer of the tokens in secrets."""

_LEGACY: Final = "kubernetes.io/serviceaccount/"
_COMPACT: Final = re.compile(rb"([A-Za-z0-9_-]+)\.([A-Za-z0-9_-]+)\.[A-Za-z0-9_-]+")
_BOUND: Final = ("secret", "pod", "node")
_CLUSTERS: Final = "/clusters/"


class Account(NamedTuple):
    """A service account of a logical cluster."""

    cluster: Name
    namespace: str
    name: str
    uid: str

    @property
    def user_name(self) -> str:
        """Its name in its cluster."""
        return f"{SERVICE_ACCOUNT_PREFIX}{self.namespace}:{self.name}"


class Reference(NamedTuple):
    """An object to which a token is bound."""

    name: str
    uid: str


class Lifetime(NamedTuple):
    """When a token is valid, in unix seconds."""

    issued_at: float
    expires: float
    warn_after: float = 0.0
    """From when on its use is a mistake that is tolerated; 0: never."""


class TokenClaims(NamedTuple):
    """The claims of a token. Nothing but the types and the agreement of the claims with each other was checked."""

    account: Account
    issuer: str
    audiences: Sequence[str] = ()
    """Empty for legacy tokens, which are for the server."""
    expires: float = float("inf")
    not_before: float = 0.0
    token_id: str = ""
    secret: Reference | None = None
    """Legacy tokens do not know its uid."""
    pod: Reference | None = None
    node: Reference | None = None


class Issuers:
    """The issuers of the clusters: `BASE/clusters/NAME`."""

    def __init__(self, bases: Sequence[str], *, single: Name | None = None) -> None:
        """Prepare.

        Args:
            bases: URLs without a slash at the end. The first one issues, tokens of all are accepted.
            single: the only cluster of the server. It is the issuer `BASE` itself, and its tokens do not name it.
        """
        self._bases = tuple(bases)
        self.single = single

    def of(self, cluster: Name) -> str:
        """The issuer of the tokens of a cluster."""
        return self._bases[0] if self.single is not None else f"{self._bases[0]}{_CLUSTERS}{cluster}"

    def keys_url(self, cluster: Name, path: str) -> str:
        """The URL of the keys of a cluster, which are served at a path below it."""
        return self.of(cluster).removesuffix("/") + path

    def private_claims(self, cluster: Name) -> dict[str, Any]:
        """What tokens say about their cluster besides the issuer."""
        return {} if self.single is not None else {"clusterName": cluster}

    def cluster_of(self, issuer: object) -> Name | None:
        """The cluster of an issuer; None for issuers of others."""
        if not isinstance(issuer, str):
            return None
        if self.single is not None:
            return self.single if issuer in self._bases else None
        base, separator, name = issuer.rpartition(_CLUSTERS)
        return _cluster(name) if separator and base in self._bases else None


def bound_claims(
    account: Account, lifetime: Lifetime, *, issuers: Issuers, audiences: Sequence[str], token_id: str, bound: Mapping[str, Reference]
) -> Mapping[str, Any]:
    """The claims of a token of a TokenRequest.

    Args:
        account: whose token it is.
        lifetime: when it is valid.
        issuers: of the clusters.
        audiences: who it is for.
        token_id: unique.
        bound: the objects without which it is not valid, by `secret`, `pod` and `node`.
    """
    private: dict[str, Any] = {
        **issuers.private_claims(account.cluster),
        "namespace": account.namespace,
        "serviceaccount": {"name": account.name, "uid": account.uid},
    }
    for kind, reference in bound.items():
        # The uid of the node of a pod may be unknown.
        private[kind] = {"name": reference.name, "uid": reference.uid} if reference.uid else {"name": reference.name}
    if lifetime.warn_after:
        private["warnafter"] = int(lifetime.warn_after)
    return {
        "aud": list(audiences),
        "exp": int(lifetime.expires),
        "iat": int(lifetime.issued_at),
        "iss": issuers.of(account.cluster),
        "jti": token_id,
        "kubernetes.io": private,
        "nbf": int(lifetime.issued_at),
        "sub": account.user_name,
    }


def legacy_claims(account: Account, secret: str, *, issuers: Issuers) -> Mapping[str, Any]:
    """The claims of the token of a secret."""
    return {
        "iss": LEGACY_ISSUER,
        **{f"{_LEGACY}{name}": value for name, value in issuers.private_claims(account.cluster).items()},
        f"{_LEGACY}namespace": account.namespace,
        f"{_LEGACY}secret.name": secret,
        f"{_LEGACY}service-account.name": account.name,
        f"{_LEGACY}service-account.uid": account.uid,
        "sub": account.user_name,
    }


def unverified_payload(token: bytes) -> bytes | None:
    """The payload of a text that looks like a signed token. Nothing of it may be trusted."""
    match = _COMPACT.fullmatch(token)
    return None if match is None else _decoded(match[2])


def unverified_key(token: bytes) -> str:
    """The ID of the key that a token claims to be signed with; empty where it names none. Nothing of it may be trusted."""
    match = _COMPACT.fullmatch(token)
    header = None if match is None else _decoded(match[1])
    try:
        found = orjson.loads(header or b"")
    except ValueError:
        return ""
    key = found.get("kid") if isinstance(found, dict) else None
    return key if isinstance(key, str) else ""


def _decoded(part: bytes) -> bytes | None:
    try:
        return base64.b64decode(part + b"=" * (-len(part) % 4), altchars=b"-_", validate=True)
    except ValueError:
        return None


def unverified_cluster(payload: bytes, issuers: Issuers) -> Name | None:
    """The cluster whose token it would be; None where it is not of one of our issuers. Nothing was verified."""
    try:
        claims = orjson.loads(payload)
    except ValueError:
        return None
    if not isinstance(claims, dict):
        return None
    issuer = claims.get("iss")
    if issuer == LEGACY_ISSUER:
        return issuers.single or _cluster(claims.get(f"{_LEGACY}clusterName"))
    return issuers.cluster_of(issuer)


def read_claims(payload: bytes, issuers: Issuers) -> TokenClaims | None:
    """The claims of a verified payload; None where one is missing, is repeated, has the wrong type, or contradicts another one."""
    try:
        claims = json.loads(payload, object_pairs_hook=_unique, parse_constant=_refuse)
    except (ValueError, RecursionError):
        return None
    if not isinstance(claims, dict):
        return None
    try:
        found = _legacy(claims, issuers) if claims.get("iss") == LEGACY_ISSUER else _bound(claims, issuers)
    except (KeyError, TypeError):
        return None
    return found if claims.get("sub") == found.account.user_name and all(found.account) else None


def _bound(claims: Mapping[str, Any], issuers: Issuers) -> TokenClaims:
    private = claims["kubernetes.io"]
    cluster = issuers.cluster_of(claims["iss"])
    if cluster is None or (issuers.single is None and private["clusterName"] != cluster):
        raise KeyError("clusterName")
    account = private["serviceaccount"]
    audiences = claims["aud"]
    return TokenClaims(
        Account(cluster, _text(private["namespace"]), _text(account["name"]), _text(account["uid"])),
        claims["iss"],
        [audiences] if isinstance(audiences, str) else [_text(audience) for audience in _list(audiences)],
        _number(claims["exp"]),
        _number(claims.get("nbf", 0)),
        _text(claims.get("jti", "")),
        **{kind: Reference(_text(private[kind]["name"]), _text(private[kind].get("uid", ""))) for kind in _BOUND if kind in private},
    )


def _legacy(claims: Mapping[str, Any], issuers: Issuers) -> TokenClaims:
    def claim(name: str) -> str:
        return _text(claims[f"{_LEGACY}{name}"])

    cluster = issuers.single or _cluster(claims[f"{_LEGACY}clusterName"])
    if cluster is None:
        raise KeyError("clusterName")
    account = Account(cluster, claim("namespace"), claim("service-account.name"), claim("service-account.uid"))
    return TokenClaims(account, LEGACY_ISSUER, secret=Reference(claim("secret.name"), ""))


def _cluster(name: object) -> Name | None:
    if not isinstance(name, str):
        return None
    try:
        return parse_name(name)
    except InvalidClusterError:
        return None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError
    return value


def _list(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise TypeError
    return value


def _number(value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError
    return float(value)


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Raises ValueError for a member that is repeated: readers would differ about its value."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("repeated member")
    return found


def _refuse(constant: str) -> Any:
    raise ValueError(constant)
