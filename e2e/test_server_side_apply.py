"""Server-side apply through the real kubectl: owners, conflicts, removal, migration from client-side apply."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e.conftest import Kubectl

GROUP = "fleet.example.com"
PORTS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}, "number": {"type": "integer"}}},
}
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"color": {"type": "string"}, "ports": PORTS}}}}
DEFINITION = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"boats.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "listKind": "BoatList"},
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}


def config_map(**data: str) -> str:
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one"}, "data": data})


def boat(**spec: Any) -> str:
    return json.dumps({"apiVersion": f"{GROUP}/v1", "kind": "Boat", "metadata": {"name": "one"}, "spec": spec})


def apply(kubectl: Kubectl, manifest: str, *arguments: str, manager: str = "", fails: bool = False) -> str:
    named = [f"--field-manager={manager}"] if manager else []
    return kubectl.run("apply", "--server-side", *named, *arguments, "-f", "-", stdin=manifest, fails=fails)


def managers(kubectl: Kubectl, *what: str) -> list[tuple[str, str]]:
    obj = kubectl.json("get", *what, "--show-managed-fields")
    return [(entry["manager"], entry["operation"]) for entry in obj["metadata"]["managedFields"]]


@pytest.fixture
def boats(kubectl: Callable[[str], Kubectl]) -> Kubectl:
    """kubectl in a cluster with a kind of its own."""
    found = kubectl("ssa-boats")
    if f"boats.{GROUP}" not in found.run("get", "crd", "-o", "name"):
        found.run("create", "-f", "-", stdin=json.dumps(DEFINITION))
        found.run("wait", "--for=condition=Established", f"crd/boats.{GROUP}", "--timeout=60s")
    return found


def test_config_maps(kubectl: Callable[[str], Kubectl]) -> None:
    """Created, changed, contended for, taken by force, and left to others."""
    team = kubectl("ssa-maps")
    assert apply(team, config_map(a="1", b="1"), manager="one").strip() == "configmap/one serverside-applied"
    said = apply(team, config_map(a="2"), manager="two", fails=True)
    assert 'Apply failed with 1 conflict: conflict with "one": .data.a' in said
    assert "--force-conflicts" in said
    apply(team, config_map(a="2"), "--force-conflicts", manager="two")
    assert managers(team, "configmap", "one") == [("one", "Apply"), ("two", "Apply")]
    apply(team, config_map(a="2"), manager="one")
    assert team.json("get", "configmap", "one")["data"] == {"a": "2"}
    before = team.json("get", "configmap", "one")["metadata"]["resourceVersion"]
    apply(team, config_map(a="2"), manager="one")
    assert team.json("get", "configmap", "one")["metadata"]["resourceVersion"] == before
    apply(team, config_map(a="3"), "--dry-run=server", "--force-conflicts", manager="one")
    assert team.json("get", "configmap", "one")["data"] == {"a": "2"}


def test_migration_from_client_side_apply(kubectl: Callable[[str], Kubectl]) -> None:
    """What client-side apply has set belongs to server-side apply afterwards: fields can be taken out."""
    team = kubectl("ssa-migration")
    team.run("apply", "-f", "-", stdin=config_map(a="1", b="1"))
    assert managers(team, "configmap", "one") == [("kubectl-client-side-apply", "Update")]
    apply(team, config_map(a="2"))
    assert team.json("get", "configmap", "one")["data"] == {"a": "2"}
    assert ("kubectl", "Apply") in managers(team, "configmap", "one")
    team.run("apply", "-f", "-", stdin=config_map(c="3"))
    assert team.json("get", "configmap", "one")["data"] == {"c": "3"}


def test_other_commands(kubectl: Callable[[str], Kubectl]) -> None:
    """Each command of kubectl is a manager of its own."""
    team = kubectl("ssa-commands")
    team.run("create", "namespace", "team")
    team.run("label", "namespace", "team", "a=b")
    team.run("annotate", "namespace", "team", "c=d")
    assert {name for name, _ in managers(team, "namespace", "team")} >= {"kubectl-create", "kubectl-label", "kubectl-annotate"}
    apply(team, json.dumps({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team", "labels": {"x": "y"}}}))
    assert team.json("get", "namespace", "team")["metadata"]["labels"].items() >= {"a": "b", "x": "y"}.items()


def test_custom_resources(boats: Kubectl) -> None:
    """Two managers share a list by its keys; each takes out its own items alone."""
    apply(boats, boat(color="red", ports=[{"name": "http", "number": 80}, {"name": "ssh", "number": 22}]), manager="one")
    apply(boats, boat(ports=[{"name": "dns", "number": 53}]), manager="two")
    apply(boats, boat(color="red", ports=[{"name": "ssh", "number": 22}]), manager="one")
    ports = boats.json("get", "boat", "one")["spec"]["ports"]
    assert sorted(port["name"] for port in ports) == ["dns", "ssh"]
    said = apply(boats, boat(ports=[{"name": "ssh", "number": 2222}]), manager="two", fails=True)
    assert '.spec.ports[name="ssh"].number' in said
