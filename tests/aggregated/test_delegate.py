"""Where the other API server is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.aggregated.delegate import context_of, in_cluster_context
from kcp_py.kubeconfig import KubeconfigError


@pytest.mark.parametrize(("host", "url"), [("10.0.0.1", "https://10.0.0.1:443"), ("fd00::1", "https://[fd00::1]:443")])
def test_a_pod_has_a_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, host: str, url: str) -> None:
    """Its token is read again from its file, because it is replaced from time to time."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("abc")
    context = in_cluster_context(tmp_path)
    assert context.base_url == url
    assert context.user == {"tokenFile": str(tmp_path / "token")}


def test_elsewhere_a_kubeconfig_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is guessed."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="no kubeconfig is given"):
        context_of(None)
