"""Contexts of kubeconfigs. The credentials of a server's own kubeconfig are tested with the commands that use them."""

from __future__ import annotations

import ssl
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcp_py.kubeconfig import KubeconfigContext, KubeconfigError, client_ssl_context, context_names, token_header


def write(path: Path, user: dict[str, Any], **cluster: Any) -> str:
    document = {
        "clusters": [{"name": "c", "cluster": {"server": "https://h:1/clusters/team-a", **cluster}}],
        "contexts": [{"name": "one", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "one",
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(yaml.safe_dump(document))
    return str(path)


def test_a_context_names_server_cluster_and_token(tmp_path: Path) -> None:
    """The logical cluster is taken from the URL, the token from a file in the folder of the kubeconfig."""
    (tmp_path / "token").write_text("secret\n")
    path = write(tmp_path / "config", {"tokenFile": "token"}, **{"insecure-skip-tls-verify": True})
    context = KubeconfigContext.load(path, None)
    assert (context.base_url, context.cluster_name) == ("https://h:1", "team-a")
    assert token_header(context) == {"Authorization": "Bearer secret"}
    assert client_ssl_context(context).verify_mode is ssl.CERT_NONE
    assert context_names(path) == ["one"]


def test_a_missing_context_is_named(tmp_path: Path) -> None:
    """The text begins with the file."""
    path = write(tmp_path / "config", {"token": "t"})
    with pytest.raises(KubeconfigError, match=r"^.*/config: no usable kubeconfig: context 'two' is not in it$"):
        KubeconfigContext.load(path, "two")


@pytest.mark.parametrize(
    "content", [b"[" * 100_000, b"{a: " * 5_000, b"\xff\xfe", b"\t\t", b"a: 2020-99-99", b"!!python/object:os.system {}", b"x"]
)
def test_a_file_that_is_not_a_kubeconfig(tmp_path: Path, content: bytes) -> None:
    """Whatever a file contains, the error names it."""
    path = tmp_path / "config"
    path.write_bytes(content)
    with pytest.raises(KubeconfigError, match=r"^.*/config: "):
        KubeconfigContext.load(str(path), None)


def test_a_pod_finds_its_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By its environment and the files of its service account."""
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    with pytest.raises(KubeconfigError, match="are needed in a pod"):
        KubeconfigContext.in_cluster(tmp_path)
    monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
    monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
    (tmp_path / "token").write_text("secret\n")
    context = KubeconfigContext.in_cluster(tmp_path)
    assert context.base_url == "https://[fd00::1]:443"
    assert token_header(context) == {"Authorization": "Bearer secret"}


def test_an_unsupported_credential_is_an_error(tmp_path: Path) -> None:
    """A request without any credential would be anonymous."""
    path = write(tmp_path / "config", {"exec": {"command": "plugin"}})
    with pytest.raises(KubeconfigError, match="exec: credential plugins are not supported"):
        token_header(KubeconfigContext.load(path, None))
