"""`build_service_accounts`: the keys, the issuer and the authenticator of service account tokens, from the options."""

from __future__ import annotations

from typing import Final, NamedTuple

from kcp_py.aio.clock import Clock
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apis.core.tokensecrets import LAST_USED
from kcp_py.authn.serviceaccount.authenticator import ServiceAccountTokens
from kcp_py.authn.serviceaccount.claims import Account, Issuers
from kcp_py.authn.serviceaccount.facts import ObjectFacts
from kcp_py.authn.serviceaccount.issuer import TokenIssuer
from kcp_py.authn.serviceaccount.keyfiles import load_keys
from kcp_py.authn.serviceaccount.keyring import Keyring, Settings
from kcp_py.authn.serviceaccount.legacyuses import LegacyTokenUses, TokenSecret
from kcp_py.authn.serviceaccount.openid import OpenIDDocuments
from kcp_py.authn.serviceaccount.tokenrequest import Limits, TokenRequests
from kcp_py.authn.tokens import Audiences
from kcp_py.client import Client
from kcp_py.logicalcluster import ROOT, Name
from kcp_py.options import Options
from kcp_py.registry.catalog.tables import ResourceTables
from kcp_py.registry.store import Access
from kcp_py.storage.keys import internal_key
from kcp_py.tenancy import LogicalClusters
from kcp_py.watchcache import Fanout

_SECRETS: Final = GroupVersionResource("", "v1", "secrets")


class ServiceAccounts(NamedTuple):
    """What issues and verifies the tokens of service accounts."""

    keyring: Keyring
    issuers: Issuers
    issuer: TokenIssuer
    facts: ObjectFacts
    tokens: ServiceAccountTokens
    requests: TokenRequests
    documents: OpenIDDocuments
    uses: LegacyTokenUses
    audiences: Audiences
    """Of the server."""

    async def sign_secret(self, cluster: Name, namespace: str, name: str, uid: str, secret: str) -> str:
        """The token of a service account for a secret: see `admission.tokensecrets.Sign`."""
        return await self.issuer.legacy_token(Account(cluster, namespace, name, uid), secret)

    async def record_uses(self, client: Client) -> None:
        """Label secrets whose tokens are used, until cancelled. `client` writes as the server itself."""

        async def label(secret: TokenSecret, day: str) -> None:
            document = {"metadata": {"uid": secret.uid, "labels": {LAST_USED: day}}}
            await client.patch(secret.cluster, _SECRETS, secret.namespace, secret.name, document=document, field_manager="kube-apiserver")

        await self.uses.run(label)

    def connect(self, tables: ResourceTables, clusters: LogicalClusters) -> None:
        """Say what the clusters are and serve."""
        accounts = tables.builtin("", "v1", "serviceaccounts")
        assert accounts is not None, "every cluster serves service accounts"
        self.facts.connect(accounts)
        self.requests.connect(tables)
        self.tokens.connect(clusters)


def build_service_accounts(access: Access, fanout: Fanout, options: Options, clock: Clock) -> ServiceAccounts:
    """Put the parts together. The keys are read by `Keyring.start`.

    Args:
        access: the store.
        fanout: the changes of the store.
        options: the settings.
        clock: when tokens and keys end.

    Raises:
        OSError: a file with keys cannot be read.
        KeyFileError: a file holds no usable key.
    """
    bases = options.service_account_issuer or (options.external_url(options.secure_port),)
    audiences = options.api_audiences or bases
    key = internal_key(options.etcd_prefix, "service-account-keys")
    given = load_keys(options.service_account_signing_key_file, options.service_account_key_file)
    settings = Settings(options.service_account_signing_algorithm, options.service_account_key_max_age)
    keyring = Keyring(access.storage, key, clock, settings=settings, given=given)
    fanout.listen_internal(key, keyring.changed)
    fanout.listen_gaps(keyring.missed)
    issuers = Issuers(bases, single=ROOT if options.single_cluster else None)
    issuer = TokenIssuer(keyring, issuers)
    facts = ObjectFacts(access, fanout, options.etcd_prefix)
    uses = LegacyTokenUses(access.clock)
    tokens = ServiceAccountTokens(keyring, issuers, facts, audiences=audiences, uses=uses, now=access.clock)
    limits = Limits(int(options.service_account_max_token_expiration), options.service_account_extend_token_expiration)
    requests = TokenRequests(access, issuer, audiences=audiences, limits=limits)
    return ServiceAccounts(keyring, issuers, issuer, facts, tokens, requests, OpenIDDocuments(keyring, issuers), uses, audiences)
