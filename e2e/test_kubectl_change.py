"""Changes by every version of kubectl: edit, patches, replace, labels, annotations, scale."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.conftest import Kubectl, ServerProcess
from e2e.informer import create_definition
from e2e.kubectl_versions import DEFINITION, GROUP, config_map, each_kubectl, manifests, number_of, ship

Editor = Callable[[str, str], dict[str, str]]


@pytest.fixture
def editor(tmp_path: Path) -> Editor:
    """Makes the environment in which the editor of kubectl replaces one text by another."""

    def of(old: str, new: str) -> dict[str, str]:
        script = tmp_path / "editor"
        script.write_text(f"#!/bin/sh\nsed -i 's/{old}/{new}/' \"$1\"\n")
        script.chmod(0o755)
        return {"KUBE_EDITOR": str(script), "TMPDIR": str(tmp_path)}

    return of


@each_kubectl("edit, patch (strategic, merge, JSON, status)")
def test_edit_and_patch(kubectl_version: Callable[[str], Kubectl], server: ServerProcess, minor: str, editor: Editor) -> None:
    """An editor's change is sent as a patch, and patches of each type do what they say; a strategic one is for built-in kinds alone."""
    team = kubectl_version("edit")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    team.run("create", "-f", "-", stdin=manifests(config_map("one", a="1"), ship("ann", color="red", ports=["a"])))
    assert team.run("edit", "cm", "one", environment=editor('a: "1"', 'a: "2"')).strip() == "configmap/one edited"
    assert json.loads(team.run("edit", "ship", "ann", "-o", "json", environment=editor("red", "blue")))["spec"]["color"] == "blue"
    unchanged = team.complete("edit", "ship", "ann", environment=editor("x", "x"))
    assert (unchanged.returncode, (unchanged.stdout + unchanged.stderr).strip()) == (0, "Edit cancelled, no changes made.")
    said = team.run("edit", "ship", "ann", environment=editor("color: blue", "color: 5"), fails=True)
    assert f'ships.{GROUP} "ann" is invalid' in said
    assert team.json("get", "cm", "one")["data"] == {"a": "2"}

    assert team.run("patch", "cm", "one", "-p", '{"data":{"b":"3"}}').strip() == "configmap/one patched"
    assert team.run("patch", "cm", "one", "-p", '{"data":{"b":"3"}}').strip() == "configmap/one patched (no change)"
    team.run("patch", "cm", "one", "-p", '{"metadata":{"finalizers":["a.io/x","b.io/y"]}}')
    team.run("patch", "cm", "one", "-p", '{"metadata":{"$deleteFromPrimitiveList/finalizers":["a.io/x"],"finalizers":["c.io/z"]}}')
    assert sorted(team.json("get", "cm", "one")["metadata"]["finalizers"]) == ["b.io/y", "c.io/z"]
    team.run("patch", "cm", "one", "-p", '{"metadata":{"finalizers":null}}')
    team.run("patch", "cm/one", "ship/ann", "--type=merge", "-p", '{"metadata":{"labels":{"x":"y"}}}')
    team.run(
        "patch",
        "ship",
        "ann",
        "--type=json",
        "-p",
        '[{"op":"add","path":"/spec/ports/-","value":"b"},{"op":"test","path":"/kind","value":"Ship"}]',
    )
    assert team.json("get", "ship", "ann")["spec"] == {"color": "blue", "ports": ["a", "b"]}
    said = team.run("patch", "ship", "ann", "--type=json", "-p", '[{"op":"test","path":"/kind","value":"Boat"}]', fails=True)
    assert said.startswith("The request is invalid")
    said = team.run("patch", "ship", "ann", "--type=strategic", "-p", '{"spec":{}}', fails=True)
    assert "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, " in said
    assert "spec.crew" in team.run("patch", "ship", "ann", "--type=merge", "-p", '{"spec":{"crew":-1}}', fails=True)
    if number_of(minor) >= 24:
        team.run("patch", "ship", "ann", "--subresource=status", "--type=merge", "-p", '{"status":{"phase":"Sailing","crew":2}}')
        assert team.json("get", "ship", "ann", "--subresource=status")["status"] == {"phase": "Sailing", "crew": 2}
        team.run("edit", "ship", "ann", "--subresource=status", environment=editor("Sailing", "Docked"))
        docked = team.json("get", "ship", "ann")
        assert docked["status"]["phase"] == "Docked"
        team.run("replace", "--subresource=status", "-f", "-", stdin=manifests({**docked, "status": {"phase": "Sunk"}}))
        assert team.json("get", "ship", "ann")["status"] == {"phase": "Sunk"}


@each_kubectl("replace, label, annotate, scale")
def test_replace_label_scale(kubectl_version: Callable[[str], Kubectl], server: ServerProcess) -> None:
    """An object is replaced in place or anew, with a conflict where it is older; labels, annotations and replicas are set and removed."""
    team = kubectl_version("replace")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    team.run("create", "-f", "-", stdin=manifests(config_map("one", a="1"), ship("ann", color="red", crew=1)))
    before = team.json("get", "cm", "one")
    assert team.run("replace", "-f", "-", stdin=manifests(config_map("one", a="2"))).strip() == "configmap/one replaced"
    said = team.run("replace", "-f", "-", stdin=json.dumps({**before, "data": {"a": "3"}}), fails=True)
    assert (
        'Error from server (Conflict): error when replacing "STDIN": Operation cannot be fulfilled on configmaps "one": '
        "the object has been modified; please apply your changes to the latest version and try again" in said
    )
    forced = team.run("replace", "--force", "-f", "-", stdin=manifests(config_map("one", a="4")))
    assert [line.strip() for line in forced.splitlines()][-1] == "configmap/one replaced"
    after = team.json("get", "cm", "one")
    assert after["data"] == {"a": "4"}
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    assert "NotFound" in team.run("replace", "-f", "-", stdin=manifests(ship("none")), fails=True)

    assert team.run("label", "cm/one", "ship/ann", "a=b").split() == ["configmap/one", "labeled", f"ship.{GROUP}/ann", "labeled"]
    assert "--overwrite is false" in team.run("label", "ship", "ann", "a=c", fails=True)
    team.run("label", "--overwrite", "ships", "--all", "a=c", "d=e")
    team.run("label", "ship", "ann", "d-")
    assert team.json("get", "ship", "ann")["metadata"]["labels"] == {"a": "c"}
    assert "label" in team.run("label", "ship", "ann", "a=not/valid", fails=True)
    team.run("annotate", "ships", "-l", "a=c", "note=first text")
    team.run("annotate", "--overwrite", "ship", "ann", "note=second text", "more=x")
    team.run("annotate", "ship", "ann", "more-")
    own = {key: value for key, value in team.json("get", "ship", "ann")["metadata"]["annotations"].items() if "/" not in key}
    assert own == {"note": "second text"}

    assert team.run("scale", "ship", "ann", "--replicas=5").strip() == f"ship.{GROUP}/ann scaled"
    assert team.json("get", "ship", "ann")["spec"]["crew"] == 5
    assert "Expected replicas to be 2" in team.run("scale", "ship", "ann", "--current-replicas=2", "--replicas=3", fails=True)
    team.run("scale", "ship", "ann", "--current-replicas=5", "--replicas=3")
    assert team.json("get", "ship", "ann")["spec"]["crew"] == 3
