"""`AggregatedServer`: a control plane whose callers, permissions and namespaces are those of another API server."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Final, Self

import structlog

from kcp_py.aggregated import clientauthentication, namespaces
from kcp_py.aggregated.authorization import RESOURCE as ACCESS_REVIEWS
from kcp_py.aggregated.authorization import DelegatedAuthorizer
from kcp_py.aggregated.clientauthentication import ClientAuthentication, first_published
from kcp_py.aggregated.delegate import Delegate, context_of, reviews_of
from kcp_py.aggregated.registration import group_versions, inject_ca_bundle
from kcp_py.aggregated.settings import Delegation, aggregated_options
from kcp_py.aio.supervisor import Supervisor
from kcp_py.apimachinery.errors import StatusError
from kcp_py.authn.tokens import BearerTokens
from kcp_py.authn.vouched import user_of_the_only
from kcp_py.authn.webhook.authenticator import WebhookTokens
from kcp_py.controlplane import ControlPlane
from kcp_py.serving.embedding import serve

_TOKEN_REVIEWS: Final = "authentication.k8s.io/v1/tokenreviews"  # noqa: S105 - a resource
_TRIES: Final = 10
_PAUSE_SECONDS: Final = 1.0
"""Between tries to read the ConfigMap: a server that has just been started may not answer yet."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.aggregated")


class AggregatedServer:
    """A control plane behind the aggregator of kube-apiserver: an asynchronous context manager, which enters the control plane, too.

    ::

        async with AggregatedServer(ControlPlane(options, apis=[foos]), Delegation(kubeconfig="admin.kubeconfig")) as server:
            await serve(server.control_plane)

    Attributes:
        control_plane: as it was given, with other settings (`aggregated_options`).
    """

    def __init__(
        self,
        control_plane: ControlPlane,
        delegation: Delegation | None = None,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Prepare.

        Args:
            control_plane: not entered yet.
            delegation: the other API server, and for how long its answers count; None for that of the pod.
            sleep: waits between tries; replaced in tests.
        """
        self.control_plane = control_plane
        self._delegation = delegation if delegation is not None else Delegation()
        self._sleep = sleep
        self._stack = AsyncExitStack()

    async def __aenter__(self) -> Self:
        """Ask the other server how to know its requests, then start.

        Raises:
            KubeconfigError: a kubeconfig cannot be used.
            StatusError: the ConfigMap of the other server cannot be read, unless that is tolerated.
            OSError: an authority cannot be written.
        """
        async with AsyncExitStack() as stack:
            await self._start(stack)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def _start(self, stack: AsyncExitStack) -> None:
        delegation, control_plane = self._delegation, self.control_plane
        given = control_plane.options
        lookup = not delegation.authentication_skip_lookup
        options = aggregated_options(given, lookup=lookup)
        control_plane.configure(options)
        context = context_of(delegation.authentication_kubeconfig or delegation.kubeconfig)
        delegate = Delegate(context)
        stack.push_async_callback(delegate.aclose)
        proxies = ClientAuthentication(
            options,
            client_ca=options.client_ca_file if lookup and given.client_ca_file is None else None,
            proxy_ca=options.requestheader_client_ca_file if lookup and given.requestheader_client_ca_file is None else None,
        )
        proxies.prepare_files()
        if lookup:
            await self._look_up(delegate, proxies)
        tokens = WebhookTokens(
            reviews_of(context, _TOKEN_REVIEWS),
            "v1",
            audiences=(),
            kept_seconds=delegation.token_cache_seconds,
            place=user_of_the_only,
            names_cluster=False,
        )
        stack.push_async_callback(tokens.aclose)
        reviews = reviews_of(context_of(delegation.authorization_kubeconfig or delegation.kubeconfig), ACCESS_REVIEWS)
        authorizer = DelegatedAuthorizer(reviews, delegation)
        stack.push_async_callback(authorizer.aclose)
        lifecycle = namespaces.DelegatedNamespaces(delegate.get)
        control_plane.extend(authenticators=[proxies, BearerTokens(tokens, ())], authorizers=[authorizer], admission=[lifecycle])
        await stack.enter_async_context(control_plane)
        supervisor = await stack.enter_async_context(Supervisor(_report))
        supervisor.start("namespaces", lambda: delegate.follow(namespaces.PATH, replace=lifecycle.replace, change=lifecycle.change))
        if lookup:
            supervisor.start("client authentication", lambda: _follow_published(delegate, proxies))
        if delegation.inject_ca_bundle:
            versions = group_versions(control_plane.apis)
            supervisor.start("ca bundle", lambda: inject_ca_bundle(delegate, versions, options.trust_file, sleep=self._sleep))

    async def _look_up(self, delegate: Delegate, proxies: ClientAuthentication) -> None:
        for left in range(_TRIES - 1, -1, -1):
            try:
                await first_published(delegate.get, proxies)
            except StatusError as error:
                tolerated = self._delegation.authentication_tolerate_lookup_failure
                if not tolerated and (not left or error.code in {401, 403}):
                    raise
                _log.warning("client_authentication_not_found", error=error.message)
                if tolerated:
                    return
                await self._sleep(_PAUSE_SECONDS)
            else:
                return


async def _follow_published(delegate: Delegate, proxies: ClientAuthentication) -> None:
    await delegate.follow(
        clientauthentication.PATH,
        replace=lambda found: proxies.publish(found[0] if found else None),
        change=lambda kind, found: proxies.publish(None if kind == "DELETED" else found),
        fieldSelector=f"metadata.name={clientauthentication.NAME}",
    )


def _report(name: str, error: BaseException, delay: float) -> None:
    _log.error("task_failed", task=name, error=str(error) or type(error).__name__, restart_seconds=delay, exc_info=error)


async def serve_aggregated(
    control_plane: ControlPlane,
    delegation: Delegation | None = None,
    *,
    on_ready: Callable[[str], None] | None = None,
    stop: asyncio.Event | None = None,
) -> None:
    """Serve a control plane as an aggregated API server, until the program is told to stop.

    Args:
        control_plane: not entered yet.
        delegation: the other API server, and for how long its answers count; None for that of the pod.
        on_ready: called with the URL when connections are accepted.
        stop: set to stop; None stops at SIGTERM and SIGINT.

    Raises:
        KubeconfigError: a kubeconfig cannot be used.
        StatusError: the other server does not say how its requests can be known.
        ListenError: the address cannot be listened on.
        CertificateError: a certificate file cannot be used.
    """
    async with AggregatedServer(control_plane, delegation) as server:
        with contextlib.suppress(asyncio.CancelledError):
            await serve(server.control_plane, on_ready=on_ready, stop=stop)
