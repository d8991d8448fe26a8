"""Manifests as a server would judge them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from kcp_py.apis.upstream.crds import crds_named
from kcp_py.cli.manifests import Document, read_documents, split
from kcp_py.cli.validation import Fault, Validator
from kcp_py.controlplane import ControlPlane
from tests.corpus import CORPUS, needs_corpus, rows
from tests.server.handlers.conftest import Api, options
from tests.server.handlers.widgets import install

pytestmark = pytest.mark.anyio

CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
        "scope": "Namespaced",
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "subresources": {"status": {}},
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "required": ["spec"],
                        "properties": {
                            "spec": {
                                "type": "object",
                                "required": ["size"],
                                "properties": {
                                    "size": {"type": "integer", "minimum": 1},
                                    "max": {"type": "integer", "default": 10},
                                    "tier": {"type": "string", "enum": ["gold", "iron"]},
                                    "parts": {
                                        "type": "array",
                                        "maxItems": 10,
                                        "items": {"type": "object", "properties": {"name": {"type": "string", "maxLength": 3}}},
                                    },
                                },
                                "x-kubernetes-validations": [
                                    {"rule": "self.size <= self.max", "message": "size must not be above max", "fieldPath": ".size"}
                                ],
                            },
                            "status": {"type": "object", "properties": {"ready": {"type": "boolean"}}},
                        },
                    }
                },
            }
        ],
    },
}

WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: w\n"

SAMPLES = {
    "valid": WIDGET + "spec:\n  size: 1\n",
    "status is not looked at": WIDGET + "spec: {size: 1}\nstatus: {ready: 3}\n",
    "missing and wrong": WIDGET + "spec:\n  tier: lead\n  parts:\n  - name: ab\n  - name: abcd\n",
    "rule with a default": WIDGET + "spec:\n  tier: gold\n  size: 11\n",
    "wrong type": WIDGET + "spec:\n  size: many\n",
    "unknown fields": WIDGET + "spec:\n  size: 1\n  extra: 1\n  parts:\n  - nme: x\n",
    "repeated key": WIDGET + "spec:\n  size: 1\n  size: 2\n",
    "wrong name": WIDGET.replace("name: w", "name: W_w\n  labels: {'a b': c}") + "spec: {size: 1}\n",
    "metadata of a wrong type": WIDGET.replace("name: w", "name: w\n  labels: 3") + "spec: {size: 1}\n",
    "config map": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  'a b': c\n  x: z\n",
    "typed value of a wrong type": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\ndata:\n  x: 1\n",
    "unknown typed field": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\nbinary: {}\n",
    "role": "apiVersion: rbac.authorization.k8s.io/v1\nkind: Role\nmetadata: {name: r}\nrules:\n- verbs: []\n",
    "deployment": (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  selector: {matchLabels: {a: b}}\n"
        "  template:\n    metadata: {labels: {a: b}}\n    spec:\n      containers:\n"
        "      - name: c\n        imagePullPolcy: Never\n        image: i\n"
    ),
    "wrong deployment": "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d}\nspec:\n  replicas: two\n",
    "definition": yaml.safe_dump({**CRD, "metadata": {"name": "others.example.com"}}),
}
"""By name: one document."""


def documents(text: str) -> list[Document]:
    return [Document("f.yaml", line, body, "yaml") for line, body in split(text.encode())]


async def faults_of(*texts: str, **more: bool) -> list[Fault]:
    return await Validator(**more).validate(document for text in texts for document in documents(text))


def path_of(obj: dict[str, Any]) -> str:
    """Where an object of the samples is created."""
    plural = {"Widget": "widgets", "ConfigMap": "configmaps", "Role": "roles", "Deployment": "deployments"}.get(obj["kind"])
    if plural is None:
        return "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
    prefix = "api" if "/" not in obj["apiVersion"] else "apis"
    return f"/clusters/a/{prefix}/{obj['apiVersion']}/namespaces/default/{plural}"


@pytest.mark.parametrize("text", SAMPLES.values(), ids=list(SAMPLES))
async def test_messages_are_those_of_the_server(text: str, tmp_path: Path) -> None:
    """A server that has the same definitions accepts valid objects, and refuses the others with the same words."""
    async with ControlPlane(options(tmp_path)) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            await install(api, CRD)
            (deployments,) = crds_named(["deployments.apps"])
            await install(api, deployments)
            headers = {"Content-Type": "application/yaml"}
            path = f"{path_of(yaml.safe_load(text))}?fieldValidation=Strict"
            answer = (await api("POST", path, content=text.encode(), headers=headers)).json()
    found = [fault for fault in await faults_of(yaml.safe_dump(CRD), text, kubernetes_kinds=True) if fault.severity == "error"]
    if answer["kind"] != "Status":
        assert found == []
        return
    causes = (answer.get("details") or {}).get("causes")
    if causes:
        wanted = sorted((cause["field"].replace("<nil>", ""), cause["message"]) for cause in causes)
        assert sorted((fault.field, fault.message) for fault in found) == wanted
        return
    head, strict, rest = answer["message"].partition("strict decoding error: ")
    for fault in found:
        assert fault.message.startswith(head + strict)
        assert fault.message.removeprefix(head + strict) in rest
    assert found


@pytest.mark.parametrize(
    ("name", "lines"),
    [
        ("missing and wrong", [1, 5, 6, 9]),
        ("rule with a default", [7]),
        ("unknown fields", [7, 9]),
        ("repeated key", [7]),
        ("wrong name", [4, 5]),
        ("config map", [5]),
        ("typed value of a wrong type", [4]),
        ("unknown typed field", [4]),
        ("deployment", [11]),
        ("wrong deployment", [5]),
    ],
)
async def test_lines(name: str, lines: list[int]) -> None:
    """Each fault has the line of its field, in a file of several documents too."""
    before = yaml.safe_dump(CRD) + "---\n"
    found = await faults_of(before + SAMPLES[name], kubernetes_kinds=True)
    offset = before.count("\n") - 1
    # The document begins with the line of its dashes.
    assert [fault.line - offset - 1 for fault in found] == lines


async def test_every_fault_is_found_at_once() -> None:
    """Unknown fields, which a server refuses first, do not hide invalid values."""
    found = await faults_of(yaml.safe_dump(CRD), WIDGET + "spec:\n  size: 0\n  extra: 1\n")
    assert [(fault.line, fault.field) for fault in found] == [(6, "spec.size"), (7, "")]


async def test_the_order_of_documents_does_not_matter() -> None:
    """A definition that comes after its objects counts; one that is wrong is named by its objects."""
    widget = WIDGET + "spec: {size: 1}\n"
    assert await faults_of(widget, yaml.safe_dump(CRD)) == []
    broken = json.loads(json.dumps(CRD))
    broken["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["size"]["type"] = "number?"
    found = await faults_of(widget, yaml.safe_dump(broken))
    assert [(fault.kind, fault.severity) for fault in found] == [("Widget", "error"), ("CustomResourceDefinition", "error")]
    assert found[0].message == "its definition is invalid: f.yaml:1"
    assert found[1].field.endswith("properties[size].type")


async def test_a_definition_that_cannot_be_served() -> None:
    """A column whose path is valid by the rules of definitions and means nothing is one fault, and its objects name it."""
    broken = json.loads(json.dumps(CRD))
    broken["spec"]["versions"][0]["additionalPrinterColumns"] = [{"name": "Size", "type": "string", "jsonPath": ".s  ize"}]
    found = await faults_of(yaml.safe_dump(broken), WIDGET + "spec: {size: 1}\n")
    assert [fault.kind for fault in found] == ["CustomResourceDefinition", "Widget"]
    assert found[0].message.startswith("the definition is valid and cannot be served: ")
    assert found[1].message == "its definition is invalid: f.yaml:1"


async def test_unknown_kinds() -> None:
    """They are errors that say what helps, unless they are to be ignored."""
    deployment, widget = SAMPLES["deployment"], WIDGET + "spec: {size: 1}\n"
    found = await faults_of(deployment, widget)
    assert [fault.message for fault in found] == [
        'no matches for kind "Deployment" in version "apps/v1"; --kubernetes-kinds knows it',
        'no matches for kind "Widget" in version "example.com/v1"; --crds adds definitions',
    ]
    assert await faults_of(deployment, widget, ignore_unknown_kinds=True) == []


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        pytest.param("a: 1\n---\nb: [\n", 3, "yaml: line", id="no YAML"),
        pytest.param("- a\n", 1, "json: cannot unmarshal array into Go value of type struct", id="list"),
        pytest.param("apiVersion: v1\n", 1, "Object 'Kind' is missing", id="no kind"),
        pytest.param("kind: ConfigMap\n", 1, "Object 'apiVersion' is missing", id="no version"),
        pytest.param("kind: 3\napiVersion: v1\n", 1, "Object 'Kind' is missing", id="kind of a wrong type"),
    ],
)
async def test_what_is_no_object(text: str, line: int, message: str) -> None:
    """A document that is not an object is one fault."""
    found = (await faults_of(text))[-1]
    assert found.message.startswith(message)
    assert found.line >= line


async def test_warnings_are_no_errors() -> None:
    """What a server warns about is told as a warning."""
    names = "{plural: cups, singular: cup, kind: Cup, listKind: CupList}"
    schema = "{type: object, properties: {a: {type: string, format: odd}}}"
    version = f"{{name: v1, served: true, storage: true, schema: {{openAPIV3Schema: {schema}}}}}"
    spec = f"{{group: example.com, scope: Namespaced, names: {names}, versions: [{version}]}}"
    text = f"apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {{name: cups.example.com}}\nspec: {spec}\n"
    (found,) = await faults_of(text)
    assert (found.severity, 'unrecognized format "odd"' in found.message) == ("warning", True)


async def test_elements_of_lists() -> None:
    """Objects of a List are judged one by one, at their lines; names that are generated are valid."""
    text = (
        "apiVersion: v1\nkind: List\nitems:\n- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    generateName: c-\n"
        "- apiVersion: v1\n  kind: ConfigMap\n  metadata:\n    name: C_\n"
    )
    (found,) = await faults_of(text)
    assert (found.line, found.field, found.name) == (11, "metadata.name", "C_")


@needs_corpus
async def test_objects_of_the_corpus() -> None:
    """Fifty real objects that their projects call valid are valid."""
    assert CORPUS is not None
    wrong = []
    # libyaml refuses a plain scalar of one object that go-yaml reads.
    unreadable = "serviceentry-valid-0-7df9842d.yaml"
    valid = [row for row in rows("crs-index.jsonl") if row.get("valid") and row["crd_file"].endswith(".yaml")]
    valid = [row for row in valid if not row["path"].endswith(unreadable)][:50]
    for row in valid:
        files = [*read_documents(str(CORPUS / row["crd_file"])), *read_documents(str(CORPUS / row["path"]))]
        if [fault for fault in await Validator().validate(files) if fault.severity == "error"]:
            wrong.append(row["path"])
    assert wrong == []
