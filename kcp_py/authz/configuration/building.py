"""`AuthorizerFactory`: makes the authorizers of a configuration."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final

from kcp_py.authz.authorizer import Authorizer, ConfiguredAuthorizer
from kcp_py.authz.configuration.document import AuthorizerConfiguration, ConfigurationError, WebhookConfiguration
from kcp_py.authz.configuration.validation import KUBECONFIG
from kcp_py.authz.static import AlwaysAllow, AlwaysDeny
from kcp_py.authz.webhook.metrics import WebhookMetrics
from kcp_py.golang import durations
from kcp_py.kubeconfig import KubeconfigError
from kcp_py.kubeconfig.webhook import open_webhook
from kcp_py.options import Options

_DEFAULT_WEBHOOK: Final = "default"
_DEFAULT_TIMEOUT: Final = 30 * durations.SECOND


class AuthorizerFactory:
    """Makes authorizers. Those of the type RBAC are one and the same."""

    def __init__(self, rbac: Authorizer, metrics: WebhookMetrics, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare.

        Args:
            rbac: decides by roles and bindings.
            metrics: counts the calls of all webhooks.
            clock: seconds that do not go back, for the answers of webhooks that are kept.
        """
        self._rbac = rbac
        self._metrics = metrics
        self._clock = clock

    def build(self, authorizers: Iterable[AuthorizerConfiguration]) -> list[ConfiguredAuthorizer]:
        """The authorizers of a checked configuration, in order. It reads kubeconfigs, and may run in any thread.

        Raises:
            ConfigurationError: a kubeconfig cannot be used.
        """
        return [ConfiguredAuthorizer(self._authorizer(one), one.type, one.name) for one in authorizers]

    def _authorizer(self, one: AuthorizerConfiguration) -> Authorizer:
        match one.type:
            case "RBAC":
                return self._rbac
            case "AlwaysAllow":
                return AlwaysAllow()
            case "AlwaysDeny":
                return AlwaysDeny()
        assert one.webhook is not None
        return self._webhook(one.name, one.webhook)

    def _webhook(self, name: str, given: WebhookConfiguration) -> Authorizer:
        # Most servers have no webhooks, and CEL is large.
        from kcp_py.authz.webhook.authorizer import WebhookAuthorizer, WebhookSettings  # noqa: PLC0415
        from kcp_py.authz.webhook.conditions import compile_conditions  # noqa: PLC0415

        conditions, _ = compile_conditions(given.match_conditions, "")
        settings = WebhookSettings(
            name,
            given.subject_access_review_version,
            given.authorized_ttl / durations.SECOND if given.cache_authorized_requests else 0,
            given.unauthorized_ttl / durations.SECOND if given.cache_unauthorized_requests else 0,
            given.failure_policy == "Deny",
            conditions,
        )
        try:
            webhook = open_webhook(given.kube_config_file, given.timeout / durations.SECOND)
        except KubeconfigError as error:
            raise ConfigurationError(str(error)) from None
        return WebhookAuthorizer(webhook, settings, metrics=self._metrics, clock=self._clock)


async def close(authorizers: Sequence[ConfiguredAuthorizer]) -> None:
    """Close the connections of webhooks that are not asked any more."""
    for member in authorizers:
        aclose = getattr(member.authorizer, "aclose", None)
        if aclose is not None:
            await aclose()


def configuration_of(options: Options) -> tuple[AuthorizerConfiguration, ...]:
    """The authorizers that `--authorization-mode` and `--authorization-webhook-*` ask for (kubernetes `kubeapiserver/options`)."""
    return tuple(
        AuthorizerConfiguration("Webhook", _DEFAULT_WEBHOOK, _webhook_of(options))
        if mode == "Webhook"
        else AuthorizerConfiguration(mode, mode.lower())
        for mode in options.authorization_mode
    )


def _webhook_of(options: Options) -> WebhookConfiguration:
    authorized, unauthorized = options.authorization_webhook_cache_authorized_ttl, options.authorization_webhook_cache_unauthorized_ttl
    file = options.authorization_webhook_config_file
    return WebhookConfiguration(
        authorized_ttl=int(authorized * durations.SECOND),
        cache_authorized_requests=authorized != 0,
        unauthorized_ttl=int(unauthorized * durations.SECOND),
        cache_unauthorized_requests=unauthorized != 0,
        timeout=_DEFAULT_TIMEOUT,
        subject_access_review_version=options.authorization_webhook_version,
        failure_policy="NoOpinion",
        connection_type=KUBECONFIG,
        kube_config_file=None if file is None else str(Path(file)),
    )
