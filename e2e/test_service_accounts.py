"""Tokens of service accounts with the real kubectl, on one server and on two that share a store."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.conftest import COMMAND_SECONDS, Kubectl, ServerProcess, kubectl_binaries
from e2e.pair import Etcd

WHOAMI = "apis/authentication.k8s.io/v1/selfsubjectreviews"
KEYS = "/registry/.kcp-py/service-account-keys"
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


@pytest.mark.slow
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
def etcd(tmp_path: Path) -> Iterator[Etcd]:
    """An etcd for the servers of a test."""
    made = Etcd(tmp_path).start()
    yield made
    made.kill()


@pytest.fixture
def on_etcd(etcd: Etcd, new_server: Callable[..., ServerProcess]) -> Callable[..., ServerProcess]:
    """Starts servers on this etcd, with one issuer."""

    def start(*arguments: str, root: Path | None = None) -> ServerProcess:
        return new_server(
            "--storage", "etcd", "--etcd-servers", etcd.url, "--service-account-issuer", ISSUER, *arguments, root=root
        ).start()

    return start


def test_two_servers_share_their_keys(on_etcd: Callable[..., ServerProcess]) -> None:
    """A token of one is valid at the other, both publish the same keys, and the deletion of the account reaches both."""
    pair = first, second = on_etcd(), on_etcd()
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
    until(lambda: first.request("POST", f"/clusters/pair/{WHOAMI}", {}, token=token).code == 401)


def test_rotated_keys(etcd: Etcd, on_etcd: Callable[..., ServerProcess]) -> None:
    """A server publishes a key of another algorithm, later both servers sign with it, and tokens of the first key stay valid at both."""
    first, second = on_etcd(), on_etcd()
    account = "/clusters/pair/api/v1/namespaces/default/serviceaccounts"
    assert first.request("POST", account, {"metadata": {"name": "builder"}}).code == 201

    def issue(server: ServerProcess) -> str:
        token: str = server.request("POST", f"{account}/builder/token", {}).json["status"]["token"]
        return token

    def keys_of(server: ServerProcess) -> list[str]:
        return [key["alg"] for key in server.request("GET", "/clusters/pair/openid/v1/jwks").json["keys"]]

    tokens = [issue(first), issue(second)]
    second.stop()
    second = on_etcd("--service-account-signing-algorithm", "RS256", root=second.root)
    for server in (first, second):
        until(lambda server=server: keys_of(server) == ["ES256", "RS256"])
    tokens += [issue(first), issue(second)]
    assert [algorithm_of(token) for token in tokens] == ["ES256"] * 4
    # The next key begins to sign hours later: as if they had passed.
    record = json.loads(etcd.get(KEYS))
    record["keys"][1]["signs_from"] = 0
    etcd.put(KEYS, json.dumps(record))
    for server in (first, second):
        until(lambda server=server: algorithm_of(issue(server)) == "RS256")
        tokens.append(issue(server))
    for server in (first, second):
        for token in tokens:
            assert server.request("POST", f"/clusters/pair/{WHOAMI}", {}, token=token).code == 201


def algorithm_of(token: str) -> str:
    """The algorithm of a JWT."""
    header = token.split(".", maxsplit=1)[0]
    found: str = json.loads(base64.urlsafe_b64decode(header + "=" * (-len(header) % 4)))["alg"]
    return found


def until(holds: Callable[[], bool]) -> None:
    """Ask until it holds."""
    end = time.monotonic() + COMMAND_SECONDS
    while not holds():
        assert time.monotonic() < end, "it does not become true"
