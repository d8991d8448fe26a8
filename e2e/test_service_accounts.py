"""Tokens of service accounts with the real kubectl, on one server and on two that share a store."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.conftest import COMMAND_SECONDS, Answer, Kubectl, ServerProcess, kubectl_binaries
from e2e.pair import Etcd

WHOAMI = "apis/authentication.k8s.io/v1/selfsubjectreviews"
ISSUER = "https://kcp.example"


def kubeconfig(server: ServerProcess, token: str, path: Path) -> Path:
    """A kubeconfig with a token, and without a cluster in its URL."""
    cluster = {"certificate-authority": str(server.ca_file), "server": server.url}
    document = {
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "c",
        "clusters": [{"name": "c", "cluster": cluster}],
        "users": [{"name": "u", "user": {"token": token}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
    }
    path.write_text(json.dumps(document))
    return path


@pytest.mark.parametrize("binary", kubectl_binaries(), ids=lambda path: Path(path).parent.parent.name)
def test_a_token_lives_as_long_as_its_account(server: ServerProcess, kubectl: Callable[..., Kubectl], tmp_path: Path, binary: str) -> None:
    """`create token` with its flags, the token in a kubeconfig without a path, and the end of it all with the account."""
    cluster = f"accounts-{kubectl_binaries().index(binary)}"
    admin = kubectl(cluster, binary)
    admin.run("create", "serviceaccount", "builder")
    admin.run("create", "secret", "generic", "session")
    admin.run("create", "rolebinding", "builder", "--clusterrole=edit", "--serviceaccount=default:builder")
    flags = ("--audience", server.url, "--duration", "20m", "--bound-object-kind", "Secret", "--bound-object-name", "session")
    tokens = {name: admin.run("create", "token", "builder", *more).strip() for name, more in (("plain", ()), ("bound", flags))}
    users = {
        name: Kubectl(binary, kubeconfig(server, token, tmp_path / f"{name}.kubeconfig"), tmp_path / f"cache-{name}")
        for name, token in tokens.items()
    }
    for user in users.values():
        assert user.json("auth", "whoami")["status"]["userInfo"]["username"] == "system:serviceaccount:default:builder"
    users["plain"].run("create", "configmap", "made-by-builder")
    assert "made-by-builder" in admin.run("get", "configmaps", "-o", "name")
    elsewhere = server.request("GET", "/clusters/accounts-elsewhere/api/v1/namespaces/default/configmaps", token=tokens["plain"])
    assert f'User "system:kcp:serviceaccount:{cluster}:default:builder" cannot list' in elsewhere.json["message"]
    short = admin.run("create", "token", "builder", "--duration", "1m", fails=True)
    assert "may not specify a duration less than 10 minutes" in short
    admin.run("delete", "secret", "session")
    assert "Unauthorized" in users["bound"].run("auth", "whoami", fails=True)
    users["plain"].run("auth", "whoami")
    watch = users["plain"].start("get", "configmaps", "--watch-only")
    admin.run("delete", "serviceaccount", "builder")
    assert "Unauthorized" in users["plain"].run("auth", "whoami", fails=True)
    watch.communicate(timeout=COMMAND_SECONDS)


@pytest.fixture
def pair(tmp_path: Path, new_server: Callable[..., ServerProcess]) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two servers on one etcd, with one issuer."""
    etcd = Etcd(tmp_path).start()
    arguments = ("--storage", "etcd", "--etcd-servers", etcd.url, "--service-account-issuer", ISSUER)
    yield new_server(*arguments).start(), new_server(*arguments).start()
    etcd.kill()


def test_two_servers_share_their_keys(pair: tuple[ServerProcess, ServerProcess]) -> None:
    """A token of one is valid at the other, both publish the same keys, and the deletion of the account reaches both."""
    first, second = pair
    core = "/clusters/pair/api/v1/namespaces/default"
    assert first.request("POST", f"{core}/serviceaccounts", {"metadata": {"name": "builder"}}).code == 201
    keys = [one.request("GET", "/clusters/pair/openid/v1/jwks").json["keys"] for one in pair]
    assert keys[0] == keys[1]
    for issuing, other in (pair, (second, first)):
        token = issuing.request("POST", f"{core}/serviceaccounts/builder/token", {}).json["status"]["token"]
        assert other.request("POST", f"/clusters/pair/{WHOAMI}", {}, token=token).code == 201
    assert first.request("POST", f"/clusters/pair/{WHOAMI}", {}, token=token).code == 201
    assert second.request("DELETE", f"{core}/serviceaccounts/builder").code == 200
    assert second.request("POST", f"/clusters/pair/{WHOAMI}", {}, token=token).code == 401
    assert until_refused(lambda: first.request("POST", f"/clusters/pair/{WHOAMI}", {}, token=token)).code == 401


def until_refused(ask: Callable[[], Answer]) -> Answer:
    """The answer once the other server has heard of the deletion."""
    end = time.monotonic() + COMMAND_SECONDS
    while (answer := ask()).code != 401 and time.monotonic() < end:
        pass
    return answer
