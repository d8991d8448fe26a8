"""Custom resources through the real kubectl: what it explains, validates, merges, prints, selects, scales and waits for."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import COMMAND_SECONDS, Kubectl, kubectl_binaries, lines_of

GROUP = "fleet.example.com"
TEXT = {"type": "string"}
COUNT = {"type": "integer"}
SCHEMA = {
    "type": "object",
    "description": "A boat.",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What is wanted.",
            "required": ["color"],
            "properties": {
                "color": {**TEXT, "description": "The color of the hull.", "enum": ["red", "blue"]},
                "replicas": {**COUNT, "default": 1},
                "note": TEXT,
                "tags": {"type": "array", "items": TEXT},
                "ports": {
                    "type": "array",
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["name"],
                    "items": {"type": "object", "required": ["name"], "properties": {"name": TEXT, "number": COUNT}},
                },
            },
        },
        "status": {
            "type": "object",
            "properties": {
                "replicas": COUNT,
                "selector": TEXT,
                "phase": TEXT,
                "conditions": {"type": "array", "items": {"type": "object", "properties": {"type": TEXT, "status": TEXT}}},
            },
        },
    },
}
VERSION: dict[str, Any] = {
    "name": "v1",
    "served": True,
    "storage": True,
    "schema": {"openAPIV3Schema": SCHEMA},
    "subresources": {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"},
    },
    "selectableFields": [{"jsonPath": ".spec.color"}],
    "additionalPrinterColumns": [
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
        {"name": "Crew", "type": "integer", "jsonPath": ".spec.replicas"},
        {"name": "Tags", "type": "string", "jsonPath": ".spec.tags", "priority": 1},
        {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    ],
}
DEFINITION = json.dumps(
    {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"boats.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": "boats", "singular": "boat", "kind": "Boat", "shortNames": ["bt"], "categories": ["fleet"]},
            "versions": [VERSION, {**VERSION, "name": "v1alpha1", "storage": False, "deprecated": True}],
        },
    }
)


def boat(name: str = "one", **spec: Any) -> str:
    return json.dumps({"apiVersion": f"{GROUP}/v1", "kind": "Boat", "metadata": {"name": name}, "spec": {"color": "red", **spec}})


@pytest.fixture(params=kubectl_binaries(), ids=lambda path: Path(path).parent.parent.name)
def fleet(request: pytest.FixtureRequest, kubectl: Callable[..., Kubectl]) -> Kubectl:
    """A fresh cluster with the definition."""
    number = kubectl_binaries().index(request.param)
    client = kubectl(f"{request.node.originalname.replace('_', '-').removeprefix('test-')}-{number}", request.param)
    client.run("create", "-f", "-", stdin=DEFINITION)
    client.run("wait", "--for=condition=Established", f"crd/boats.{GROUP}", "--timeout=30s")
    return client


def finished(process: subprocess.Popen[str]) -> str:
    """What a command in the background printed, which has to succeed."""
    output, problems = process.communicate(timeout=COMMAND_SECONDS)
    assert process.returncode == 0, problems
    return output


def warnings(client: Kubectl, *arguments: str, stdin: str | None = None) -> str:
    """What a command that succeeds says on standard error."""
    completed = client.complete(*arguments, stdin=stdin)
    assert completed.returncode == 0, completed.stderr
    return completed.stderr


def spec_of(client: Kubectl, name: str = "one") -> Any:
    return client.json("get", "boat", name)["spec"]


def test_explained(fleet: Kubectl) -> None:
    """Every field with its type, and each with its own description."""
    fields = [line.split("\t") for line in fleet.run("explain", "boats", "--recursive").splitlines() if "\t" in line]
    types = {field.strip(): form.split()[0] for field, form, *_ in fields}
    assert {name: types[name] for name in ("metadata", "spec", "color", "replicas", "tags", "ports", "number", "phase")} == {
        "metadata": "<ObjectMeta>",
        "spec": "<Object>",
        "color": "<string>",
        "replicas": "<integer>",
        "tags": "<[]string>",
        "ports": "<[]Object>",
        "number": "<integer>",
        "phase": "<string>",
    }
    assert "What is wanted." in fleet.run("explain", "bt.spec")
    assert "The color of the hull." in fleet.run("explain", "boats.spec.color", f"--api-version={GROUP}/v1alpha1")
    assert 'field "wheels" does not exist' in fleet.run("explain", "boats.spec.wheels", fails=True)


def test_validated_as_asked(fleet: Kubectl) -> None:
    """An unknown field is refused, warned of or passed over; a wrong value is refused whatever is asked for."""
    wrong = boat(wheels=4)
    for strict in ("strict", "true"):
        refused = fleet.run("create", f"--validate={strict}", "-f", "-", stdin=wrong, fails=True)
        assert 'strict decoding error: unknown field "spec.wheels"' in refused
    assert "NotFound" in fleet.run("get", "boat", "one", fails=True)
    assert (
        warnings(fleet, "create", "--validate=warn", "-f", "-", "--dry-run=server", stdin=wrong) == 'Warning: unknown field "spec.wheels"\n'
    )
    for lax in ("ignore", "false"):
        assert warnings(fleet, "create", f"--validate={lax}", "-f", "-", "--dry-run=server", stdin=wrong) == ""
        assert 'spec.color: Unsupported value: "green"' in fleet.run(
            "create", f"--validate={lax}", "-f", "-", stdin=boat(color="green"), fails=True
        )
    missing = json.dumps({"apiVersion": f"{GROUP}/v1", "kind": "Boat", "metadata": {"name": "one"}, "spec": {}})
    assert "spec.color: Required value" in fleet.run("create", "-f", "-", stdin=missing, fails=True)


def test_three_way_merge(fleet: Kubectl) -> None:
    """Apply takes away what it had put there, leaves what others put there, and replaces lists of custom resources whole."""
    ports = [{"name": "http", "number": 80}, {"name": "ssh", "number": 22}]
    assert "created" in fleet.run("apply", "-f", "-", stdin=boat(note="x", tags=["a", "b"], ports=ports))
    fleet.run("patch", "boat", "one", "--type=merge", "-p", json.dumps({"spec": {"replicas": 3, "tags": ["a", "b", "c"]}}))
    fleet.run("label", "boat", "one", "tier=gold")
    assert "configured" in fleet.run("apply", "-f", "-", stdin=boat(color="blue", tags=["a"], ports=ports[:1]))
    assert spec_of(fleet) == {"color": "blue", "replicas": 3, "tags": ["a"], "ports": ports[:1]}
    assert fleet.json("get", "boat", "one")["metadata"]["labels"] == {"tier": "gold"}
    assert "unchanged" in fleet.run("apply", "-f", "-", stdin=boat(color="blue", tags=["a"], ports=ports[:1]))
    fleet.run("apply", "-f", "-", stdin=boat(color="blue", tags=None))
    assert spec_of(fleet) == {"color": "blue", "replicas": 3}
    before = fleet.json("get", "boat", "one")["metadata"]["resourceVersion"]
    difference = fleet.complete("diff", "-f", "-", stdin=boat(color="red"))
    assert difference.returncode == 1
    assert {"-  color: blue", "+  color: red"} <= set(difference.stdout.splitlines())
    assert fleet.json("get", "boat", "one")["metadata"]["resourceVersion"] == before


def test_changed_in_place(fleet: Kubectl) -> None:
    """Edit, annotate, JSON and merge patches and replace; a strategic merge patch is not for custom resources."""
    fleet.run("create", "-f", "-", stdin=boat(note="x"))
    fleet.run("edit", "boat", "one", environment={"KUBE_EDITOR": "sed -i s/red/blue/"})
    fleet.run("annotate", "boat", "one", "why=because")
    fleet.run("patch", "boat", "one", "--type=json", "-p", '[{"op":"replace","path":"/spec/note","value":"y"}]')
    fleet.run("patch", "boat", "one", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    assert spec_of(fleet) == {"color": "blue", "note": "y", "replicas": 2}
    assert "strategic-merge-patch+json is not supported" in fleet.run("patch", "boat", "one", "-p", "{}", fails=True)
    fleet.run("replace", "-f", "-", stdin=boat())
    assert spec_of(fleet) == {"color": "red", "replicas": 1}
    assert "replaced" in fleet.run("replace", "--force", "-f", "-", stdin=boat(color="blue"))
    assert "NotFound" in fleet.run("replace", "-f", "-", stdin=boat("two"), fails=True)


def test_printed(fleet: Kubectl) -> None:
    """With the definition's columns, the wide ones on demand, and in every other form that kubectl makes of objects."""
    for name, count in (("one", 3), ("two", 1), ("three", 2)):
        fleet.run("create", "-f", "-", stdin=boat(name, replicas=count, tags=[name]))
    table = [line.split() for line in lines_of(fleet.run("get", "boats"))]
    assert table[0] == ["NAME", "COLOR", "CREW", "AGE"]
    assert [row[:3] for row in table[1:]] == [["one", "red", "3"], ["three", "red", "2"], ["two", "red", "1"]]
    wide = [line.split() for line in lines_of(fleet.run("get", "bt", "-o", "wide"))]
    assert (wide[0], wide[1][:4]) == (["NAME", "COLOR", "CREW", "TAGS", "AGE"], ["one", "red", "3", '["one"]'])
    ordered = lines_of(fleet.run("get", "fleet", "--sort-by=.spec.replicas", "--no-headers"))
    assert [line.split()[0] for line in ordered] == ["two", "three", "one"]
    custom = lines_of(fleet.run("get", "boats", "-o", "custom-columns=N:.metadata.name,C:.spec.replicas", "--no-headers"))
    assert [line.split() for line in custom] == [["one", "3"], ["three", "2"], ["two", "1"]]
    assert fleet.run("get", "boats", "-o", "jsonpath={.items[*].spec.replicas}") == "3 2 1"
    assert fleet.run("get", "boats", "-o", "name").split() == [f"boat.{GROUP}/{name}" for name in ("one", "three", "two")]
    assert "replicas: 2" in fleet.run("get", "boat", "three", "-o", "yaml")


def test_watched(fleet: Kubectl) -> None:
    """A watch prints a row for every change, in the definition's columns."""
    fleet.run("create", "-f", "-", stdin=boat())
    process = fleet.start("get", "boats", "--watch", "--output-watch-events")
    try:
        assert process.stdout is not None
        assert process.stdout.readline().split() == ["EVENT", "NAME", "COLOR", "CREW", "AGE"]
        assert process.stdout.readline().split()[:4] == ["ADDED", "one", "red", "1"]
        fleet.run("scale", "boat", "one", "--replicas=4")
        assert process.stdout.readline().split()[:4] == ["MODIFIED", "one", "red", "4"]
        fleet.run("delete", "boat", "one")
        assert process.stdout.readline().split()[:4] == ["DELETED", "one", "red", "4"]
    finally:
        process.kill()
        process.communicate()


def test_scaled(fleet: Kubectl) -> None:
    """With preconditions, also by a patch of the subresource; only the spec changes."""
    fleet.run("create", "-f", "-", stdin=boat(note="x"))
    assert "scaled" in fleet.run("scale", "boat", "one", "--replicas=5")
    assert "Expected replicas to be 4, was 5" in fleet.run("scale", "boats/one", "--replicas=6", "--current-replicas=4", fails=True)
    fleet.run("scale", "boats/one", "--replicas=6", "--current-replicas=5")
    assert "Expected resource version to be 1" in fleet.run("scale", "bt/one", "--replicas=7", "--resource-version=1", fails=True)
    version = fleet.json("get", "boat", "one")["metadata"]["resourceVersion"]
    fleet.run("scale", "bt/one", "--replicas=7", f"--resource-version={version}")
    assert spec_of(fleet) == {"color": "red", "note": "x", "replicas": 7}
    fleet.run("patch", "boat", "one", "--subresource=scale", "--type=merge", "-p", '{"spec":{"replicas":2}}')
    scale = fleet.json("get", "boat", "one", "--subresource=scale")
    assert (scale["kind"], scale["spec"], scale["status"]) == ("Scale", {"replicas": 2}, {"replicas": 0})
    assert f'boats.{GROUP} "missing" not found' in fleet.run("scale", "boat", "missing", "--replicas=1", fails=True)
    fleet.run("create", "-f", "-", stdin=boat("two"))
    fleet.run("scale", "boats", "--all", "--replicas=0")
    assert fleet.run("get", "boats", "-o", "jsonpath={.items[*].spec.replicas}") == "0 0"


def test_waited_for(fleet: Kubectl) -> None:
    """A value, a condition and the end of an object, which come after the wait began."""
    fleet.run("create", "-f", "-", stdin=boat())
    waits = [
        fleet.start("wait", f"--for={what}", "boat/one", f"--timeout={COMMAND_SECONDS}s")
        for what in ("jsonpath={.status.phase}=Afloat", "condition=Ready")
    ]
    status = {"phase": "Afloat", "conditions": [{"type": "Ready", "status": "True"}]}
    fleet.run(
        "patch", "boat", "one", "--subresource=status", "--type=merge", "-p", json.dumps({"status": status, "spec": {"color": "blue"}})
    )
    for process in waits:
        assert "condition met" in finished(process)
    assert fleet.json("get", "boat", "one", "--subresource=status")["status"] == status
    assert spec_of(fleet)["color"] == "red"
    fleet.run("edit", "boat", "one", "--subresource=status", environment={"KUBE_EDITOR": "sed -i s/Afloat/Sunk/"})
    assert fleet.json("get", "boat", "one")["status"]["phase"] == "Sunk"
    process = fleet.start("wait", "--for=delete", "boat/one", f"--timeout={COMMAND_SECONDS}s")
    fleet.run("delete", "boat", "one")
    finished(process)


def test_a_changed_definition_is_waited_for(fleet: Kubectl) -> None:
    """It stays established, in its new generation."""
    change = [{"op": "add", "path": "/spec/names/shortNames/-", "value": "barge"}]
    fleet.run("patch", "crd", f"boats.{GROUP}", "--type=json", "-p", json.dumps(change))
    fleet.run("wait", "--for=condition=Established", f"crd/boats.{GROUP}", "--timeout=30s")


def test_selected_and_deleted(fleet: Kubectl) -> None:
    """By declared fields and by labels; other fields are refused."""
    for name, color in (("one", "red"), ("two", "blue"), ("three", "blue")):
        fleet.run("create", "-f", "-", stdin=boat(name, color=color))
    fleet.run("label", "boat", "three", "old=yes")
    blue = ("get", "boats", "-o", "name", "--field-selector", "spec.color=blue")
    assert fleet.run(*blue).split() == [f"boat.{GROUP}/three", f"boat.{GROUP}/two"]
    assert fleet.run(*blue, "-l", "old").split() == [f"boat.{GROUP}/three"]
    assert "field label not supported: spec.note" in fleet.run("get", "boats", "--field-selector", "spec.note=x", fails=True)
    assert "three" in fleet.run("delete", "boats", "--field-selector", "spec.color=blue", "-l", "old")
    assert sorted(lines_of(fleet.run("delete", "boats", "--all", "-o", "name"))) == [f"boat.{GROUP}/one", f"boat.{GROUP}/two"]
    assert fleet.run("get", "boats", "-o", "name") == ""


def test_warned_of_deprecated_versions(fleet: Kubectl) -> None:
    """On standard error with every answer, and with nothing of another version."""
    warning = f"Warning: {GROUP}/v1alpha1 Boat is deprecated; use {GROUP}/v1 Boat"
    old = json.dumps({**json.loads(boat()), "apiVersion": f"{GROUP}/v1alpha1"})
    assert warning in warnings(fleet, "create", "-f", "-", stdin=old)
    assert warning in warnings(fleet, "get", f"boats.v1alpha1.{GROUP}")
    assert warnings(fleet, "get", "boats") == ""
