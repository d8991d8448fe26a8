"""A real kube-apiserver with its etcd, where the machine has one: `KUBE_APISERVER` names the binary, or it is in `PATH`."""

from __future__ import annotations

import json
import os
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from e2e.programs import running
from tests.ports import reserve_port
from tests.serving.authorities import Issued, new_authority

TOKEN = "admin-token"
START_SECONDS = 120


class KubeAPIServer:
    """A running server.

    Attributes:
        url: of the server.
        kubeconfig: of an administrator.
        users: the authority of client certificates.
    """

    def __init__(self, directory: Path, port: int, users: Issued) -> None:
        self.directory, self.url, self.users = directory, f"https://127.0.0.1:{port}", users
        self.kubeconfig = self.kubeconfig_of(TOKEN)

    def kubeconfig_of(self, token: str, server: str = "") -> Path:
        """A kubeconfig with a bearer token."""
        path = self.directory / f"{token}{'-elsewhere' if server else ''}.kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "c", "cluster": {"server": server or self.url, "insecure-skip-tls-verify": True}}],
            "users": [{"name": "u", "user": {"token": token}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        path.write_text(json.dumps(document))
        return path

    def get(self, path: str) -> Any:
        """The decoded answer to a GET of the administrator."""
        context = ssl.create_default_context()
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        request = urllib.request.Request(self.url + path, headers={"Authorization": f"Bearer {TOKEN}"})
        with urllib.request.urlopen(request, context=context, timeout=10) as answer:
            body = answer.read()
        return json.loads(body) if body[:1] == b"{" else body.decode()


def find_binary(name: str) -> str:
    """The path of a binary of Kubernetes; skips the test without it."""
    variable = name.upper().replace("-", "_")
    found = os.environ.get(variable) or shutil.which(name)
    if not found:
        pytest.skip(f"there is no {name}: name one in {variable}")
    return found


@contextmanager
def kube_apiserver(directory: Path, *flags: str) -> Iterator[KubeAPIServer]:
    """A server with an aggregator, RBAC and a token of an administrator; bob's token is `bob-token`."""
    binary, etcd = find_binary("kube-apiserver"), Path(sys.executable).with_name("etcd")
    client, peer, port = reserve_port(), reserve_port(), reserve_port()
    proxies, users = new_authority("front-proxies"), new_authority("users")
    proxy, accounts = proxies.issue("front-proxy-client"), rsa.generate_private_key(public_exponent=65537, key_size=2048)
    files = {
        "proxies.crt": proxies.pem,
        "users.crt": users.pem,
        "proxy.crt": proxy.pem,
        "proxy.key": _pem(proxy.key),
        "sa.key": _pem(accounts),
    }
    for name, content in files.items():
        (directory / name).write_bytes(content)
    (directory / "tokens.csv").write_text(f"{TOKEN},admin,1,system:masters\nbob-token,bob,2,dev\n")
    urls = [f"http://127.0.0.1:{one}" for one in (client, peer)]
    store = [str(etcd), "--data-dir", str(directory / "etcd"), "--listen-client-urls", urls[0], "--advertise-client-urls", urls[0]]
    store += ["--listen-peer-urls", urls[1], "--initial-advertise-peer-urls", urls[1], "--initial-cluster", f"default={urls[1]}"]
    settings = {
        "etcd-servers": urls[0],
        "secure-port": port,
        "bind-address": "127.0.0.1",
        "cert-dir": directory / "certs",
        "service-cluster-ip-range": "10.0.0.0/16",
        "service-account-key-file": directory / "sa.key",
        "service-account-signing-key-file": directory / "sa.key",
        "service-account-issuer": "https://kubernetes.default.svc",
        "token-auth-file": directory / "tokens.csv",
        "client-ca-file": directory / "users.crt",
        "authorization-mode": "RBAC",
        "disable-admission-plugins": "ServiceAccount",
        "proxy-client-cert-file": directory / "proxy.crt",
        "proxy-client-key-file": directory / "proxy.key",
        "requestheader-client-ca-file": directory / "proxies.crt",
        "requestheader-allowed-names": "front-proxy-client",
        "requestheader-username-headers": "X-Remote-User",
        "requestheader-uid-headers": "X-Remote-Uid",
        "requestheader-group-headers": "X-Remote-Group",
        "requestheader-extra-headers-prefix": "X-Remote-Extra-",
    }
    with ExitStack() as stack:
        logs = [stack.enter_context((directory / name).open("wb")) for name in ("etcd.log", "apiserver.log")]
        stack.enter_context(running(store, stdout=logs[0], stderr=subprocess.STDOUT))
        command = [binary, *(f"--{name}={value}" for name, value in settings.items()), *flags]
        process = stack.enter_context(running(command, stdout=logs[1], stderr=subprocess.STDOUT))
        server = KubeAPIServer(directory, port, users)
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                if server.get("/readyz") == "ok":
                    break
            except OSError:
                pass
            assert process.poll() is None, (directory / "apiserver.log").read_text()[-2000:]
            assert time.monotonic() < deadline, "kube-apiserver does not become ready"
            time.sleep(0.2)
        yield server


def _pem(key: Any) -> bytes:
    made: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return made
