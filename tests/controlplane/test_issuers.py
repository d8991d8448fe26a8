"""The issuers of the options in a running control plane."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.authn.oidc.errors import AuthenticationError
from kcp_py.controlplane import ControlPlane
from kcp_py.kubeconfig import KubeconfigError
from tests.authn.oidc.test_operator import serving, write
from tests.server.handlers.conftest import options

pytestmark = pytest.mark.anyio

METRIC = "apiserver_authentication_config_controller_automatic_reloads_total"


async def test_reloads_are_counted(tmp_path: Path) -> None:
    """Successes and failures are metrics from the start on; a server without the file has no such metric."""
    config = write(tmp_path / "authentication.yaml")
    async with serving(tmp_path, authentication_config=config) as api:
        metrics = (await api("GET", "/metrics")).text
        assert f'{METRIC}{{status="success"}} 0.0' in metrics
        assert f'{METRIC}{{status="failure"}} 0.0' in metrics
    async with serving(tmp_path) as api:
        assert METRIC not in (await api("GET", "/metrics")).text


async def test_an_invalid_file_prevents_the_start(tmp_path: Path) -> None:
    """The error has the path of the file and the message of kube-apiserver."""
    config = tmp_path / "authentication.yaml"
    config.write_text("")
    with pytest.raises(AuthenticationError) as caught:
        async with ControlPlane(options(tmp_path, authentication_config=config)):
            pass
    assert str(caught.value) == f'failed to load authentication configuration from file "{config}": empty config data'


async def test_an_unusable_webhook_prevents_the_start(tmp_path: Path) -> None:
    """The error has the path of the kubeconfig."""
    file = tmp_path / "webhook.kubeconfig"
    file.write_text("current-context: x\n")
    with pytest.raises(KubeconfigError, match=str(file)):
        async with ControlPlane(options(tmp_path, authentication_token_webhook_config_file=file)):
            pass
