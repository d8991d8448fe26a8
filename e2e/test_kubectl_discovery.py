"""The output of every version of kubectl about a server and its kinds."""

from __future__ import annotations

from collections.abc import Callable

from e2e.conftest import Kubectl, ServerProcess, lines_of
from e2e.informer import create_definition
from e2e.kubectl_versions import DEFINITION, GROUP, each_kubectl


@each_kubectl("api-resources, api-versions, version")
def test_discovery(kubectl_version: Callable[[str], Kubectl], server: ServerProcess, minor: str) -> None:
    """The kinds of this cluster, with their names, verbs and categories."""
    team = kubectl_version("discovery")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    rows = [line.split() for line in lines_of(team.run("api-resources", f"--api-group={GROUP}", "--no-headers"))]
    # The column of the version was that of the group before 1.20.
    assert rows == [["ships", "sh", f"{GROUP}/v1", "true", "Ship"]]
    assert "configmaps" in team.run("api-resources", "--namespaced=true", "--verbs=list,get,patch", "-o", "name").split()
    assert "namespaces" in team.run("api-resources", "--namespaced=false", "-o", "name").split()
    wide = team.run("api-resources", f"--api-group={GROUP}", "-o", "wide", "--no-headers")
    for verb in ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"):
        assert verb in wide
    versions = team.run("api-versions").split()
    assert {"v1", f"{GROUP}/v1", "rbac.authorization.k8s.io/v1", "apiextensions.k8s.io/v1"} <= set(versions)
    told = team.json("version")
    assert told["clientVersion"]["minor"].startswith(minor.partition(".")[2])
    assert told["serverVersion"]["major"] == "1"


@each_kubectl("explain of built-in kinds and custom resources")
def test_explain(kubectl_version: Callable[[str], Kubectl], server: ServerProcess) -> None:
    """Fields are described: of a kind, of a path within it, and all at once."""
    team = kubectl_version("explain")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    told = team.run("explain", "configmaps")
    assert "ConfigMap holds configuration data for pods to consume." in told
    assert "<map[string]string>" in told
    assert "immutable" in team.run("explain", "configmaps", "--recursive")
    assert "UID" in team.run("explain", "configmap.metadata.uid")
    assert "A Ship sails." in team.run("explain", "ships")
    assert "Color of the hull." in team.run("explain", "ship.spec.color")
    told = team.run("explain", "ships", "--recursive", f"--api-version={GROUP}/v1")
    assert [line.split() for line in lines_of(told) if "color" in line or "ports" in line] == [
        ["color", "<string>"],
        ["ports", "<[]string>"],
    ]
    assert "does not exist" in team.run("explain", "ships.spec.none", fails=True)
