"""What verifies the tokens of others: the issuers and the webhook that options and clusters name, with what keeps them up to date."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Final

from kcp_py.aio.clock import Clock
from kcp_py.aio.settledfile import SettledFile
from kcp_py.aio.supervisor import Supervisor
from kcp_py.authn.oidc.clusters import ClusterIssuers
from kcp_py.authn.oidc.operator import PROVIDER_SECONDS, RELOADS, OperatorIssuers
from kcp_py.authn.tokens import Audiences
from kcp_py.egress import ANY_NETWORK, Caller, Networks
from kcp_py.kubeconfig.webhook import open_webhook
from kcp_py.options import Options
from kcp_py.registry.store import Access
from kcp_py.telemetry.gauges import Gauges
from kcp_py.watchcache import Fanout

if TYPE_CHECKING:
    from kcp_py.authn.webhook.authenticator import WebhookTokens

_FILE_POLL_SECONDS: Final = 3.0


def start_operator_issuers(
    options: Options, stack: AsyncExitStack, supervisor: Supervisor, gauges: Gauges, *, clock: Clock
) -> OperatorIssuers:
    """Read the configuration of issuers, and follow its file.

    Args:
        options: name the issuers or the file.
        stack: closes connections and ends fetches.
        supervisor: runs the task that reads the file again.
        gauges: receive the number of reloads.
        clock: when tokens and keys end.

    Raises:
        OSError: a file cannot be read.
        AuthenticationError: the configuration is invalid.
    """
    # The operator chose these providers. The networks that tenants may name do not apply to them.
    caller = Caller(ANY_NETWORK, timeout=PROVIDER_SECONDS)
    stack.push_async_callback(caller.aclose)
    issuers = OperatorIssuers(options, caller, clock=clock)
    stack.callback(issuers.close)

    async def follow(file: SettledFile) -> None:
        while True:
            if await asyncio.to_thread(file.look):
                await issuers.reload_if_changed()
            await asyncio.sleep(_FILE_POLL_SECONDS)

    if options.authentication_config is not None:
        file = SettledFile(options.authentication_config)
        gauges.add(RELOADS, "Reloads of the file of --authentication-config.", lambda: issuers.reloads, kind="counter", labels=("status",))
        supervisor.start("authentication configuration", lambda: follow(file))
    return issuers


def create_cluster_issuers(access: Access, fanout: Fanout, options: Options, stack: AsyncExitStack, *, clock: Clock) -> ClusterIssuers:
    """Follow the objects that name the issuers of single clusters. Their keys are fetched in the networks that tenants may name."""
    caller = Caller(Networks(options.webhook_networks), timeout=PROVIDER_SECONDS)
    stack.push_async_callback(caller.aclose)
    issuers = ClusterIssuers(access, fanout, options.etcd_prefix, caller, clock=clock)
    stack.callback(issuers.close)
    return issuers


def open_webhook_tokens(options: Options, audiences: Audiences, stack: AsyncExitStack, *, clock: Clock) -> WebhookTokens | None:
    """What asks the operator's webhook about tokens; None without one.

    Raises:
        KubeconfigError: the kubeconfig of the webhook cannot be used.
    """
    file = options.authentication_token_webhook_config_file
    if file is None:
        return None
    from kcp_py.authn.webhook.authenticator import CALL_SECONDS, WebhookTokens  # noqa: PLC0415 - most servers have no webhook

    tokens = WebhookTokens(
        open_webhook(str(file), CALL_SECONDS),
        options.authentication_token_webhook_version,
        audiences=audiences,
        kept_seconds=options.authentication_token_webhook_cache_ttl,
        clock=clock.monotonic,
    )
    stack.push_async_callback(tokens.aclose)
    return tokens
