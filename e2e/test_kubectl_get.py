"""`kubectl get` of every version in every output, its selectors, watches, descriptions and errors."""

from __future__ import annotations

import json
from collections.abc import Callable

import yaml

from e2e.conftest import Kubectl, ServerProcess, lines_of
from e2e.informer import create_definition
from e2e.kubectl_versions import DEFINITION, GROUP, config_map, each_kubectl, manifests, number_of, ship


def columns(table: str) -> list[list[str]]:
    """The words of each line; the last of them, an age, is left out."""
    return [line.split()[:-1] for line in lines_of(table)]


@each_kubectl("get in every output, sorted, selected, chunked, raw")
def test_outputs(kubectl_version: Callable[[str], Kubectl], server: ServerProcess, minor: str) -> None:
    """Built-in objects are printed as asked for, with the columns and words of a real server."""
    team = kubectl_version("get")
    tiers = {"one": "back", "two": "front", "three": "front"}
    objects = [
        config_map(name, labels={"tier": tier, "app": "shop"}, n=str(9 - number)) for number, (name, tier) in enumerate(tiers.items())
    ]
    for one in objects:
        server.request("POST", f"{team.server[len(server.url) :]}/api/v1/namespaces/default/configmaps", one)
    of_shop = ("get", "configmaps", "-l", "app=shop")

    assert columns(team.run(*of_shop)) == [["NAME", "DATA"], ["one", "1"], ["three", "1"], ["two", "1"]]
    assert columns(team.run(*of_shop, "-o", "wide", "--no-headers")) == [["one", "1"], ["three", "1"], ["two", "1"]]
    assert columns(team.run(*of_shop, "--sort-by", ".data.n", "--no-headers")) == [["three", "1"], ["two", "1"], ["one", "1"]]
    assert columns(team.run(*of_shop, "-A"))[:2] == [["NAMESPACE", "NAME", "DATA"], ["default", "one", "1"]]
    labelled = lines_of(team.run(*of_shop, "--show-labels", "-L", "tier"))
    assert labelled[0].split() == ["NAME", "DATA", "AGE", "TIER", "LABELS"]
    assert labelled[1].split()[3:] == ["back", "app=shop,tier=back"]
    assert [item["data"]["n"] for item in json.loads(team.run(*of_shop, "-o", "json"))["items"]] == ["9", "7", "8"]
    listed = yaml.safe_load(team.run(*of_shop, "-o", "yaml"))
    assert (listed["kind"], [item["kind"] for item in listed["items"]]) == ("List", ["ConfigMap"] * 3)
    assert lines_of(team.run(*of_shop, "--server-print=false"))[0].split() == ["NAME", "AGE"]
    assert team.run(*of_shop, "-o", "name").split() == ["configmap/one", "configmap/three", "configmap/two"]
    assert team.run(*of_shop, "-o", "jsonpath={.items[*].data.n}") == "9 7 8"
    assert team.run(*of_shop, "-o", "go-template={{range .items}}{{.metadata.name}},{{end}}") == "one,three,two,"
    custom = team.run(*of_shop, "-o", "custom-columns=WHO:.metadata.name,N:.data.n", "--sort-by=.metadata.name")
    assert [line.split() for line in lines_of(custom)] == [["WHO", "N"], ["one", "9"], ["three", "7"], ["two", "8"]]
    assert team.run(*of_shop, "-o", "name", "--chunk-size=1").split() == ["configmap/one", "configmap/three", "configmap/two"]
    assert team.run("get", "cm", "-o", "name", "-l", "tier in (front),app!=x,!none").split() == ["configmap/three", "configmap/two"]
    assert team.run("get", "cm", "-o", "name", "--field-selector=metadata.name=two,metadata.namespace=default").split() == ["configmap/two"]
    path = f"/clusters/kubectl-{minor.replace('.', '-')}-get/api/v1/namespaces/default/configmaps/two"
    raw = Kubectl(team.binary, team.kubeconfig, team.cache, server.url).run("get", "--raw", path)
    assert json.loads(raw)["data"] == {"n": "8"}
    assert team.run("get", "cm/one", "ns/default", "-o", "name").split() == ["configmap/one", "namespace/default"]
    assert columns(team.run("get", "cm/one", "ns/default"))[-2:] == [["NAME", "STATUS"], ["namespace/default", "Active"]]
    shown = team.json("get", "cm", "one", *(["--show-managed-fields"] if number_of(minor) >= 21 else []))
    assert [entry["operation"] for entry in shown["metadata"]["managedFields"]] == ["Update"]
    described = team.run("describe", "configmap", "one")
    assert [line.split() for line in lines_of(described)[:2]] == [["Name:", "one"], ["Namespace:", "default"]]
    assert "n:\n----\n9\n" in described

    assert team.run("get", "cm", "none", "--ignore-not-found") == ""
    assert team.run("get", "cm", "none", fails=True) == 'Error from server (NotFound): configmaps "none" not found\n'
    assert team.run("get", "nones", fails=True) == 'error: the server doesn\'t have a resource type "nones"\n'
    nothing = team.complete("get", "secrets")
    assert (nothing.stdout, nothing.stderr, nothing.returncode) == ("", "No resources found in default namespace.\n", 0)
    nothing = team.complete("get", "events", "-A")
    assert (nothing.stdout, nothing.stderr, nothing.returncode) == ("", "No resources found\n", 0)


@each_kubectl("get and describe of custom resources by every name")
def test_custom_resources(kubectl_version: Callable[[str], Kubectl], server: ServerProcess, minor: str) -> None:
    """Custom objects have the columns of their definition, and are found by short name, group, version and category."""
    team = kubectl_version("get-custom")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    assert team.run("create", "-f", "-", stdin=manifests(ship("ann", color="red", crew=3), ship("bob"))).split()[::2] == [
        f"ship.{GROUP}/ann",
        f"ship.{GROUP}/bob",
    ]
    assert [line.split()[:3] for line in lines_of(team.run("get", "ships"))] == [["NAME", "COLOR", "CREW"], ["ann", "red", "3"], ["bob"]]
    assert lines_of(team.run("get", "ships", "-o", "wide"))[0].split() == ["NAME", "COLOR", "CREW", "PHASE"]
    for name in ("ship", "sh", "Ship", f"ships.{GROUP}", f"ships.v1.{GROUP}", "fleet"):
        assert team.run("get", name, "-o", "name").split() == [f"ship.{GROUP}/ann", f"ship.{GROUP}/bob"], name
    assert 'error: the server doesn\'t have a resource type "ships"' in team.run("get", f"ships.v2.{GROUP}", fails=True)
    assert "Color:" in team.run("describe", "ship", "ann")
    assert f"ship.{GROUP}/ann" in team.run("get", "all,ns")
    if number_of(minor) >= 24:
        assert team.run("get", "ship", "ann", "--subresource=scale", "-o", "jsonpath={.kind} {.spec.replicas}") == "Scale 3"


@each_kubectl("get -w with events")
def test_watch(kubectl_version: Callable[[str], Kubectl], server: ServerProcess) -> None:
    """A watch prints the existing objects, then each change with its type."""
    team = kubectl_version("watch")
    path = f"{team.server[len(server.url) :]}/api/v1/namespaces/default/configmaps"
    server.request("POST", path, config_map("one"))
    selected = ("-l", "x!=y", "--field-selector=metadata.name=one")
    watch = team.start("get", "configmaps", "-w", "--output-watch-events", "--no-headers", *selected, "--request-timeout=60s")
    try:
        assert watch.stdout is not None
        assert watch.stdout.readline().split()[:3] == ["ADDED", "one", "0"]
        server.request("PATCH", f"{path}/one", {"data": {"a": "b"}}, headers={"Content-Type": "application/merge-patch+json"})
        assert watch.stdout.readline().split()[:3] == ["MODIFIED", "one", "1"]
        server.request("DELETE", f"{path}/one")
        assert watch.stdout.readline().split()[:3] == ["DELETED", "one", "1"]
    finally:
        watch.kill()
        watch.communicate()
