"""Logins with OpenID Connect: kubectl with the kubeconfig of `cluster kubeconfig --oidc`, its plugin, and a provider that is a process."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from e2e.binaries import UnavailableError, kubectl_of
from e2e.conftest import COMMAND_SECONDS, Kubectl, ServerProcess
from e2e.informer import TIMEOUT, Watch
from e2e.oidc_login import DIRECTORY, log_in
from e2e.programs import running

ROOT = Path(__file__).parents[1]
CLIENT = "kubernetes"
# One worker runs them all, with one server at a time.
pytestmark = pytest.mark.xdist_group("oidc")
READ = ("get", "--raw", "/api/v1/namespaces/default/configmaps")
UNAUTHORIZED = "error: You must be logged in to the server (Unauthorized)\n"


@dataclass
class Provider:
    """A provider in a process of its own.

    Attributes:
        issuer: its URL.
        ca_file: its authority.
    """

    issuer: str
    ca_file: Path

    def jwt(self, *, username: dict[str, str], groups: dict[str, str]) -> dict[str, Any]:
        """An entry of `jwt` in a configuration."""
        issuer = {"url": self.issuer, "audiences": [CLIENT], "certificateAuthority": self.ca_file.read_text()}
        return {"issuer": issuer, "claimMappings": {"username": username, "groups": groups}}


@dataclass
class Person:
    """Who logs in: the directory of the plugin, and kubectl with a kubeconfig that calls it."""

    directory: Path
    kubectl: Kubectl
    environment: dict[str, str]

    def says(self, name: str, *groups: str, lifetime: int = 600) -> None:
        """What the provider is going to put into tokens."""
        (self.directory / "login.json").write_text(json.dumps({"username": name, "group": groups, "lifetime": lifetime}))
        (self.directory / "token").unlink(missing_ok=True)

    def run(self, *arguments: str, fails: bool = False) -> str:
        return self.kubectl.run(*arguments, fails=fails, environment=self.environment)

    def whoami(self) -> Any:
        """The user as the server sees it. `kubectl auth whoami` sends this; old versions do not have it."""
        review = json.dumps({"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"})
        answer = self.kubectl.run("create", "--validate=false", "-f", "-", "-o", "json", stdin=review, environment=self.environment)
        return json.loads(answer)["status"]["userInfo"]

    @property
    def calls(self) -> list[str]:
        """What the calls of the plugin did."""
        return (self.directory / "calls").read_text().split()


@dataclass
class Server:
    """A server, and the clients of the administrator and of persons."""

    process: ServerProcess
    binary: str
    folder: Path

    def url(self, cluster: str) -> str:
        return f"{self.process.url}/clusters/{cluster}"

    def code_of(self, token: str, cluster: str) -> int:
        """The status code of a read with a token."""
        return self.process.request("GET", f"/clusters/{cluster}{READ[-1]}", token=token).code

    def admin(self, cluster: str) -> Kubectl:
        """The administrator in a new cluster with a config map."""
        made = Kubectl(self.binary, self.process.kubeconfig, self.folder / f"cache-{cluster}", self.url(cluster))
        made.run("create", "configmap", f"of-{cluster}")
        return made

    def person(self, cluster: str, provider: Provider) -> Person:
        """A person with a kubeconfig for a cluster, who logs in at a provider."""
        directory = self.folder / f"person-of-{cluster}"
        programs = directory / "bin"
        programs.mkdir(parents=True)
        # kubectl finds plugins by name: `kubectl oidc-login` runs `kubectl-oidc_login`.
        plugin = programs / "kubectl-oidc_login"
        plugin.write_text(f'#!/bin/sh\nPYTHONPATH="{ROOT}" exec "{sys.executable}" -m e2e.oidc_login "$@"\n')
        plugin.chmod(0o755)
        (programs / "kubectl").symlink_to(self.binary)
        (directory / "ca.pem").write_bytes(provider.ca_file.read_bytes())
        kubeconfig = directory / "kubeconfig"
        command = [sys.executable, "-m", "kcp_py", "cluster", "kubeconfig", cluster, "--kubeconfig", str(self.process.kubeconfig)]
        command += ["--oidc", provider.issuer, "--oidc-client-id", CLIENT, "-o", str(kubeconfig)]
        subprocess.run(command, check=True, capture_output=True, timeout=COMMAND_SECONDS)
        environment = {"PATH": f"{programs}:{os.environ['PATH']}", DIRECTORY: str(directory)}
        return Person(directory, Kubectl(self.binary, kubeconfig, directory / "cache"), environment)


@contextmanager
def running_provider(directory: Path) -> Iterator[Provider]:
    """Runs until the end of the block."""
    directory.mkdir(parents=True)
    command = [sys.executable, "-m", "tests.authn.oidc.provider", str(directory)]
    with running(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT) as process:
        assert process.stdout is not None
        yield Provider(process.stdout.readline().strip(), directory / "ca.pem")


@pytest.fixture(scope="module")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """The provider that the operator trusts."""
    with running_provider(tmp_path_factory.mktemp("operator") / "provider") as made:
        yield made


@pytest.fixture(scope="module")
def teams_provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Provider]:
    """A provider that a cluster may trust."""
    with running_provider(tmp_path_factory.mktemp("team") / "provider") as made:
        yield made


def as_flags(provider: Provider, _: Path) -> list[str]:
    flags = ["--oidc-issuer-url", provider.issuer, "--oidc-client-id", CLIENT, "--oidc-ca-file", str(provider.ca_file)]
    flags += ["--oidc-username-claim", "email", "--oidc-signing-algs", "ES256"]
    return [*flags, "--oidc-groups-claim", "groups", "--oidc-groups-prefix", "oidc:"]


def as_file(provider: Provider, path: Path) -> list[str]:
    # With the flags the server does this by itself: an address that is not verified does not name a user.
    username = {"expression": "claims.?email_verified.orValue(true) == true ? claims.email : ''"}
    jwt = provider.jwt(username=username, groups={"claim": "groups", "prefix": "oidc:"})
    jwt["claimMappings"]["extra"] = [{"key": "shop.example.com/subject", "valueExpression": "claims.sub"}]
    jwt["claimValidationRules"] = [{"expression": "!('outsiders' in claims.groups)", "message": "outsiders may not enter"}]
    jwt["userValidationRules"] = [{"expression": "!user.username.startsWith('system:')", "message": "reserved"}]
    document = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AuthenticationConfiguration", "jwt": [jwt]}
    path.write_text(yaml.safe_dump(document))
    return ["--authentication-config", str(path)]


@pytest.fixture(scope="module")
def oidc_server(request: pytest.FixtureRequest, provider: Provider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A server that trusts the provider, by flags or by a file, with an older and with the newest kubectl."""
    trust, minor = request.param
    try:
        binary = str(kubectl_of(minor)) if minor else request.getfixturevalue("kubectl_binary")
    except UnavailableError as error:
        pytest.skip(f"no kubectl {minor}: {error}")
    folder = tmp_path_factory.mktemp("oidc")
    arguments = trust(provider, folder / "authentication.yaml")
    process = ServerProcess(folder / "root", "--webhook-networks", "127.0.0.0/8", *arguments).start()
    yield Server(process, binary, folder)
    process.stop()


BY_FLAGS = pytest.param((as_flags, "1.25"), id="flags")
BY_FILE = pytest.param((as_file, ""), id="file")


@pytest.mark.parametrize("oidc_server", [BY_FLAGS, BY_FILE], indirect=True, scope="module")
def test_login(oidc_server: Server, provider: Provider) -> None:
    """kubectl asks the plugin for a token, the user has the rights of a group, and in another cluster none."""
    admin, _ = oidc_server.admin("here"), oidc_server.admin("there")
    admin.run("create", "clusterrolebinding", "team", "--clusterrole=cluster-admin", "--group=oidc:team-a")
    alice = oidc_server.person("here", provider)
    alice.says("alice", "team-a")
    who = alice.whoami()
    assert (who["username"], who["groups"]) == ("alice@example.com", ["oidc:team-a", "system:authenticated"])
    assert "of-here" in alice.run("get", "configmaps")
    assert alice.calls[0] == "login"
    assert set(alice.calls[1:]) == {"kept"}
    refused = [alice.run(*READ, "--server", oidc_server.url(name), fails=True) for name in ("there", "missing")]
    assert "(Forbidden)" in refused[0], refused
    assert refused[0].replace("there", "missing") == refused[1]

    # Groups of the provider do not become those of the server.
    alice.says("mallory", "system:masters")
    assert "(Forbidden)" in alice.run(*READ, fails=True)
    admin.run("create", "clusterrolebinding", "odd", "--clusterrole=system:kcp:workspace:access", "--group=oidc:system:masters")
    assert alice.whoami()["groups"] == ["oidc:system:masters", "system:authenticated"]
    assert "(Forbidden)" in alice.run(*READ, fails=True)


@pytest.mark.parametrize("oidc_server", [BY_FILE], indirect=True, scope="module")
def test_expired_tokens(oidc_server: Server, provider: Provider) -> None:
    """The server refuses an expired token, and the client logs in again: the next command, and the next request of the same process."""
    oidc_server.admin("expired").run("create", "clusterrolebinding", "alice", "--clusterrole=cluster-admin", "--user=alice@example.com")
    alice = oidc_server.person("expired", provider)
    alice.says("alice", lifetime=-3600)
    assert alice.run(*READ, fails=True) == UNAUTHORIZED
    proxy = alice.kubectl.start("proxy", "--port=0", "--append-server-path", environment=alice.environment)
    try:
        assert proxy.stdout is not None
        url = f"http://127.0.0.1:{proxy.stdout.readline().rpartition(':')[2].strip()}{READ[-1]}"
        assert code_of(url) == 401
        alice.says("alice")
        assert code_of(url) == 200
        logins = alice.calls.count("login")
        assert code_of(url) == 200
        assert alice.calls.count("login") == logins
    finally:
        proxy.kill()
        proxy.communicate()
    assert "of-expired" in alice.run("get", "configmaps")
    assert alice.calls[-1] == "kept"


def code_of(url: str) -> int:
    """The status code of a GET."""
    try:
        with urllib.request.urlopen(url, timeout=COMMAND_SECONDS) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.parametrize("oidc_server", [BY_FILE], indirect=True, scope="module")
def test_a_watch_ends_with_its_token(oidc_server: Server, provider: Provider) -> None:
    """A running watch is authenticated again: when roles of its cluster change, it ends, because its token has expired meanwhile."""
    admin = oidc_server.admin("watch")
    admin.run("create", "clusterrolebinding", "alice", "--clusterrole=cluster-admin", "--user=alice@example.com")
    alice = oidc_server.person("watch", provider)
    token, watch = short_watch(oidc_server, alice, provider)
    with watch:
        end = time.monotonic() + 3 * TIMEOUT
        while oidc_server.code_of(token, "watch") != 401:
            assert time.monotonic() < end, "the token does not expire"
        admin.run("create", "clusterrole", "change", "--verb=get", "--resource=configmaps")
        assert [event["object"]["metadata"]["name"] for event in watch] == ["of-watch"]


def short_watch(server: Server, person: Person, provider: Provider) -> tuple[str, Watch]:
    """A token that expires soon, and a watch that began before. If a token expires too soon, the next one lives longer."""
    for lifetime in (3, 20, 120):
        person.says("alice", lifetime=lifetime)
        token = log_in(provider.issuer, CLIENT, person.directory)
        watch = Watch(server.process, "/clusters/watch/api/v1/configmaps?watch=1", Authorization=f"Bearer {token}")
        if watch.response.status == 200:
            return token, watch
        watch.close()
    raise AssertionError("no watch began")


@pytest.mark.parametrize("oidc_server", [BY_FILE], indirect=True, scope="module")
def test_a_provider_of_one_cluster(oidc_server: Server, teams_provider: Provider) -> None:
    """A cluster trusts a provider of its own: users log in there, are unknown in other clusters, and cannot take names of the server."""
    admin, _ = oidc_server.admin("sso"), oidc_server.admin("elsewhere")
    bob = oidc_server.person("sso", teams_provider)
    bob.says("bob", "developers")
    assert bob.run(*READ, fails=True) == UNAUTHORIZED
    jwt = teams_provider.jwt(username={"claim": "sub", "prefix": ""}, groups={"claim": "groups", "prefix": ""})
    kind = {"apiVersion": "authentication.kcp-py.io/v1alpha1", "kind": "ClusterAuthenticationConfiguration"}
    admin.run("create", "-f", "-", stdin=json.dumps({**kind, "metadata": {"name": "sso"}, "spec": {"jwt": [jwt]}}))
    admin.run("create", "clusterrolebinding", "access", "--clusterrole=system:kcp:workspace:access", "--group=developers")
    admin.run("create", "rolebinding", "bob", "--clusterrole=edit", "--user=bob")
    assert bob.whoami()["username"] == "bob"
    assert "created" in bob.run("create", "configmap", "of-bob")
    token = (bob.directory / "token").read_text()
    for cluster in ("elsewhere", "root", "missing", "*"):
        assert oidc_server.code_of(token, cluster) == 401
    for name, group in (("system:admin", "developers"), ("bob", "system:masters")):
        bob.says(name, group)
        assert oidc_server.code_of(log_in(teams_provider.issuer, CLIENT, bob.directory), "sso") == 401
    assert oidc_server.code_of(token, "sso") == 200
    admin.run("delete", f"clusterauthenticationconfigurations.{kind['apiVersion'].partition('/')[0]}", "sso")
    assert oidc_server.code_of(token, "sso") == 401
