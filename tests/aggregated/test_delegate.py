"""Where the other API server is."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcp_py.aggregated.delegate import context_of
from kcp_py.kubeconfig import KubeconfigError, kubeconfig


def test_a_pod_has_a_service_account(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a kubeconfig its API server is the delegate."""
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.0.0.1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    monkeypatch.setattr(kubeconfig, "SERVICE_ACCOUNT", tmp_path)
    (tmp_path / "token").write_text("abc")
    context = context_of(None)
    assert (context.base_url, context.file) == ("https://10.0.0.1:443", tmp_path / "token")


def test_elsewhere_a_kubeconfig_is_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is guessed."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="no kubeconfig is given"):
        context_of(None)
