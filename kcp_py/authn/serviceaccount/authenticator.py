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
from kcp_py.authn.serviceaccount import refusals
from kcp_py.authn.serviceaccount.claims import Issuers, TokenClaims
from kcp_py.authn.serviceaccount.facts import Fact, ObjectFacts, Place
from kcp_py.authn.serviceaccount.keyring import Keyring
from kcp_py.authn.serviceaccount.legacyuses import LegacyTokenUses, TokenSecret
from kcp_py.authn.serviceaccount.refusals import account_problem, bound_problem
from kcp_py.authn.tokens import MAX_TOKEN_BYTES, Audiences, AuthenticatedToken, TokenRefusedError
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
            TokenRefusedError: the token is one of this cluster, and not valid.
            StatusError: 500 and above where the store cannot be read.
        """
        digest = sha256(token).digest()
        verified = self._verified.get(digest)
        if verified is None or verified.generation is not self._keyring.generation:
            verified = await self._verify(token, digest, cluster)
            if verified is None:
                return None
            self._verified.set(digest, verified)
        claims = verified.claims
        own = claims.account.cluster
        given = claims.audiences or self._audiences
        shared = audiences if given == audiences else tuple(audience for audience in given if audience in audiences)
        now = self._now()
        if not shared:
            problem = refusals.other_audiences(given, audiences)
        elif now - LEEWAY > claims.expires:
            problem = refusals.EXPIRED
        elif now + LEEWAY < claims.not_before:
            problem = refusals.NOT_YET_VALID
        else:
            try:
                problem = await self._problem(verified, now, elsewhere=own != cluster)
            except StorageError as error:
                raise translate(error) from error
        if problem:
            if own == cluster:
                raise TokenRefusedError(problem)
            # Other clusters do not see why: that would be about an account of this one.
            return None
        return AuthenticatedToken(verified.user if own == cluster else verified.foreign, shared)

    async def _verify(self, token: bytes, digest: bytes, cluster: ClusterSelection) -> _Verified | None:
        """The token if it is of one of our issuers, and one of our keys has signed it.

        Raises:
            TokenRefusedError: it says that it is of this cluster, and none of our keys has signed it.
        """
        if len(token) > MAX_TOKEN_BYTES:
            return None
        payload = tokenclaims.unverified_payload(token)
        claimed = None if payload is None else tokenclaims.unverified_cluster(payload, self._issuers)
        if claimed is None:
            return None
        keys = await self._keyring.verifying()
        generation = self._keyring.generation
        key = keys.get(tokenclaims.unverified_key(token))
        signed = key.verify(token) if key is not None else None
        if signed is None:
            if claimed == cluster:
                raise TokenRefusedError(refusals.UNKNOWN_KEY if key is None else refusals.WRONG_SIGNATURE)
            return None
        claims = tokenclaims.read_claims(signed, self._issuers)
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

    async def _problem(self, verified: _Verified, now: float, *, elsewhere: bool) -> str:
        """Why the cluster, the account or the bound object are not those of the token; empty if they are."""
        account, states = verified.claims.account, self._states
        assert states is not None, "connected while the server starts"
        for _ in range(_ATTEMPTS):
            state = states.cached(account.cluster) or await states.state(account.cluster)
            # A cluster without an object has no accounts. One that is switched off has no say in others.
            if state is None or not state.created_revision or state.delete_after or (elsewhere and state.inactive):
                return refusals.INVALIDATED
            try:
                return await self._problem_in(state, verified, now)
            except StaleStateError:
                states.invalidate(account.cluster)
        raise service_unavailable("the logical cluster is changing, please try again", retry_after_seconds=1)

    async def _problem_in(self, state: ClusterState, verified: _Verified, now: float) -> str:
        facts, claims, places = self._facts, verified.claims, verified.places
        place = places["account"]
        found = facts.cached(state, place) or await facts.account(state, place)
        if claims.issuer == tokenclaims.LEGACY_ISSUER:
            return await self._legacy_problem(state, verified, found)
        since = now - LEEWAY
        if problem := account_problem(found, claims.account, since):
            return problem
        if claims.secret is not None:
            place = places["secret"]
            fact = facts.cached(state, place) or await facts.stored(state, place)
            return bound_problem("secret", fact, claims.secret.uid, since)
        if claims.pod is not None:
            return bound_problem("pod", await facts.either(state, "pods", places["pod"]), claims.pod.uid, since)
        if claims.node is not None:
            return bound_problem("node", await facts.either(state, "nodes", places["node"]), claims.node.uid, since)
        return ""

    async def _legacy_problem(self, state: ClusterState, verified: _Verified, account: Fact) -> str:
        """Why the secret of a legacy token does not make it valid: it does not hold this token, is being deleted, or is marked."""
        place = verified.places["secret"]
        fact = self._facts.cached(state, place) or await self._facts.stored(state, place)
        if not fact.uid or fact.deleted_at:
            return refusals.LEGACY_INVALIDATED
        if not hmac.compare_digest(fact.token_hash, verified.digest):
            return refusals.LEGACY_MISMATCH
        if problem := refusals.legacy_account_problem(account, verified.claims.account):
            return problem
        secret = TokenSecret(state.name, place.namespace, place.name, fact.uid)
        self._uses.used(secret, fact.last_used, generated=place.name in account.secrets, invalid=fact.invalid)
        return refusals.marked_invalid(verified.claims.account, place.name) if fact.invalid else ""


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
