"""The main job: two teams in clusters of their own through the real kubectl, and a platform that sees both."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Kubectl, ServerProcess, kubectl_binaries

GROUP = "shop.example.com"


def widget_definition(properties: dict[str, Any], required: list[str], columns: list[dict[str, Any]]) -> str:
    return json.dumps(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"widgets.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "shortNames": ["wd"], "categories": ["all"]},
                "versions": [
                    {
                        "name": "v1",
                        "served": True,
                        "storage": True,
                        "subresources": {"status": {}},
                        "additionalPrinterColumns": columns,
                        "schema": {
                            "openAPIV3Schema": {
                                "type": "object",
                                "description": "A thing that is sold.",
                                "properties": {
                                    "spec": {
                                        "type": "object",
                                        "description": "What is wanted.",
                                        "properties": properties,
                                        "required": required,
                                    },
                                    "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
                                },
                            }
                        },
                    }
                ],
            },
        }
    )


A_DEFINITION = widget_definition(
    {"size": {"type": "integer", "description": "Its length in metres."}, "note": {"type": "string"}},
    ["size"],
    [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size"},
        {"name": "Note", "type": "string", "jsonPath": ".spec.note", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
)
B_DEFINITION = widget_definition(
    {"color": {"type": "string", "enum": ["red", "blue"]}}, ["color"], [{"name": "Color", "type": "string", "jsonPath": ".spec.color"}]
)


def widget(name: str, **spec: Any) -> str:
    return json.dumps({"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": name}, "spec": spec})


@pytest.fixture(params=kubectl_binaries(), ids=lambda path: Path(path).parent.parent.name)
def teams(request: pytest.FixtureRequest, kubectl: Callable[..., Kubectl]) -> Iterator[tuple[Kubectl, Kubectl]]:
    """Two teams, each in a fresh cluster with its own CRD of the same name."""
    number = kubectl_binaries().index(request.param)
    a, b = (kubectl(f"team-{letter}{number}", request.param) for letter in "ab")
    a.run("apply", "-f", "-", stdin=A_DEFINITION)
    b.run("apply", "-f", "-", stdin=B_DEFINITION)
    for team in (a, b):
        team.run("wait", "--for=condition=Established", f"crd/widgets.{GROUP}", "--timeout=30s")
    yield a, b
    for team in (a, b):
        team.run("delete", "crd", f"widgets.{GROUP}", "--ignore-not-found")


def test_two_teams_with_one_crd_name_and_different_schemas(teams: tuple[Kubectl, Kubectl]) -> None:
    """Each team's objects follow its own schema and columns, and neither sees the other's."""
    a, b = teams
    a.run("apply", "-f", "-", stdin=widget("one", size=3, note="n"))
    b.run("apply", "-f", "-", stdin=widget("two", color="red"))
    assert "Size" not in b.run("get", "widgets")
    wide = a.run("get", "wd", "-o", "wide").splitlines()
    assert wide[0].split() == ["NAME", "SIZE", "NOTE", "AGE"]
    assert wide[1].split()[:3] == ["one", "3", "n"]
    assert a.run("get", "widgets").split()[:3] == ["NAME", "SIZE", "AGE"]
    assert b.run("get", "widgets", "-o", "name").split() == [f"widget.{GROUP}/two"]
    assert "NotFound" in a.run("get", "widget", "two", fails=True)
    assert 'Unsupported value: "green"' in b.run("apply", "-f", "-", stdin=widget("three", color="green"), fails=True)
    assert "spec.size: Required value" in a.run("apply", "-f", "-", stdin=widget("three", note="x"), fails=True)
    assert "unknown field" in a.run("apply", "-f", "-", stdin=widget("three", size=1, color="red"), fails=True)


def test_everyday_commands(teams: tuple[Kubectl, Kubectl], tmp_path: Path) -> None:
    """apply, diff, edit, label, annotate, describe, explain, patch, wait, replace, delete do what they do on any cluster."""
    a, _ = teams
    a.run("apply", "-f", "-", stdin=widget("one", size=3))
    assert "unchanged" in a.run("apply", "-f", "-", stdin=widget("one", size=3))
    assert "configured" in a.run("apply", "-f", "-", stdin=widget("one", size=4))
    assert "-  size: 4" in a_diff(a, widget("one", size=5))
    a.run("label", "widget", "one", "tier=gold")
    a.run("annotate", "widget", "one", "why=because")
    assert a.run("get", "widgets", "-l", "tier=gold", "-o", "name").strip() == f"widget.{GROUP}/one"
    assert a.run("get", "widgets", "-l", "tier!=gold", "-o", "name").strip() == ""
    described = a.run("describe", "widget", "one")
    assert "tier=gold" in described
    assert "why: because" in described
    explained = a.run("explain", "widgets.spec.size")
    assert "Its length in metres." in explained
    assert "spec" in a.run("explain", "widget", "--recursive")
    editor = tmp_path / "editor.sh"
    editor.write_text("#!/bin/sh\nsed -i 's/size: 4/size: 9/' \"$1\"\n")
    editor.chmod(0o700)
    assert "edited" in a.run("edit", "widget", "one", environment={"KUBE_EDITOR": str(editor)})
    assert a.json("get", "widget", "one")["spec"]["size"] == 9
    a.run("patch", "widget", "one", "--type=merge", "-p", '{"spec":{"note":"patched"}}')
    a.run("patch", "widget", "one", "--type=json", "-p", '[{"op":"replace","path":"/spec/size","value":10}]')
    a.run("patch", "widget", "one", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Ready"}}')
    a.run("wait", "widget/one", "--for=jsonpath={.status.phase}=Ready", "--timeout=20s")
    found = a.json("get", "widget", "one")
    assert (found["spec"], found["status"]) == ({"size": 10, "note": "patched"}, {"phase": "Ready"})
    assert found["metadata"]["annotations"]["kcp.io/cluster"].startswith("team-a")
    a.run("replace", "-f", "-", stdin=json.dumps({**found, "spec": {"size": 11}}))
    assert "deleted" in a.run("delete", "widget", "one")
    assert "NotFound" in a.run("get", "widget", "one", fails=True)


def a_diff(kubectl: Kubectl, manifest: str) -> str:
    """`kubectl diff` exits with 1 when there is a difference, and must change nothing."""
    before = kubectl.json("get", "widget", "one")["metadata"]["resourceVersion"]
    done = kubectl.complete("diff", "-f", "-", stdin=manifest)
    assert done.returncode == 1, done.stderr
    assert kubectl.json("get", "widget", "one")["metadata"]["resourceVersion"] == before
    return done.stdout


def test_built_in_kinds(teams: tuple[Kubectl, Kubectl]) -> None:
    """Config maps, secrets and the rest are created, applied again, edited and listed as on any cluster."""
    a, b = teams
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "settings"}, "data": {"a": "1"}}
    a.run("apply", "-f", "-", stdin=json.dumps(manifest))
    manifest["data"] = {"b": "2"}
    assert "configured" in a.run("apply", "-f", "-", stdin=json.dumps(manifest))
    assert a.json("get", "configmap", "settings")["data"] == {"b": "2"}
    assert a.run("get", "cm").splitlines()[0].split() == ["NAME", "DATA", "AGE"]
    assert "No resources found" in b.run("get", "cm", fails=False) or b.run("get", "cm") == ""
    namespaces = a.run("get", "namespaces", "-o", "name").split()
    assert namespaces == ["namespace/default", "namespace/kube-node-lease", "namespace/kube-public", "namespace/kube-system"]
    resources = a.run("api-resources", "-o", "name").split()
    assert {"configmaps", f"widgets.{GROUP}", "leases.coordination.k8s.io"} <= set(resources)
    assert "shop" not in a.run("api-versions").replace(GROUP, "", 1)


def test_get_watch_prints_changes(teams: tuple[Kubectl, Kubectl]) -> None:
    """`kubectl get -w` shows the existing objects, then each change."""
    a, _ = teams
    a.run("apply", "-f", "-", stdin=widget("one", size=1))
    watch = a.start("get", "widgets", "-w", "-o", "custom-columns=N:.metadata.name,S:.spec.size", "--no-headers")
    assert watch.stdout is not None
    try:
        assert watch.stdout.readline().split() == ["one", "1"]
        a.run("apply", "-f", "-", stdin=widget("one", size=2))
        assert watch.stdout.readline().split() == ["one", "2"]
        a.run("apply", "-f", "-", stdin=widget("two", size=7))
        assert watch.stdout.readline().split() == ["two", "7"]
    finally:
        watch.kill()
        watch.communicate()


def test_the_platform_sees_every_cluster(teams: tuple[Kubectl, Kubectl], server: ServerProcess) -> None:
    """A wildcard list has both teams' objects, each by its own schema and with its cluster; writes there are refused."""
    a, b = teams
    a.run("apply", "-f", "-", stdin=widget("one", size=3))
    b.run("apply", "-f", "-", stdin=widget("two", color="red"))
    names = {a.server.rpartition("/")[2], b.server.rpartition("/")[2]}
    listed = server.request("GET", f"/clusters/*/apis/{GROUP}/v1/widgets").json["items"]
    ours = [item for item in listed if item["metadata"]["clusterName"] in names]
    assert {(item["metadata"]["name"], json.dumps(item["spec"])) for item in ours} == {("one", '{"size": 3}'), ("two", '{"color": "red"}')}
    assert {item["metadata"]["annotations"]["kcp.io/cluster"] for item in ours} == names
    refused = server.request("POST", f"/clusters/*/apis/{GROUP}/v1/namespaces/default/widgets", json.loads(widget("x", size=1)))
    assert refused.code == 405
    assert "in the `*` logical cluster" in refused.json["message"]


def test_deleting_a_definition_deletes_its_objects(teams: tuple[Kubectl, Kubectl]) -> None:
    """After the CRD is gone and made again there are no objects, and the other team's are untouched."""
    a, b = teams
    a.run("apply", "-f", "-", stdin=widget("one", size=3))
    b.run("apply", "-f", "-", stdin=widget("two", color="red"))
    a.run("delete", "crd", f"widgets.{GROUP}", "--timeout=30s")
    # kubectl's cached discovery still knows the resource; the server does not.
    refusal = a.run("get", "widgets", fails=True)
    assert "the server could not find the requested resource" in refusal or "doesn't have a resource type" in refusal
    assert b.run("get", "widgets", "-o", "name").split() == [f"widget.{GROUP}/two"]
    a.run("apply", "-f", "-", stdin=A_DEFINITION)
    a.run("wait", "--for=condition=Established", f"crd/widgets.{GROUP}", "--timeout=30s")
    assert a.run("get", "widgets", "-o", "name").split() == []
