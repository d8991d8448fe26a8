"""`ServiceAccountTokens`: verifies tokens of service accounts, wherever in the server they are used.

A token is verified once, by its signature, and its claims are kept by its hash. Its dates, its audiences, its account and the object to
which it is bound are checked at each use, in the cluster that issued it.

Source: kubernetes `pkg/serviceaccount/{jwt,claims,legacy}.go`. The names of service accounts in other clusters are kcp's
(`pkg/authorization/workspace_content_authorizer.go`).
"""

from __future__ import annotations

import hmac
from collections.abc import Callable, Mapping
from hashlib import sha256
from types import MappingProxyType
from typing import Final, NamedTuple, Protocol

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import service_unavailable
from kcp_py.authn.certificate import CREDENTIAL_ID
from kcp_py.authn.serviceaccount import claims as tokenclaims
from kcp_py.authn.serviceaccount.claims import Issuers, TokenClaims
from kcp_py.authn.serviceaccount.facts import Fact, ObjectFacts, Place
from kcp_py.authn.serviceaccount.keyring import Keyring
from kcp_py.authn.serviceaccount.legacyuses import LegacyTokenUses, TokenSecret
from kcp_py.authn.tokens import MAX_TOKEN_BYTES, Audiences, AuthenticatedToken
from kcp_py.logicalcluster import ClusterSelection, Name
from kcp_py.registry.clusterstate import ClusterState, StaleStateError
from kcp_py.registry.store.access import translate
from kcp_py.request.user import ALL_AUTHENTICATED, CLUSTER_NAME_EXTRA, UserInfo, foreign_service_account, service_account_groups
from kcp_py.storage.contract import StorageError
from kcp_py.storage.keys import InvalidSegmentError

LEEWAY: Final = 60.0
"""Seconds by which clocks may differ, and for which an object that is being deleted still counts."""

_KEPT_BYTES: Final = 8 * 1024 * 1024
_ENTRY_BYTES: Final = 2048
"""What a verified token takes, at least. So the number of tokens is bounded, too."""
_ATTEMPTS: Final = 8
_EXTRA: Final = "authentication.kubernetes.io/"


class States(Protocol):
    """The logical clusters: `tenancy.LogicalClusters`."""

    def cached(self, cluster: Name) -> ClusterState | None:
        """The state of a cluster, if it is at hand."""
        ...

    async def state(self, cluster: Name) -> ClusterState | None:
        """The state of an existing cluster."""
        ...

    def invalidate(self, cluster: Name) -> None:
        """Forget a cluster's state."""
        ...


class _Verified(NamedTuple):
    """A token with a valid signature."""

    claims: TokenClaims
    user: UserInfo
    """In the cluster of the token."""
    foreign: UserInfo
    """In other clusters."""
    places: Mapping[str, Place]
    """Where the facts about its account and the object to which it is bound are kept, by `account`, `secret`, `pod` and `node`."""
    digest: bytes
    """SHA-256 of the token."""
    generation: object
    """Of the keys when the signature was verified."""
    size: int


class ServiceAccountTokens:
    """A `TokenAuthenticator` of the tokens that this server, and others of its store, have issued."""

    def __init__(
        self,
        keyring: Keyring,
        issuers: Issuers,
        facts: ObjectFacts,
        *,
        audiences: Audiences,
        uses: LegacyTokenUses,
        now: Callable[[], float],
    ) -> None:
        """Prepare.

        Args:
            keyring: the keys.
            issuers: of the clusters.
            facts: about accounts and the objects to which tokens are bound.
            audiences: of this server, for tokens that name none.
            uses: hears of each use of the token of a secret.
            now: the present in unix seconds.
        """
        self._keyring = keyring
        self._issuers = issuers
        self._facts = facts
        self._audiences = audiences
        self._now = now
        self._states: States | None = None
        self._uses = uses
        self._verified: LRU[bytes, _Verified] = LRU(_KEPT_BYTES, weigh=lambda verified: verified.size)

    def connect(self, states: States) -> None:
        """Say where the states of clusters come from."""
        self._states = states

    def cluster_of(self, token: bytes) -> Name | None:
        """The cluster that a token claims to be of; None for tokens of others. Nothing is verified unless the token was used before."""
        if len(token) > MAX_TOKEN_BYTES:
            return None
        verified = self._verified.get(sha256(token).digest())
        if verified is not None:
            return verified.claims.account.cluster
        payload = tokenclaims.unverified_payload(token)
        return None if payload is None else tokenclaims.unverified_cluster(payload, self._issuers)

    async def authenticate_token(self, token: bytes, cluster: ClusterSelection, audiences: Audiences) -> AuthenticatedToken | None:
        """See `TokenAuthenticator`.

        Raises:
            StatusError: 500 and above where the store cannot be read.
        """
        digest = sha256(token).digest()
        verified = self._verified.get(digest)
        if verified is None or verified.generation is not self._keyring.generation:
            verified = self._verify(token, digest)
            if verified is None:
                return None
            self._verified.set(digest, verified)
        claims = verified.claims
        now = self._now()
        if now - LEEWAY > claims.expires or now + LEEWAY < claims.not_before:
            return None
        given = claims.audiences or self._audiences
        shared = audiences if given == audiences else tuple(audience for audience in given if audience in audiences)
        if not shared:
            return None
        own = claims.account.cluster
        try:
            if not await self._exists(verified, now, elsewhere=own != cluster):
                return None
        except StorageError as error:
            raise translate(error) from error
        return AuthenticatedToken(verified.user if own == cluster else verified.foreign, shared)

    def _verify(self, token: bytes, digest: bytes) -> _Verified | None:
        """The token if it is of one of our issuers, and one of our keys has signed it."""
        if len(token) > MAX_TOKEN_BYTES:
            return None
        payload = tokenclaims.unverified_payload(token)
        if payload is None or tokenclaims.unverified_cluster(payload, self._issuers) is None:
            return None
        generation = self._keyring.generation
        key = self._keyring.verifying().get(tokenclaims.unverified_key(token))
        signed = key.verify(token) if key is not None else None
        claims = tokenclaims.read_claims(signed, self._issuers) if signed is not None else None
        if claims is None:
            return None
        try:
            places = self._places(claims)
        except InvalidSegmentError:
            return None
        size = _ENTRY_BYTES + 2 * len(token)
        return _Verified(claims, _user(claims), _foreign_user(claims), places, digest, generation, size)

    def _places(self, claims: TokenClaims) -> Mapping[str, Place]:
        account, place = claims.account, self._facts.place
        cluster, namespace = account.cluster, account.namespace
        found = {"account": place(cluster, "serviceaccounts", namespace, account.name)}
        if claims.secret is not None:
            found["secret"] = place(cluster, "secrets", namespace, claims.secret.name)
        elif claims.pod is not None:
            # The node of a pod is told, and not checked.
            found["pod"] = place(cluster, "pods", namespace, claims.pod.name)
        elif claims.node is not None:
            found["node"] = place(cluster, "nodes", "", claims.node.name)
        return found

    async def _exists(self, verified: _Verified, now: float, *, elsewhere: bool) -> bool:
        """Whether the cluster, the account and the bound object are those of the token."""
        account, states = verified.claims.account, self._states
        assert states is not None, "connected while the server starts"
        for _ in range(_ATTEMPTS):
            state = states.cached(account.cluster) or await states.state(account.cluster)
            # A cluster without an object has no accounts. One that is switched off has no say in others.
            if state is None or not state.created_revision or state.delete_after or (elsewhere and state.inactive):
                return False
            try:
                return await self._holds(state, verified, now)
            except StaleStateError:
                states.invalidate(account.cluster)
        raise service_unavailable("the logical cluster is changing, please try again", retry_after_seconds=1)

    async def _holds(self, state: ClusterState, verified: _Verified, now: float) -> bool:
        facts, claims, places = self._facts, verified.claims, verified.places
        place = places["account"]
        found = facts.cached(state, place) or await facts.account(state, place)
        if claims.issuer == tokenclaims.LEGACY_ISSUER:
            return found.uid == claims.account.uid and not found.deleted_at and await self._is_of_secret(state, verified, found)
        if not _is_alive(found, claims.account.uid, now - LEEWAY):
            return False
        if claims.secret is not None:
            place = places["secret"]
            return _is_alive(facts.cached(state, place) or await facts.stored(state, place), claims.secret.uid, now - LEEWAY)
        if claims.pod is not None:
            return _is_alive(await facts.either(state, "pods", places["pod"]), claims.pod.uid, now - LEEWAY)
        if claims.node is not None:
            return _is_alive(await facts.either(state, "nodes", places["node"]), claims.node.uid, now - LEEWAY)
        return True

    async def _is_of_secret(self, state: ClusterState, verified: _Verified, account: Fact) -> bool:
        """Whether the secret of a legacy token holds this token, is not being deleted, and is not marked as invalid."""
        place = verified.places["secret"]
        fact = self._facts.cached(state, place) or await self._facts.stored(state, place)
        if not fact.uid or fact.deleted_at or not hmac.compare_digest(fact.token_hash, verified.digest):
            return False
        secret = TokenSecret(state.name, place.namespace, place.name, fact.uid)
        self._uses.used(secret, fact.last_used, generated=place.name in account.secrets, invalid=fact.invalid)
        return not fact.invalid


def _is_alive(fact: Fact, uid: str, deleted_since: float) -> bool:
    """Whether an object exists with a uid, and was not deleted before a time."""
    return bool(fact.uid) and fact.uid == uid and not (fact.deleted_at and fact.deleted_at < deleted_since)


def _user(claims: TokenClaims) -> UserInfo:
    account = claims.account
    extra = {CLUSTER_NAME_EXTRA: (account.cluster,), **_credential(claims)}
    for kind, reference in (("pod", claims.pod), ("node", claims.node)):
        if reference is not None:
            extra[f"{_EXTRA}{kind}-name"] = (reference.name,)
            if reference.uid:
                extra[f"{_EXTRA}{kind}-uid"] = (reference.uid,)
    groups = (*service_account_groups(account.namespace), ALL_AUTHENTICATED)
    return UserInfo(account.user_name, account.uid, groups, MappingProxyType(extra))


def _foreign_user(claims: TokenClaims) -> UserInfo:
    account = claims.account
    name = foreign_service_account(account.cluster, account.namespace, account.name)
    extra = {CLUSTER_NAME_EXTRA: (account.cluster,), **_credential(claims)}
    return UserInfo(name, account.uid, (ALL_AUTHENTICATED,), MappingProxyType(extra))


def _credential(claims: TokenClaims) -> dict[str, tuple[str, ...]]:
    return {CREDENTIAL_ID: (f"JTI={claims.token_id}",)} if claims.token_id else {}
