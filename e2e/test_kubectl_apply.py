"""`kubectl apply` of every version in its ways: client side, server side, with pruning and as sets; and `diff`."""

from __future__ import annotations

import json
from collections.abc import Callable

from e2e.conftest import Kubectl, ServerProcess, lines_of
from e2e.informer import create_definition
from e2e.kubectl_versions import DEFINITION, GROUP, config_map, each_kubectl, manifests, number_of, ship


def words(printed: str) -> list[str]:
    return [line.partition(" ")[2] for line in lines_of(printed)]


@each_kubectl("apply and diff of built-in kinds and custom resources: create, unchanged, configure, remove fields")
def test_client_side_apply(kubectl_version: Callable[[str], Kubectl], server: ServerProcess) -> None:
    """A repeated apply changes nothing, an omitted field is removed, fields of others stay, and diff shows the changes before."""
    team = kubectl_version("apply")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    first = manifests(config_map("one", a="1", b="1"), ship("ann", color="red", ports=["a", "b"]))
    told = team.complete("diff", "-f", "-", stdin=first)
    assert told.returncode == 1, told.stderr
    assert "+  color: red" in told.stdout
    assert words(team.run("apply", "-f", "-", stdin=first)) == ["created", "created"]
    assert words(team.run("apply", "-f", "-", stdin=first)) == ["unchanged", "unchanged"]
    told = team.complete("diff", "-f", "-", stdin=first)
    assert (told.returncode, told.stdout, told.stderr) == (0, "", "")

    team.run("patch", "cm", "one", "-p", '{"data":{"other":"x"}}')
    team.run("patch", "ship", "ann", "--type=merge", "-p", '{"spec":{"crew":4}}')
    second = manifests(config_map("one", a="2"), ship("ann", ports=["c"]))
    told = team.complete("diff", "-f", "-", stdin=second)
    assert told.returncode == 1, told.stderr
    assert [line[1:].split() for line in lines_of(told.stdout) if line.startswith("-") and not line.startswith("---")][:1]
    assert {'-  b: "1"', "-  color: red", '+  a: "2"', "+  - c"} <= set(lines_of(told.stdout))
    assert words(team.run("apply", "-f", "-", "--dry-run=server", stdin=second)) == ["configured (server dry run)"] * 2
    assert words(team.run("apply", "-f", "-", stdin=second)) == ["configured", "configured"]
    assert team.json("get", "cm", "one")["data"] == {"a": "2", "other": "x"}
    assert team.json("get", "ship", "ann")["spec"] == {"crew": 4, "ports": ["c"]}

    last = json.loads(team.run("apply", "view-last-applied", "ship/ann", "-o", "json"))
    assert last["spec"] == {"ports": ["c"]}
    team.run("apply", "set-last-applied", "-f", "-", stdin=manifests(config_map("one", a="2", other="x")))
    team.run("apply", "-f", "-", stdin=manifests(config_map("one", a="2")))
    assert team.json("get", "cm", "one")["data"] == {"a": "2"}
    said = team.run("apply", "-f", "-", stdin=manifests(ship("ann", crew="many")), fails=True)
    assert "spec.crew" in said
    said = team.run("apply", "-f", "-", stdin=manifests({**config_map("two"), "datum": {}}), fails=True)
    assert "unknown field" in said
    nothing = {"apiVersion": "nowhere.example.com/v1", "kind": "Nothing", "metadata": {"name": "n"}}
    assert 'no matches for kind "Nothing" in version "nowhere.example.com/v1"' in team.run(
        "apply", "-f", "-", stdin=manifests(nothing), fails=True
    )


@each_kubectl("apply --server-side: conflict, force, dry run, diff, migration")
def test_server_side_apply(kubectl_version: Callable[[str], Kubectl], server: ServerProcess, minor: str) -> None:
    """Two managers contend for a field, one takes it by force; what client-side apply has set is taken over."""
    team = kubectl_version("server-side")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    ssa = ("apply", "--server-side", "-f", "-")
    assert words(team.run(*ssa, stdin=manifests(config_map("one", a="1"), ship("ann", color="red")))) == ["serverside-applied"] * 2
    said = team.run(*ssa, "--field-manager=other", stdin=manifests(ship("ann", color="blue")), fails=True)
    assert "Apply failed with 1 conflict: conflict" in said
    assert ".spec.color" in said
    changed = manifests(ship("ann", color="blue", crew=1))
    told = team.complete("diff", "--server-side", "--force-conflicts", "--field-manager=other", "-f", "-", stdin=changed)
    assert told.returncode == 1, told.stderr
    assert {"-  color: red", "+  color: blue"} <= set(lines_of(told.stdout))
    team.run(*ssa, "--field-manager=other", "--force-conflicts", "--dry-run=server", stdin=changed)
    assert team.json("get", "ship", "ann")["spec"] == {"color": "red"}
    team.run(*ssa, "--field-manager=other", "--force-conflicts", stdin=changed)
    team.run(*ssa, stdin=manifests(ship("ann")))
    assert team.json("get", "ship", "ann")["spec"] == {"color": "blue", "crew": 1}

    team.run("apply", "-f", "-", stdin=manifests(config_map("two", a="1", b="1")))
    migrated = team.complete(*ssa, stdin=manifests(config_map("two", a="1")))
    if number_of(minor) >= 26:
        assert migrated.returncode == 0, migrated.stderr
        assert team.json("get", "cm", "two")["data"] == {"a": "1"}
    else:
        # These do not take over, and what only the other manager has stays.
        assert team.json("get", "cm", "two")["data"] == {"a": "1", "b": "1"}


@each_kubectl("apply --prune")
def test_prune(kubectl_version: Callable[[str], Kubectl], server: ServerProcess, minor: str) -> None:
    """Objects of the allowed kinds that were applied with the label before, and are no longer in the manifests, are deleted."""
    team = kubectl_version("prune")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    of = {"app": "shop"}
    allow = "allowlist" if number_of(minor) >= 26 else "whitelist"
    prune = ("apply", "--prune", "-l", "app=shop", f"--prune-{allow}=core/v1/ConfigMap", f"--prune-{allow}={GROUP}/v1/Ship", "-f", "-")
    team.run(*prune, stdin=manifests(config_map("one", labels=of), config_map("two", labels=of), ship("ann", labels=of)))
    team.run("create", "configmap", "made-otherwise")
    team.run("label", "configmap", "made-otherwise", "app=shop")
    told = team.run(*prune, stdin=manifests(config_map("one", labels=of)))
    assert sorted(lines_of(told)) == ["configmap/one unchanged", "configmap/two pruned", f"ship.{GROUP}/ann pruned"]
    assert team.run("get", "cm,ships", "-o", "name", "-l", "app=shop").split() == ["configmap/made-otherwise", "configmap/one"]


@each_kubectl("apply with an ApplySet", since="1.27")
def test_apply_set(kubectl_version: Callable[[str], Kubectl], server: ServerProcess, minor: str) -> None:
    """A set remembers its members in its parent; what leaves it is pruned."""
    team = kubectl_version("apply-set")
    create_definition(server, team.server.rpartition("/")[2], DEFINITION)
    command = ("apply", "--prune", "--applyset=configmaps/set", "--namespace=default", "-f", "-")
    alpha = {"KUBECTL_APPLYSET": "true"}
    told = team.run(*command, stdin=manifests(config_map("one"), config_map("two"), ship("ann")), environment=alpha)
    assert words(told) == ["created"] * 3
    parent = team.json("get", "configmap", "set")["metadata"]
    contained, expected = (
        ("contains-group-kinds", f"ConfigMap,Ship.{GROUP}")
        if number_of(minor) >= 29
        else ("contains-group-resources", f"configmaps,ships.{GROUP}")
    )
    assert parent["annotations"][f"applyset.kubernetes.io/{contained}"] == expected
    identity = parent["labels"]["applyset.kubernetes.io/id"]
    members = team.run("get", "cm,ships", "-o", "name", "-l", f"applyset.kubernetes.io/part-of={identity}").split()
    assert members == ["configmap/one", "configmap/two", f"ship.{GROUP}/ann"]
    told = team.run(*command, stdin=manifests(config_map("one")), environment=alpha)
    assert sorted(lines_of(told)) == ["configmap/one unchanged", "configmap/two pruned", f"ship.{GROUP}/ann pruned"]
    secret = ("apply", "--prune", "--applyset=fleet", "--namespace=default", "-f", "-", "--server-side")
    team.run(*secret, stdin=manifests(config_map("three")), environment=alpha)
    annotations = team.json("get", "secret", "fleet")["metadata"]["annotations"]
    assert annotations[f"applyset.kubernetes.io/{contained}"] == expected.partition(",")[0]
