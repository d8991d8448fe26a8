"""`kubectl delete` of what others depend on, and of namespaces."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from e2e.conftest import Kubectl


def config_map(name: str, owner: dict[str, Any] | None = None, *finalizers: str) -> str:
    metadata: dict[str, Any] = {"name": name, "finalizers": list(finalizers)}
    if owner is not None:
        metadata["ownerReferences"] = [
            {
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "name": owner["metadata"]["name"],
                "uid": owner["metadata"]["uid"],
                "blockOwnerDeletion": True,
            }
        ]
    return json.dumps({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})


def family(client: Kubectl) -> None:
    """An owner, its child and its grandchild."""
    owner: dict[str, Any] | None = None
    for name in ("owner", "child", "grandchild"):
        client.run("create", "-f", "-", stdin=config_map(name, owner))
        owner = client.json("get", "configmap", name)


@pytest.mark.parametrize("cascade", ["background", "foreground"])
def test_dependents_go_with_their_owner(kubectl: Callable[[str], Kubectl], cascade: str) -> None:
    """In the background soon after it; in the foreground before it, so that nothing is left when the command returns."""
    client = kubectl(f"delete-{cascade}")
    family(client)
    client.run("delete", "configmap", "owner", f"--cascade={cascade}", "--timeout=60s")
    if cascade == "background":
        client.run("wait", "--for=delete", "configmap/grandchild", "--timeout=60s")
    for name in ("owner", "child", "grandchild"):
        assert "NotFound" in client.run("get", "configmap", name, fails=True)


def test_dependents_are_left(kubectl: Callable[[str], Kubectl]) -> None:
    """They stay without their owner, and keep their own dependents."""
    client = kubectl("delete-orphan")
    family(client)
    client.run("delete", "configmap", "owner", "--cascade=orphan", "--timeout=60s")
    assert "NotFound" in client.run("get", "configmap", "owner", fails=True)
    assert "ownerReferences" not in client.json("get", "configmap", "child")["metadata"]
    assert client.json("get", "configmap", "grandchild")["metadata"]["ownerReferences"][0]["name"] == "child"


def test_a_namespace_tells_what_it_waits_for(kubectl: Callable[[str], Kubectl]) -> None:
    """Its conditions are there to wait for; nothing new comes in; with the last finalizer it goes, and `delete` returns."""
    client = kubectl("delete-namespace")
    client.run("create", "namespace", "shop")
    client.run("create", "-n", "shop", "-f", "-", stdin=config_map("held", None, "example.com/hold"))
    deletion = client.start("delete", "namespace", "shop", "--timeout=60s")
    condition = "--for=jsonpath={.status.conditions[?(@.type=='NamespaceFinalizersRemaining')].status}=True"
    client.run("wait", "namespace/shop", condition, "--timeout=60s")
    refused = client.run("create", "-n", "shop", "-f", "-", stdin=config_map("late"), fails=True)
    assert "unable to create new content in namespace shop because it is being terminated" in refused
    client.run("patch", "configmap", "held", "-n", "shop", "--type=merge", "-p", '{"metadata":{"finalizers":null}}')
    printed, errors = deletion.communicate(timeout=90)
    assert deletion.returncode == 0, errors
    assert 'namespace "shop" deleted' in printed
    assert "NotFound" in client.run("get", "namespace", "shop", fails=True)
