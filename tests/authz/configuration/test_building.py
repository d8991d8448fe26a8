"""Authorizers of a configuration."""

from pathlib import Path
from typing import Any

import pytest

from kcp_py.authz.configuration.building import AuthorizerFactory, close, configuration_of
from kcp_py.authz.static import AlwaysDeny
from kcp_py.authz.webhook.metrics import WebhookMetrics
from kcp_py.logicalcluster import Name
from kcp_py.options import Options
from kcp_py.request.requestinfo import parse_request
from kcp_py.request.user import UserInfo
from tests.authz.webhook.conftest import ALLOW
from tests.egress.https import issue
from tests.egress.webhook import Clock, Hook

pytestmark = pytest.mark.anyio


async def test_webhooks_keep_answers_by_the_clock_of_the_factory(tmp_path: Path) -> None:
    """The webhook is asked again when the time of its answer is over by the clock of the server."""
    hook = Hook(tmp_path, issue(tmp_path, "127.0.0.1"), ALLOW, client=issue(tmp_path, "kcp-py.test"))
    async with hook.server:
        settings: dict[str, Any] = {"authorization_webhook_config_file": hook.kubeconfig(), "authorization_webhook_version": "v1"}
        options = Options(authorization_mode=("Webhook",), **settings)
        clock = Clock()
        factory = AuthorizerFactory(AlwaysDeny(), WebhookMetrics(), clock=clock)
        (found,) = factory.build(configuration_of(options))
        asked = []
        for seconds in (0.0, 299.0, 2.0):
            clock.now += seconds
            await found.authorizer.authorize(UserInfo("ann"), Name("team-a"), parse_request("GET", "/api/v1/pods", {}))
            asked.append(len(hook.asked))
        assert asked == [1, 1, 2]
        await close([found])
