"""Deletion and waiting with every version of kubectl."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import yaml

from e2e.conftest import Kubectl, ServerProcess, lines_of
from e2e.informer import create_definition
from e2e.kubectl_versions import DEFINITION, GROUP, config_map, each_kubectl, manifests, number_of, ship


def names(team: Kubectl, kinds: str = "configmaps,ships") -> list[str]:
    return [name.partition("/")[2] for name in team.run("get", kinds, "-o", "name", "-l", "e2e").split()]


@each_kubectl("delete by name, label, file and all, with finalizers; wait for condition, field, creation, deletion")
def test_delete_and_wait(kubectl_version: Callable[[str], Kubectl], server: ServerProcess, minor: str) -> None:
    """Named objects are deleted and waited for; objects with a finalizer stay until it is removed."""
    team = kubectl_version("delete")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    of = {"e2e": "yes"}
    objects = [config_map(name, labels=of) for name in ("a", "b", "c", "d")] + [ship(name, labels=of) for name in ("m", "n", "o")]
    team.run("create", "-f", "-", stdin=manifests(*objects))
    assert team.run("delete", "cm", "a").strip().startswith('configmap "a" deleted')
    assert team.run("delete", "cm/b", "ship/m", "--wait=false").count("deleted") == 2
    team.run("delete", "-f", "-", "--now", stdin=manifests(config_map("c")))
    assert "d" in names(team)
    team.run("delete", "cm", "d", "--grace-period=0", "--force")
    assert names(team) == ["n", "o"]
    assert team.run("delete", "ship", "n", "--dry-run=server").strip().endswith("(server dry run)")
    assert "NotFound" in team.run("delete", "cm", "a", fails=True)
    assert team.run("delete", "cm", "a", "--ignore-not-found").strip() in ("", "No resources found")

    path = f"{team.server[len(server.url) :]}/apis/{GROUP}/v1/namespaces/default/ships/n/status"
    status = {"status": {"phase": "Sailing", "conditions": [{"type": "Ready", "status": "True"}]}}
    waiting = team.start("wait", "--for=condition=Ready", "ship/n", "--timeout=60s")
    server.request("PATCH", path, status, headers={"Content-Type": "application/merge-patch+json"})
    assert waiting.communicate(timeout=90)[0].strip() == f"ship.{GROUP}/n condition met"
    if number_of(minor) >= 23:
        assert "condition met" in team.run("wait", "--for=jsonpath={.status.phase}=Sailing", "ship/n", "--timeout=60s")
    if number_of(minor) >= 31:
        waiting = team.start("wait", "--for=create", "cm/late", "--timeout=60s")
        team.run("create", "cm", "late")
        assert "condition met" in waiting.communicate(timeout=90)[0]

    finalizers = '{"metadata":{"finalizers":%s}}'
    team.run("patch", "ship", "o", "--type=merge", "-p", finalizers % '["fleet.example.com/dock"]')
    team.run("delete", "ship", "o", "--timeout=1s", fails=True)
    assert "deletionTimestamp" in team.json("get", "ship", "o")["metadata"]
    waiting = team.start("wait", "--for=delete", "ship/o", "--timeout=60s")
    team.run("patch", "ship", "o", "--type=merge", "-p", finalizers % "[]")
    told = waiting.communicate(timeout=90)[1]
    # Older versions that come too late to see it go say so, in one way or the other.
    late = number_of(minor) < 25 and ("NotFound" in told or "no matching resources found" in told)
    assert waiting.returncode == 0 or late, told
    team.run("create", "-f", "-", stdin=manifests(ship("p", labels=of)))
    team.run("delete", "ships", "-l", "e2e=no")
    assert names(team) == ["n", "p"]
    team.run("delete", "ships", "-l", "e2e=yes", "--field-selector=metadata.name=p")
    assert names(team) == ["n"]
    assert len(lines_of(team.run("delete", "ships", "--all"))) == 1
    assert names(team) == []
    team.run("delete", "crd", f"ships.{GROUP}")
    assert "the server could not find the requested resource" in team.run("get", "ships", fails=True)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with the default of `--namespace-deletion-grace`."""
    process = ServerProcess(tmp_path_factory.mktemp("patient") / "root", "--namespace-deletion-grace", "5s").start()
    try:
        yield process
    finally:
        process.stop()


@pytest.mark.slow
@each_kubectl("delete of a manifest, and of a kustomization, that holds its own namespace")
def test_delete_a_namespace_with_what_is_in_it(
    kubectl_version: Callable[[str], Kubectl], patient: ServerProcess, minor: str, tmp_path: Path
) -> None:
    """Every object that the manifest names is found and deleted, though the namespace comes first: the exit code is 0."""
    shared = kubectl_version("own-namespace")
    team = Kubectl(shared.binary, patient.kubeconfig, shared.cache, f"{patient.url}/clusters/own-{minor.replace('.', '-')}")
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop"}}
    objects = []
    for name in ("a", "b", "c"):
        one = config_map(name)
        one["metadata"]["namespace"] = "shop"
        objects.append(one)
    (tmp_path / "all.yaml").write_text(yaml.safe_dump_all([namespace, *objects]))
    (tmp_path / "kustomization.yaml").write_text("resources: [all.yaml]\n")
    for what in (["-f", str(tmp_path / "all.yaml")], ["-k", str(tmp_path)]):
        team.run("apply", *what)
        told = team.run("delete", *what)
        assert sorted(re.findall(r'configmap "(\w)"', told)) == ["a", "b", "c"], told
        assert "NotFound" in team.run("get", "namespace", "shop", fails=True)
