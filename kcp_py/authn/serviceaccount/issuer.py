"""`TokenIssuer`: signs the tokens of service accounts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kcp_py.authn.serviceaccount.claims import Account, Issuers, Lifetime, Reference, bound_claims, legacy_claims
from kcp_py.authn.serviceaccount.keyring import Keyring


class TokenIssuer:
    """Signs with the key that is current. Callers check that the account exists, and who asks for its token."""

    def __init__(self, keyring: Keyring, issuers: Issuers) -> None:
        """Prepare.

        Args:
            keyring: the keys.
            issuers: of the clusters.
        """
        self._keyring = keyring
        self._issuers = issuers

    async def bound_token(
        self, account: Account, lifetime: Lifetime, audiences: Sequence[str], *, token_id: str, bound: Mapping[str, Reference]
    ) -> str:
        """A token that expires, and is valid for as long as the account and the bound objects exist.

        Args:
            account: whose token it is.
            lifetime: when it is valid.
            audiences: who it is for.
            token_id: unique.
            bound: by `secret`, `pod` and `node`.

        Raises:
            StorageError: the keys cannot be read, or not be written.
        """
        claims = bound_claims(account, lifetime, issuers=self._issuers, audiences=audiences, token_id=token_id, bound=bound)
        return await self._keyring.sign(claims, lifetime.expires)

    async def legacy_token(self, account: Account, secret: str) -> str:
        """The token for a secret of type `kubernetes.io/service-account-token`. It is valid for as long as the secret holds it.

        Raises:
            StorageError: the keys cannot be read, or not be written.
        """
        return await self._keyring.sign(legacy_claims(account, secret, issuers=self._issuers))
