"""kubectl with every kind that a cluster can serve: create, apply, edit, dry runs, warnings, quotas, invalid and immutable fields."""

from __future__ import annotations

import copy
import json
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Kubectl, ServerProcess
from e2e.informer import TIMEOUT
from kcp_py.apimachinery.serializer.yaml.codec import decode_yaml_strict
from tests.server.handlers.answers import changed

CLUSTER = "every-kind"
OWN = {("authentication.kcp-py.io/v1alpha1", "ClusterAuthenticationConfiguration"), ("core.kcp.io/v1alpha1", "LogicalCluster")}
"""Kinds that kube-apiserver does not have."""
UNCOUNTED = {"Event"}
"""Kinds that no quota counts."""
WARNINGS = {
    "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice",
    "coordination.k8s.io/v1beta1 LeaseCandidate is deprecated in v1.36+, unavailable in v1.39+",
}
TABLE: Sequence[dict[str, Any]] = decode_yaml_strict(Path(__file__).with_name("every_kind.yaml").read_bytes())[0]
"""See the head of the file. Messages are recorded from kube-apiserver 1.37.2."""


def named(entry: dict[str, Any]) -> dict[str, Any]:
    """The object of an entry, with its name."""
    found: dict[str, Any] = copy.deepcopy(entry["object"])
    found.setdefault("metadata", {}).setdefault("name", "every")
    return found


def identity(entry: dict[str, Any]) -> str:
    """How messages name the object of an entry: `Deployment.apps "every"`."""
    obj = named(entry)
    group = obj["apiVersion"].rpartition("/")[0]
    kind = obj["kind"] if group in {"", "events.k8s.io"} else f"{obj['kind']}.{group}"
    return f'{kind} "{obj["metadata"]["name"]}"'


def refused(what: str) -> list[tuple[dict[str, Any], str, Any, str]]:
    """Entries with a change that is refused, and the change: path, value, message."""
    return [(entry, *entry[what]) for entry in TABLE if what in entry and what not in entry.get("unlike", ())]


class Kinds:
    """A cluster that serves every kind, kubectl, and files with one object of each kind."""

    def __init__(self, kubectl: Kubectl, folder: Path) -> None:
        self.kubectl = kubectl
        self._folder = folder
        found = [line.split() for line in kubectl.run("api-resources", "--verbs=create,delete", "--no-headers").splitlines()]
        self.resources = {(version, kind): f"{name}.{version.rpartition('/')[0]}".rstrip(".") for name, *_, version, _, kind in found}
        """apiVersion and kind of all that can be created and deleted -> the resource, such as `deployments.apps`."""

    def file(self, name: str, objects: Iterable[dict[str, Any]]) -> str:
        """The path of a file with objects."""
        path = self._folder / f"{name}.json"
        path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": list(objects)}))
        return str(path)

    def resource(self, entry: dict[str, Any]) -> str:
        """The resource of an entry, such as `deployments.apps`."""
        return self.resources[entry["object"]["apiVersion"], entry["object"]["kind"]]

    def each(self, *arguments: str) -> dict[str, str]:
        """Run a command for objects that are all accepted: what it says about each, by `resource/name`."""
        lines = self.kubectl.run(*arguments).splitlines()
        return dict(line.split(" ", 1) for line in lines)

    def refusals(self, *arguments: str) -> list[str]:
        """Run a command for objects that are all refused: the messages."""
        completed = self.kubectl.complete(*arguments)
        assert (completed.returncode, completed.stdout) == (1, "")
        return re.findall(r'error when (?:creating|patching) "[^"]*": (.*)', completed.stderr)


@pytest.fixture(scope="module")
def kinds(server: ServerProcess, kubectl_binary: str, tmp_path_factory: pytest.TempPathFactory) -> Kinds:
    """See `Kinds`."""
    folder = tmp_path_factory.mktemp("every-kind")
    install = [sys.executable, "-m", "kcp_py", "builtin", "install", "--create", "--cluster", CLUSTER]
    subprocess.run([*install, "--kubeconfig", str(server.kubeconfig), "all"], capture_output=True, check=True)
    return Kinds(Kubectl(kubectl_binary, server.kubeconfig, folder / "cache", f"{server.url}/clusters/{CLUSTER}"), folder)


def test_every_kind_is_in_the_table(kinds: Kinds) -> None:
    """That objects can be made of, but for those that are not Kubernetes'."""
    assert set(kinds.resources) - OWN == {(entry["object"]["apiVersion"], entry["object"]["kind"]) for entry in TABLE}


def test_every_kind(kinds: Kinds) -> None:
    """One object of each, from a dry run to its deletion and the quota that keeps it from coming back."""
    objects = [named(entry) for entry in TABLE]
    file = kinds.file("all", objects)

    dry = kinds.each("create", "--dry-run=server", "-f", file)
    assert set(dry.values()) == {"created (server dry run)"}
    assert len(dry) == len(TABLE)
    assert kinds.kubectl.run("get", "-f", file, "--ignore-not-found", "-o", "name") == ""
    warned = kinds.kubectl.complete("create", "--dry-run=server", "--warnings-as-errors", "-f", file)
    warnings = re.findall("^Warning: (.*)$", warned.stderr, re.MULTILINE)
    assert {warning for warning in warnings if "kcp-py stores these objects" not in warning} == WARNINGS
    assert (warned.returncode, warned.stderr.splitlines()[-1]) == (1, f"error: {len(warnings)} warnings received")

    assert set(kinds.each("create", "--save-config", "-f", file).values()) == {"created"}
    assert len(kinds.kubectl.run("get", "-f", file, "-o", "name").split()) == len(TABLE)
    for _ in range(2):
        again = kinds.each("apply", "-f", file)
        assert [said for said, entry in zip(again.values(), TABLE, strict=True) if said != entry.get("again", "unchanged")] == []
    assert len([said for said in kinds.refusals("create", "-f", file) if said.endswith(" already exists")]) == len(TABLE)

    invalid, immutable = refused("invalid"), refused("immutable")
    tried = kinds.file("invalid", (changed(named(entry), [(path, value)]) for entry, path, value, _ in invalid))
    assert kinds.refusals("create", "-f", tried) == [f"{identity(entry)} is invalid: {text}" for entry, *_, text in invalid]
    tried = kinds.file("immutable", (changed(named(entry), [(path, value)]) for entry, path, value, _ in immutable))
    assert kinds.refusals("apply", "-f", tried) == [f"{identity(entry)} is invalid: {text}" for entry, *_, text in immutable]

    fields = {identity(entry): (path, value) for entry, path, value, _ in immutable}
    stored = json.loads(kinds.kubectl.run("get", "-f", file, "-o", "json"))["items"]
    edits = kinds.file("edits", (changed(obj, [fields[name] for name in [identity({"object": obj})] if name in fields]) for obj in stored))
    edited = kinds.kubectl.complete("edit", "-f", file, "-o", "json", environment={"KUBE_EDITOR": f"cp {edits}"})
    *refusals, _, cancelled = re.findall("^(?:error: |A copy )(.*)$", edited.stderr, re.MULTILINE)
    assert refusals == [f'{kinds.resource(entry)} "{named(entry)["metadata"]["name"]}" is invalid' for entry, *_ in immutable]
    assert (edited.returncode, cancelled) == (1, "Edit cancelled, no valid changes were saved.")

    assert kinds.kubectl.run("delete", "-f", file, f"--timeout={TIMEOUT}s").count(" deleted") == len(TABLE)
    counted = [entry for entry in TABLE if entry["object"]["kind"] not in UNCOUNTED]
    resources = [kinds.resource(entry) for entry in counted]
    metadata = {"name": "nothing", "annotations": {"experimental.quota.kcp.io/cluster-scoped": "true"}}
    hard = {f"count/{resource}": "0" for resource in resources}
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard}}
    kinds.kubectl.run("create", "-f", kinds.file("quota", [quota]))
    exceeding = kinds.refusals("create", "-f", kinds.file("counted", map(named, counted)))
    assert [re.sub(r"used: (\S+)=\d+", r"used: \1=N", one) for one in exceeding] == [
        f'{resource} "{named(entry)["metadata"]["name"]}" is forbidden: exceeded quota: nothing, '
        f"requested: count/{resource}=1, used: count/{resource}=N, limited: count/{resource}=0"
        for entry, resource in zip(counted, resources, strict=True)
    ]
