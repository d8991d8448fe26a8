"""A webhook that decides what roles do not, through the real kubectl, and the change of the configuration under a running watch."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.conftest import COMMAND_SECONDS, Kubectl, ServerProcess
from e2e.programs import running

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"
ROLES = "- {type: RBAC, name: rbac}\n"
HOOK = """- type: Webhook
  name: decisions
  webhook:
    timeout: 30s
    subjectAccessReviewVersion: v1
    matchConditionSubjectAccessReviewVersion: v1
    failurePolicy: Deny
    connectionInfo: {type: KubeConfigFile, kubeConfigFile: %s}
    matchConditions: [{expression: has(request.resourceAttributes)}]
"""
As = Callable[[str, str], Kubectl]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with the kubeconfig of a running webhook."""
    found = tmp_path_factory.mktemp("decisions")
    with running([sys.executable, "-m", "e2e.server_of_decisions", str(found)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "serving\n"
        yield found


@pytest.fixture(scope="module")
def hooked_server(folder: Path) -> Iterator[ServerProcess]:
    """A server that asks the webhook, then looks at roles."""
    (folder / "users.csv").write_text("alice-token,alice,a1\ncarol-token,carol,c1\n")
    (folder / "authorization.yaml").write_text(HEAD + HOOK % (folder / "hook.kubeconfig") + ROLES)
    arguments = ("--token-auth-file", str(folder / "users.csv"), "--authorization-config", str(folder / "authorization.yaml"))
    process = ServerProcess(folder / "root", *arguments).start()
    yield process
    process.stop()


@pytest.fixture
def user(hooked_server: ServerProcess, kubectl_binary: str, tmp_path: Path) -> As:
    """kubectl of a user in a cluster; of the administrator without a name."""

    def of(cluster: str, name: str) -> Kubectl:
        server = f"{hooked_server.url}/clusters/{cluster}"
        if not name:
            return Kubectl(kubectl_binary, hooked_server.kubeconfig, tmp_path / f"cache-{cluster}", server)
        kubeconfig = tmp_path / f"{name}.kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "c",
            "clusters": [{"name": "c", "cluster": {"certificate-authority": str(hooked_server.ca_file), "server": hooked_server.url}}],
            "users": [{"name": "u", "user": {"token": f"{name}-token"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        }
        kubeconfig.write_text(json.dumps(document))
        return Kubectl(kubectl_binary, kubeconfig, tmp_path / f"cache-{cluster}-{name}", server)

    return of


def test_decisions_and_their_change(user: As, folder: Path) -> None:
    """The webhook allows and denies by cluster, reviews ask it, and a watch ends with the configuration that allowed it."""
    for cluster in ("team-a", "team-b"):
        members = ["create", "clusterrolebinding", "members", "--clusterrole=system:kcp:workspace:access", "--group=system:authenticated"]
        user(cluster, "").run(*members)
    alice, carol = user("team-a", "alice"), user("team-a", "carol")
    assert alice.run("auth", "can-i", "list", "configmaps") == "yes\n"
    assert user("team-b", "alice").complete("auth", "can-i", "list", "configmaps").stdout == "no\n"
    assert "carol has left team-a" in carol.run("get", "configmaps", fails=True)
    watch = alice.start("get", "--raw", "/api/v1/namespaces/default/configmaps?watch=1")
    try:
        assert watch.stdout is not None
        user("team-a", "").run("create", "configmap", "one")
        assert any('"name":"one"' in line for line in watch.stdout)
        (folder / "new.yaml").write_text(HEAD + ROLES)
        (folder / "new.yaml").replace(folder / "authorization.yaml")
        watch.communicate(timeout=COMMAND_SECONDS)
        assert watch.returncode == 0
    finally:
        watch.kill()
        watch.communicate()
    assert "cannot list resource" in alice.run("get", "configmaps", fails=True)
