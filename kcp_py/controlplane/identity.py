"""`build_identity`: who callers are and what they may do, from the options and from the arguments of a library user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import NamedTuple

from kcp_py.aio.clock import Clock
from kcp_py.aio.supervisor import Supervisor
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.authentication import install as authentication
from kcp_py.apis.authorization import install as authorization
from kcp_py.apis.core import install as core
from kcp_py.authn.anonymous import AnonymousAccess
from kcp_py.authn.authenticator import Authenticator, AuthenticatorUnion
from kcp_py.authn.certificate import ClientCertificates, ClusterUid
from kcp_py.authn.oidc.clusters import ClusterIssuers
from kcp_py.authn.oidc.operator import OperatorIssuers
from kcp_py.authn.requestheader import ProxyHeaders, RequestHeaders
from kcp_py.authn.reviews import SelfSubjectReviews, TokenReviews
from kcp_py.authn.tokenfile import StaticTokens, TokenFiles
from kcp_py.authn.tokens import AudienceAgnosticTokens, BearerTokens, HeaderTokens, TokenAuthenticator, TokenUnion
from kcp_py.authz.authorizer import Authorizer, AuthorizerUnion
from kcp_py.authz.configuration.building import AuthorizerFactory
from kcp_py.authz.configuration.reloading import ConfiguredAuthorization
from kcp_py.authz.grants.authorizer import GrantAuthorizer
from kcp_py.authz.grants.index import GrantIndex
from kcp_py.authz.grants.union import RBACWithGrants
from kcp_py.authz.rbac.authorizer import RBACAuthorizer
from kcp_py.authz.rbac.indexes import RBACIndexes
from kcp_py.authz.rbac.resolver import ConfiguredRules
from kcp_py.authz.reviews import AccessReviews, LocalAccessReviews, SelfAccessReviews, SelfRulesReviews
from kcp_py.authz.static import AlwaysAllowPaths, PrivilegedGroups, WithoutRoles
from kcp_py.authz.webhook.metrics import WebhookMetrics
from kcp_py.controlplane.batteries import Batteries
from kcp_py.controlplane.monitoring import reload_tokens
from kcp_py.controlplane.serviceaccounts import ServiceAccounts
from kcp_py.options import Options
from kcp_py.registry.rest.storage import RestStorage
from kcp_py.registry.store import Access
from kcp_py.server.longrequests import LongRequests, reads_any, reads_authorization
from kcp_py.telemetry.registry import MetricsRegistry
from kcp_py.watchcache import Fanout


class Identity(NamedTuple):
    """What identifies and authorizes callers."""

    authenticator: Authenticator
    authorizer: Authorizer
    configured: ConfiguredAuthorization
    """The authorizers of the operator's configuration, which are a part of `authorizer`."""
    webhook_metrics: WebhookMetrics
    rbac: RBACIndexes
    running: LongRequests
    """Watches, whose callers are checked again while they run."""
    anonymous: AnonymousAccess
    proxy_headers: ProxyHeaders | None
    """Headers in which front proxies name users; None where no proxy is trusted."""
    rests: Mapping[GroupResource, RestStorage]
    """What serves the reviews of users and of access, and the subresource that issues tokens."""


def build_identity(
    access: Access,
    fanout: Fanout,
    options: Options,
    *,
    authenticators: Sequence[Authenticator],
    authorizers: Sequence[Authorizer],
    tokens: StaticTokens,
    service_accounts: ServiceAccounts,
    issuers: OperatorIssuers,
    cluster_issuers: ClusterIssuers,
    webhook_tokens: TokenAuthenticator | None,
    cluster_uid: ClusterUid,
    batteries: Batteries,
    clock: Clock,
) -> Identity:
    """Put authentication and authorization together.

    Args:
        access: the store.
        fanout: the changes of the store.
        options: the settings.
        authenticators: of a library user; asked before those of the server.
        authorizers: of a library user; asked before those of the server, except the paths that every caller may read.
        tokens: the static tokens.
        service_accounts: verifies the tokens of service accounts.
        issuers: verify the tokens of the operator's OpenID Connect providers.
        cluster_issuers: verify the tokens of the providers of single clusters.
        webhook_tokens: asks the operator's webhook about tokens, if there is one.
        cluster_uid: is asked about the clusters that credentials are bound to.
        batteries: which resources are served. Without them there are no tokens of service accounts, and no roles.
        clock: when answers of webhooks that are kept end.
    """
    indexes = RBACIndexes(access, fanout, options.etcd_prefix)
    grant_index = GrantIndex(access, fanout, options.etcd_prefix)
    grants = GrantAuthorizer(grant_index)
    rbac = RBACAuthorizer(indexes, require_access=options.require_cluster_access, admits=grants.admits)
    authorizer = AuthorizerUnion(AlwaysAllowPaths(), *authorizers, PrivilegedGroups())
    webhook_metrics = WebhookMetrics()
    roles = RBACWithGrants(rbac, grants) if "rbac" in batteries else WithoutRoles()
    configured = ConfiguredAuthorization(options, authorizer, AuthorizerFactory(roles, webhook_metrics, clock=clock.monotonic))
    audiences = service_accounts.audiences
    # The cheapest first. A token of a file may have any form.
    bearers = TokenUnion(
        AudienceAgnosticTokens(tokens, audiences),
        *((service_accounts.tokens,) if "service-accounts" in batteries else ()),
        AudienceAgnosticTokens(TokenUnion(issuers, cluster_issuers), audiences),
        *(() if webhook_tokens is None else (webhook_tokens,)),
    )
    further = AudienceAgnosticTokens(HeaderTokens(AuthenticatorUnion(*authenticators)), audiences)
    rests: dict[GroupResource, RestStorage] = {
        authentication.SELF_REVIEWS: SelfSubjectReviews(access.now),
        authentication.TOKEN_REVIEWS: TokenReviews(TokenUnion(further, bearers), audiences),
        authorization.REVIEWS: AccessReviews(authorizer),
        authorization.LOCAL_REVIEWS: LocalAccessReviews(authorizer),
        authorization.SELF_REVIEWS: SelfAccessReviews(authorizer),
        authorization.RULES_REVIEWS: SelfRulesReviews(ConfiguredRules(authorizer)),
        core.TOKENS: service_accounts.requests,
    }
    proxy_headers = _proxy_headers(options)
    # An authenticator of the program may know front proxies itself. Then one that it refuses must not be accepted by another rule.
    knows_proxies = any(getattr(one, "knows_front_proxies", False) for one in authenticators)
    proxies = (
        ()
        if proxy_headers is None or knows_proxies
        else (RequestHeaders(proxy_headers, options.requestheader_allowed_names, now=access.clock),)
    )
    authenticator = AuthenticatorUnion(
        *authenticators, *proxies, ClientCertificates(cluster_uid, now=access.clock), BearerTokens(bearers, audiences)
    )
    running = LongRequests(
        authenticator,
        authorizer,
        anonymous=issuers.anonymous,
        reads_header=reads_any if authenticators else reads_authorization,
        proxy_headers=proxy_headers,
    )
    indexes.listen(running.changed)
    service_accounts.facts.listen(running.changed)
    issuers.listen(running.changed)
    cluster_issuers.listen(running.changed)
    grant_index.listen(running.changed)
    fanout.listen_gaps(running.changed)
    configured.listen(running.changed)
    return Identity(authenticator, authorizer, configured, webhook_metrics, indexes, running, issuers.anonymous, proxy_headers, rests)


def open_token_files(options: Options) -> TokenFiles:
    """The files with static tokens.

    Raises:
        OSError: the file of the operator cannot be read.
        TokenFileError: a file is invalid.
    """
    # The server's own token file exists only if the command line created it. The operator's file must exist.
    return TokenFiles([path for path in options.token_auth_files if path == options.token_auth_file or path.exists()])


def start_identity(
    identity: Identity, token_files: TokenFiles, supervisor: Supervisor, stack: AsyncExitStack, *, registry: MetricsRegistry
) -> None:
    """Follow token files and the authorization configuration, and check running watches again when permissions and credentials change."""
    supervisor.start("token files", lambda: reload_tokens(token_files, identity.running))
    supervisor.start("authorization configuration", identity.configured.follow)
    stack.push_async_callback(identity.configured.aclose)
    registry.register(identity.configured)
    registry.register(identity.webhook_metrics)
    supervisor.start("checks of watches", identity.running.sweep)
    supervisor.start("changes of permissions", identity.running.follow)


def _proxy_headers(options: Options) -> ProxyHeaders | None:
    if options.requestheader_client_ca_file is None:
        return None
    return ProxyHeaders.of(
        options.requestheader_username_headers,
        options.requestheader_uid_headers,
        options.requestheader_group_headers,
        options.requestheader_extra_headers_prefix,
    )
