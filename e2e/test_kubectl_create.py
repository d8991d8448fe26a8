"""`kubectl create <kind>` and the rest that writes through typed clients, which send protobuf."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Kubectl, ServerProcess, lines_of
from e2e.informer import create_definition
from e2e.kubectl_versions import DEFINITION, config_map, each_kubectl, manifests, number_of, ship

COMMANDS = {
    "namespace": ["namespace", "team"],
    "configmap": ["configmap", "settings", "--from-literal=a=b"],
    "secret": ["secret", "generic", "pass", "--from-literal=k=v"],
    "serviceaccount": ["serviceaccount", "robot"],
    "role": ["role", "reader", "--verb=get,list", "--resource=configmaps"],
    "rolebinding": ["rolebinding", "readers", "--role=reader", "--user=jane"],
    "clusterrole": ["clusterrole", "viewer", "--verb=get", "--resource=namespaces"],
    "clusterrolebinding": ["clusterrolebinding", "viewers", "--clusterrole=viewer", "--group=team"],
    "quota": ["quota", "small", "--hard=configmaps=10,cpu=1"],
}
CONTENT: dict[str, dict[str, Any]] = {
    "configmap": {"data": {"a": "b"}},
    "secret": {"data": {"k": "dg=="}, "type": "Opaque"},
    "role": {"rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list"]}]},
    "rolebinding": {"roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "reader"}},
    "clusterrolebinding": {"subjects": [{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "team"}]},
    "quota": {"spec": {"hard": {"configmaps": "10", "cpu": "1"}}},
}


@pytest.mark.parametrize("kind", COMMANDS)
def test_creates_and_deletes(kubectl: Callable[[str], Kubectl], kind: str) -> None:
    """Each command creates the requested object, a repeated name is refused, and delete removes it."""
    client = kubectl(f"create-{kind}")
    command = COMMANDS[kind]
    name = command[2] if kind == "secret" else command[1]
    assert f"{name} created" in client.run("create", *command)
    created = client.json("get", kind, name)
    for field, value in CONTENT.get(kind, {}).items():
        assert created[field] == value
    assert "creationTimestamp" in created["metadata"]
    assert "already exists" in client.run("create", *command, fails=True)
    assert "deleted" in client.run("delete", kind, name)
    assert "NotFound" in client.run("get", kind, name, fails=True)


@each_kubectl("create of each kind by its own command, from files and standard input, dry run; events")
def test_versions(kubectl_version: Callable[[str], Kubectl], server: ServerProcess, tmp_path: Path, minor: str) -> None:
    """Each kind's own command, files, folders and standard input make what they say; a dry run makes nothing; events are told."""
    team = kubectl_version("create")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    for kind, command in COMMANDS.items():
        name = command[2] if kind == "secret" else command[1]
        assert f"{name} created" in team.run("create", *command)
        created = team.json("get", kind, name)
        assert {key: created[key] for key in CONTENT.get(kind, {})} == CONTENT.get(kind, {})
    assert "already exists" in team.run("create", *COMMANDS["configmap"], fails=True)

    for number, one in enumerate((config_map("of-file", a="b"), ship("of-file", crew=1))):
        (tmp_path / f"{number}.json").write_text(json.dumps(one))
    assert team.run("create", "-f", str(tmp_path / "0.json"), "--save-config").strip() == "configmap/of-file created"
    assert "AlreadyExists" in team.run("create", "-f", str(tmp_path), fails=True)
    assert team.json("get", "ship", "of-file")["spec"] == {"crew": 1}
    generated = json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "some-"}})
    assert team.run("create", "-f", "-", stdin=generated).startswith("configmap/some-")
    for side in ("client", "server"):
        made = team.run("create", "-f", "-", f"--dry-run={side}", "-o", "json", stdin=manifests(config_map("none", a="b")))
        assert json.loads(made)["data"] == {"a": "b"}
        assert team.run("create", "configmap", "none", f"--dry-run={side}").strip() == f"configmap/none created ({side} dry run)".replace(
            "client dry run", "dry run"
        )
    assert team.run("get", "cm", "none", "--ignore-not-found") == ""
    said = team.run("create", "-f", "-", stdin=manifests({**ship("bad", crew=1), "specs": {}}), fails=True)
    assert "specs" in said
    path = f"{team.server[len(server.url) :]}/api/v1/namespaces/default/configmaps"
    raw = Kubectl(team.binary, team.kubeconfig, team.cache, server.url)
    made = json.loads(raw.run("create", "--raw", path, "-f", "-", stdin=manifests(config_map("raw"))))

    about = {"apiVersion": "v1", "kind": "ConfigMap", "name": "raw", "namespace": "default", "uid": made["metadata"]["uid"]}
    told = {"metadata": {"name": "told"}, "involvedObject": about, "type": "Normal"}
    told |= {"reason": "Told", "message": "once", "count": 1, "lastTimestamp": "2024-01-01T00:00:00Z"}
    assert server.request("POST", path.replace("configmaps", "events"), told).code == 201
    shown = [line.split() for line in lines_of(team.run("get", "events"))]
    assert (shown[0], shown[1][1:]) == (
        ["LAST", "SEEN", "TYPE", "REASON", "OBJECT", "MESSAGE"],
        ["Normal", "Told", "configmap/raw", "once"],
    )
    assert "Told" in team.run("describe", "configmap", "raw")
    if number_of(minor) >= 26:
        shown = [line.split() for line in lines_of(team.run("events", "--for=configmap/raw", "--no-headers"))]
        assert [row[1:] for row in shown] == [["Normal", "Told", "ConfigMap/raw", "once"]]
