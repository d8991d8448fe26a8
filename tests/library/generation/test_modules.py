"""Modules of classes, and the schemas that are made of them again."""

from __future__ import annotations

import copy
import gzip
import json
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
import yaml

from kcp_py.client.models import decode, encode
from kcp_py.library.generation.modules import module_of_crds, module_of_document
from kcp_py.testing.client_objects import widget_crd
from tests.corpus import CORPUS, needs_corpus
from tests.library.generation.written import comparable, imported, kinds_of

STYLES = ("pydantic", "dataclass")

WITHOUT_DEFAULTS = {"crs/generators.external-secrets.io_passwords/generator-password-encoding-examples-3-da4825c9.yaml"}
"""Required fields with defaults, which the server fills in, are not in these files."""

SCHEMA: dict[str, Any] = {
    "type": "object",
    "description": 'A widget "of" all\n\nkinds: \\ and """.',
    "required": ["spec", "metadata"],
    "x-kubernetes-validations": [{"rule": "has(self.spec)", "message": "no spec"}],
    "properties": {
        "apiVersion": {"type": "string"},
        "kind": {"type": "string"},
        "metadata": {"type": "object"},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"phase": {"type": "string"}}},
        "spec": {
            "type": "object",
            "description": "What is wanted.",
            "required": ["homePort", "mode", "held"],
            "oneOf": [{"required": ["low"]}, {"required": ["high"]}],
            "x-kubernetes-map-type": "atomic",
            "x-kubernetes-validations": [
                {"rule": "self.low <= self.high", "messageExpression": "'low'", "reason": "FieldValueInvalid", "fieldPath": ".low"},
                {"rule": "oldSelf.hasValue() || true", "optionalOldSelf": True},
            ],
            "properties": {
                "homePort": {"type": "string", "minLength": 1, "pattern": r"^[a-z\"\\]+$", "description": "  odd \t text "},
                "home_port": {"type": "string"},
                "from": {"type": "integer", "format": "int64", "minimum": 1, "exclusiveMinimum": True},
                "list": {"type": "array", "items": {"type": "string", "enum": ["a", ""]}, "x-kubernetes-list-type": "set"},
                "mode": {"type": "string", "enum": ["fast", "slow"], "default": "fast"},
                "level": {"type": "integer", "enum": [1, 2], "default": 2, "nullable": True},
                "low": {"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}], "default": "10%"},
                "high": {"x-kubernetes-int-or-string": True, "x-kubernetes-validations": [{"rule": "true"}]},
                "held": {"type": "object", "nullable": True, "additionalProperties": {"type": "number"}},
                "free": {"x-kubernetes-preserve-unknown-fields": True, "description": "Anything."},
                "pruned": {"type": "object"},
                "bag": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "default": {"a": [1]}},
                "bags": {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": True}},
                "inner": {
                    "type": "object",
                    "x-kubernetes-embedded-resource": True,
                    "x-kubernetes-preserve-unknown-fields": True,
                },
                "ports": {
                    "type": "array",
                    "maxItems": 3,
                    "x-kubernetes-list-type": "map",
                    "x-kubernetes-list-map-keys": ["port"],
                    "items": {
                        "type": "object",
                        "description": "One port.",
                        "required": ["port"],
                        "properties": {"port": {"type": "integer"}, "protocol": {"type": "string", "default": "TCP"}},
                    },
                },
                "copy": {"type": "boolean", "default": False},
                "bytes": {"type": "string", "format": "byte", "default": "aGk=", "minLength": 4},
                "key": {"type": "string", "format": "byte", "default": "aGl="},
                "keys": {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}},
                "every": {"type": "string", "format": "duration", "default": "1h"},
                "wait": {"type": "string", "format": "duration", "default": "1h0m0.25s", "description": "Time between two attempts."},
                "pauses": {"type": "array", "items": {"type": "string", "format": "duration"}},
                "$ref": {"type": "string", "format": "date-time", "title": "T", "not": {"enum": ["x"]}},
                "nested": {"type": "array", "items": {"type": "array", "items": {"type": "integer", "nullable": True}}},
            },
        },
    },
}


def crd(schema: dict[str, Any] | None = None) -> dict[str, Any]:
    """A CRD with two versions."""
    made = widget_crd()
    spec = made["spec"]
    spec["names"] |= {"shortNames": ["wd"], "categories": ["all"]}
    (version,) = spec["versions"]
    version["schema"]["openAPIV3Schema"] = copy.deepcopy(schema or SCHEMA)
    version |= {"selectableFields": [{"jsonPath": ".spec.mode"}], "subresources": {"status": {}}}
    version["additionalPrinterColumns"] = [{"jsonPath": ".spec.low", "name": "Low", "type": "string", "priority": 1}]
    older = {**copy.deepcopy(version), "name": "v1alpha1", "storage": False, "deprecated": True, "deprecationWarning": "use v1"}
    spec["versions"] = [older, version]
    return made


@pytest.mark.parametrize("style", STYLES)
def test_a_module_says_what_its_definition_says(style: Any, tmp_path: Path) -> None:
    """All of it: constraints, rules, defaults, odd names and texts, names of the resource, columns, versions."""
    definition = crd()
    module = imported(module_of_crds([definition], style), tmp_path, f"written_{style}")
    kinds = kinds_of(module)
    for version in definition["spec"]["versions"]:
        assert comparable(kinds[version["name"]].__resource__.schema) == comparable(version["schema"]["openAPIV3Schema"])
    described = module.Widget.__resource__
    assert (described.group, described.plural, described.namespaced, described.status) == ("example.com", "widgets", True, True)
    assert (described.short_names, described.categories, described.selectable_fields) == (["wd"], ["all"], [".spec.mode"])
    assert list(described.columns) == definition["spec"]["versions"][1]["additionalPrinterColumns"]
    assert module.WidgetV1alpha1.__resource__.deprecated == "use v1"


@pytest.mark.parametrize("style", STYLES)
def test_quotes_in_descriptions_end_no_docstring(style: Any, tmp_path: Path) -> None:
    """Wherever quotes and backslashes stand, a description is the same again, and no code of the module."""
    texts = ['a"""', '""""', 'a\\"""', '"""\nraise SystemExit\n"""', "a\\", '"', 'a""\nb"']
    schema: dict[str, Any] = {"type": "object", "description": texts[0], "properties": {}}
    for number, text in enumerate(texts):
        inner = {"type": "object", "description": text, "properties": {"b": {"type": "string", "description": text}}}
        schema["properties"] |= {f"a{number}": {"type": "string", "description": text}, f"b{number}": inner}
    definition = widget_crd()
    (version,) = definition["spec"]["versions"]
    version.pop("selectableFields", None)
    version["schema"]["openAPIV3Schema"] = schema
    module = imported(module_of_crds([definition], style), tmp_path, f"quoted_{style}")
    assert comparable(module.Widget.__resource__.schema) == comparable(schema)


@pytest.mark.parametrize("value", [float("nan"), float("-inf"), date(2026, 1, 1)], ids=str)
def test_values_that_json_has_not_are_refused(value: Any) -> None:
    """YAML has them. They would be names in the module."""
    with pytest.raises(ValueError, match="write texts in quotes"):
        module_of_crds([crd({"type": "object", "properties": {"a": {"type": "string", "default": [value]}}})])


@pytest.mark.parametrize("style", STYLES)
def test_objects_pass_through_their_classes(style: Any, tmp_path: Path) -> None:
    """Unchanged, and with changes of single fields."""
    module = imported(module_of_crds([crd()], style), tmp_path, f"passing_{style}")
    spec = {"homePort": "a", "home_port": "b", "from": 2, "mode": "slow", "held": None, "free": [1], "$ref": "x", "unknown": 1}
    spec |= {"wait": "2h0m0.5s", "pauses": ["1m30s", "0s"]}
    obj = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": spec, "status": {"more": True}}
    widget = decode(module.Widget, obj)
    assert widget.spec.wait == timedelta(hours=2, milliseconds=500)
    assert widget.spec.pauses == [timedelta(seconds=90), timedelta()]
    assert encode(widget) == obj
    assert (widget.spec.home_port, widget.spec.home_port_2, widget.spec.from_, widget.spec.low) == ("a", "b", 2, "10%")
    widget.spec.from_ = 3
    assert encode(widget) == {**obj, "spec": {**spec, "from": 3}}


def test_kinds_of_a_server_have_their_classes(tmp_path: Path) -> None:
    """References become classes, of which each stands once, also where one contains itself."""
    models: dict[str, Any] = {
        "io.k8s.api.core.v1.Pod": {
            "type": "object",
            "description": "Pod is a pod.",
            "properties": {
                "apiVersion": {"type": "string"},
                "kind": {"type": "string"},
                "metadata": {"allOf": [{"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}], "default": {}},
                "spec": {"allOf": [{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}], "default": {}, "description": "Wanted."},
            },
        },
        "io.k8s.api.core.v1.PodSpec": {
            "type": "object",
            "required": ["port"],
            "properties": {
                "port": {"$ref": "#/components/schemas/io.k8s.apimachinery.pkg.util.intstr.IntOrString"},
                "parts": {"type": "array", "items": {"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}},
                "limits": {"type": "object", "additionalProperties": {"$ref": "#/components/schemas/x.Quantity"}},
            },
        },
        "io.k8s.apimachinery.pkg.util.intstr.IntOrString": {"format": "int-or-string", "type": "string"},
        "x.Quantity": {"oneOf": [{"type": "string"}, {"type": "number"}]},
    }
    about = {"group": "", "version": "v1", "kind": "Pod", "namespaced": True}
    module = imported(module_of_document(models, [("io.k8s.api.core.v1.Pod", "pods", about)]), tmp_path, "written_document")
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "a"},
        "spec": {"port": 8, "parts": [{"port": "x"}], "limits": {"cpu": 1}},
    }
    typed = decode(module.Pod, pod)
    assert typed.spec.parts[0].port == "x"
    assert encode(typed) == pod


@needs_corpus
@pytest.mark.parametrize("style", STYLES)
def test_real_definitions_come_back(style: Any, tmp_path: Path) -> None:
    """Definitions of the corpus, one of every eleven: their schemas are those that they had."""
    assert CORPUS is not None
    files = sorted((CORPUS / "crds").iterdir())[:: 11 if style == "pydantic" else 37]
    for number, file in enumerate(files):
        if file.stat().st_size > 200_000:
            continue
        definition = yaml.load(file.read_text("utf-8"), Loader=yaml.CSafeLoader)
        kinds = kinds_of(imported(module_of_crds([definition], style), tmp_path, f"real_{style}_{number}"))
        for version in definition["spec"]["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            assert comparable(kinds[version["name"]].__resource__.schema) == comparable(schema), f"{file.name} {version['name']}"


@needs_corpus
def test_real_objects_come_back(tmp_path: Path) -> None:
    """Objects of the corpus pass through the classes of their definitions unchanged."""
    assert CORPUS is not None
    rows = [json.loads(line) for line in (CORPUS / "crs-index.jsonl").read_text("utf-8").splitlines()]
    found = 0
    for number, row in enumerate(rows[::60]):
        file = CORPUS / row["crd_file"]
        if not row["valid"] or file.stat().st_size > 200_000:
            continue
        text = gzip.decompress(file.read_bytes()) if file.suffix == ".gz" else file.read_bytes()
        kinds = kinds_of(imported(module_of_crds([yaml.load(text, Loader=yaml.CSafeLoader)]), tmp_path, f"object_{number}"))
        obj = yaml.load((CORPUS / row["path"]).read_text("utf-8"), Loader=yaml.CSafeLoader)
        obj.setdefault("metadata", {})
        obj = json.loads(json.dumps(obj, default=str))
        if row["path"] not in WITHOUT_DEFAULTS:
            assert encode(decode(kinds[row["version"]], obj)) == obj, row["path"]
        found += 1
    assert found > 5
