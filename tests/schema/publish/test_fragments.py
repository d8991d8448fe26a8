"""Fragments join into whole documents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import orjson
import pytest

from kcp_py.bootstrap.descriptions import MISSING
from kcp_py.bootstrap.kinds import builtin_kinds, models
from kcp_py.registry.resource import ALL_VERBS
from kcp_py.schema.publish.fragments import PART_BYTES, document_v2, document_v3, fragment_v2, fragment_v3, protobuf_document
from kcp_py.schema.publish.kinds import PublishedKind, PublishedSubresource

PATCHES = ("application/json-patch+json", "application/merge-patch+json")
STATUS = PublishedSubresource("status", ("get", "patch", "update"))
WIDGET = PublishedKind(
    group="example.com",
    version="v1",
    kind="Widget",
    list_kind="WidgetList",
    plural="widgets",
    namespaced=True,
    verbs=ALL_VERBS,
    subresources=(STATUS,),
    patch_types=PATCHES,
    document={"type": "object", "properties": {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}},
)
BUILTIN = [
    PublishedKind(
        group=kind.group,
        version=kind.version,
        kind=kind.kind,
        list_kind=kind.list_kind,
        plural=kind.plural,
        namespaced=kind.namespaced,
        verbs=kind.verbs,
        subresources=tuple(PublishedSubresource(name, verbs) for name, verbs in kind.subresources.items()),
        patch_types=PATCHES,
        document=models()[kind.model],
        upstream_model=kind.model,
    )
    for kind in builtin_kinds()
]


def references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$ref"), str):
            yield value["$ref"]
        for child in value.values():
            yield from references(child)
    elif isinstance(value, list):
        for child in value:
            yield from references(child)


def whole(kinds: list[PublishedKind], version: str) -> dict[str, Any]:
    body = b"".join(document_v3(map(fragment_v3, kinds)) if version == "v3" else document_v2(map(fragment_v2, kinds)))
    document: dict[str, Any] = orjson.loads(body)
    return document


@pytest.mark.parametrize("version", ["v3", "v2"])
@pytest.mark.parametrize("kind", [*BUILTIN, WIDGET], ids=lambda kind: f"{kind.plural}.{kind.group}")
def test_a_document_of_one_kind_is_complete(kind, version):
    """Every reference leads to a model of the same document."""
    document = whole([kind], version)
    prefix, models = (
        ("#/components/schemas/", document["components"]["schemas"]) if version == "v3" else ("#/definitions/", document["definitions"])
    )
    assert set(references(document)) <= {prefix + name for name in models}
    assert kind.model in models
    assert (kind.list_model in models) is ("list" in kind.verbs)


@pytest.mark.parametrize("version", ["v3", "v2"])
def test_operations_name_their_kind(version):
    """Each operation says what it does and to which kind: kubectl finds both by these extensions."""
    document = whole([*BUILTIN, WIDGET], version)
    ids = []
    for item in document["paths"].values():
        for method, operation in item.items():
            if method == "parameters":
                continue
            ids.append(operation["operationId"])
            assert operation["x-kubernetes-action"]
            assert operation["x-kubernetes-group-version-kind"].keys() == {"group", "kind", "version"}
            assert operation["responses"]["200"]
    assert len(ids) == len(set(ids))


def test_required_members_of_v3():
    """A v3 document has what the specification asks for, and references without siblings."""
    document = whole([*BUILTIN, WIDGET], "v3")
    assert document["openapi"] == "3.0.0"
    assert document["info"] == {"title": "Kubernetes", "version": "unversioned"}
    for path, item in document["paths"].items():
        in_path = {parameter["name"] for parameter in item["parameters"] if parameter["in"] == "path"}
        assert in_path == {part[1:-1] for part in path.split("/") if part.startswith("{")}
        assert all(parameter["required"] for parameter in item["parameters"] if parameter["in"] == "path")
    assert _no_siblings(document["components"])


def test_built_in_models_of_v3_carry_merge_keys():
    """What strategic merge patch and server-side apply need stands in the models."""
    schemas = whole(BUILTIN, "v3")["components"]["schemas"]
    conditions = schemas["io.k8s.api.core.v1.NamespaceStatus"]["properties"]["conditions"]
    assert conditions["x-kubernetes-patch-merge-key"] == "type"
    assert conditions["x-kubernetes-list-map-keys"] == ["type"]
    assert schemas["io.k8s.api.core.v1.ObjectReference"]["x-kubernetes-map-type"] == "atomic"


def test_quantities_are_text_to_v2():
    """v2 has no unions: a quantity is a text there, and either in v3."""
    name = "io.k8s.apimachinery.pkg.api.resource.Quantity"
    assert whole(BUILTIN, "v2")["definitions"][name]["type"] == "string"
    assert whole(BUILTIN, "v3")["components"]["schemas"][name]["oneOf"] == [{"type": "string"}, {"type": "number"}]


def test_joining_does_not_depend_on_order():
    """Equal kinds make equal bytes."""
    assert list(document_v3(map(fragment_v3, [*BUILTIN, WIDGET]))) == list(document_v3(map(fragment_v3, [WIDGET, *reversed(BUILTIN)])))


def test_large_documents_come_in_parts():
    """None is longer than a part and one member, and together they are the document."""
    kinds = [WIDGET._replace(plural=f"widgets{number}", kind=f"Widget{number}", list_kind=f"Widget{number}List") for number in range(100)]
    parts = list(document_v2(map(fragment_v2, kinds)))
    assert len(parts) > 5
    assert all(PART_BYTES < len(part) < 2 * PART_BYTES for part in parts[:-1])
    document = orjson.loads(b"".join(parts))
    assert len([name for name in document["definitions"] if "Widget" in name]) == 200
    assert list(document["paths"]) == sorted(document["paths"])


def _no_siblings(value: Any) -> bool:
    if isinstance(value, dict):
        return ("$ref" not in value or not isinstance(value["$ref"], str) or len(value) == 1) and all(map(_no_siblings, value.values()))
    return all(map(_no_siblings, value)) if isinstance(value, list) else True


def test_types_that_are_one_of_several():
    """A number or a text is a text in v2, with the format by which clients know it; v3 says both."""
    service = WIDGET._replace(group="", kind="Service", plural="services", upstream_model="io.k8s.api.core.v1.Service", document={})
    second, third = (whole([service], version) for version in ("v2", "v3"))
    ports, quantity = "io.k8s.apimachinery.pkg.util.intstr.IntOrString", "io.k8s.apimachinery.pkg.api.resource.Quantity"
    assert second["definitions"][ports] | {"description": ""} == {"type": "string", "format": "int-or-string", "description": ""}
    described = third["components"]["schemas"][ports]
    assert described["format"] == "int-or-string"
    assert {choice["type"] for choice in described["oneOf"]} == {"integer", "string"}
    limits = whole([kind for kind in BUILTIN if kind.kind == "LimitRange"], "v2")["definitions"]
    assert limits[quantity]["type"] == "string"
    assert "oneOf" not in limits[quantity]


@pytest.mark.parametrize("version", ["v3", "v2"])
def test_missing_descriptions_are_told(version, monkeypatch):
    """Where descriptions of built-in kinds are not installed, each document says so and how to get them, in JSON and in protobuf."""
    monkeypatch.setattr("kcp_py.schema.publish.fragments.are_installed", lambda: False)
    assert whole([*BUILTIN, WIDGET], version)["info"] == {"title": "Kubernetes", "version": "unversioned", "description": MISSING}
    assert MISSING.encode() in b"".join(protobuf_document([], int(version[1])))
