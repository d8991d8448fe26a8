"""`kubectl create <kind>` and the rest that writes through typed clients, which send protobuf."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from e2e.conftest import Kubectl

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
    """What is created is what was asked for, an equal name is refused, and delete removes it."""
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
