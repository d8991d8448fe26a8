"""CRDs: the answers to any CRD, and the effect of accepted ones on objects."""

from __future__ import annotations

import asyncio
import copy
from typing import Any

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.serializer.json.codec import DecodeError, decode_json
from kcp_py.apis.apiextensions.strategy import CRDStrategy
from kcp_py.apis.upstream.provider import UpstreamKinds
from kcp_py.registry.catalog.compilation import CompiledCRDs
from kcp_py.registry.rest.conform import check_metadata
from kcp_py.schema.compilation import SchemaTooDeepError, compile_schema
from kcp_py.schema.structural.default import TooManyDefaultsError
from kcp_py.server.handlers.body import decode
from tests.fuzz.documents import kinds
from tests.fuzz.mutation import of_json
from tests.fuzz.target import Target

SPEC: dict[str, Any] = {
    "type": "object",
    "required": ["name"],
    "maxProperties": 20,
    "properties": {
        "name": {"type": "string", "pattern": "^[a-z]+$", "maxLength": 10, "format": "k8s-short-name"},
        "count": {"type": "integer", "default": 1, "minimum": 0},
        "list": {
            "type": "array",
            "maxItems": 3,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["k"],
            "items": {
                "type": "object",
                "required": ["k"],
                "properties": {"k": {"type": "string"}, "v": {"x-kubernetes-int-or-string": True}},
            },
        },
        "map": {"type": "object", "additionalProperties": {"type": "number", "nullable": True}},
        "any": {"x-kubernetes-preserve-unknown-fields": True},
        "embedded": {"type": "object", "x-kubernetes-embedded-resource": True, "x-kubernetes-preserve-unknown-fields": True},
        "choice": {"type": "string", "enum": ["a", "b"], "anyOf": [{"minLength": 1}, {"not": {"maxLength": 3}}]},
    },
    "x-kubernetes-validations": [
        {"rule": "self.count >= 0", "messageExpression": "'no ' + self.name", "fieldPath": ".count", "reason": "FieldValueInvalid"}
    ],
}
DEFINITION: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.example.com"},
    "spec": {
        "group": "example.com",
        "scope": "Namespaced",
        "names": {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList", "shortNames": ["w"]},
        "conversion": {"strategy": "None"},
        "versions": [
            {
                "name": "v1",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": SPEC, "status": {"type": "object"}}}},
                "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.replicas"}},
                "additionalPrinterColumns": [{"name": "C", "type": "integer", "jsonPath": ".spec.count"}],
                "selectableFields": [{"jsonPath": ".spec.name"}],
            }
        ],
    },
}
OBJECTS: list[Any] = [
    {
        "apiVersion": "example.com/v1",
        "kind": "Widget",
        "metadata": {"name": "a"},
        "spec": {
            "name": "a",
            "list": [{"k": "x", "v": 1}, {"k": "x", "extra": {}}],
            "map": {"a": 1.5, "b": None},
            "any": {"x": [1]},
            "choice": "a",
            "embedded": {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}},
        },
    },
]


def targets() -> list[Target]:
    schemas = [
        DEFINITION,
        {**DEFINITION, "spec": {**DEFINITION["spec"], "versions": [{**DEFINITION["spec"]["versions"][0], "name": "v1beta1"}]}},
    ]
    return [
        Target(name="definition", make=of_json(schemas), run=_definition, seeds=list(map(orjson.dumps, schemas)), calls_per_byte=2000),
        Target(name="custom-object", make=of_json(OBJECTS), run=_object, seeds=list(map(orjson.dumps, OBJECTS)), calls_per_byte=500),
    ]


def _definition(data: bytes) -> None:
    try:
        crd = decode_json(data)
    except DecodeError:
        return
    if not isinstance(crd, dict):
        return
    # Also what would be refused: a store may hold what a less strict version wrote.
    asyncio.run(CompiledCRDs("/registry", upstream=UpstreamKinds()).load(data))
    (resource,) = (kind for kind in kinds() if kind.resource == "customresourcedefinitions")
    try:
        crd = decode(data, "json", resource)
        check_metadata(crd, resource)
    except StatusError as error:
        assert error.code in {400, 422}, error
        return
    try:
        if resource.schema.type_error(crd) is not None:
            return
        resource.schema.prune(crd)
        resource.schema.default(crd)
    except StatusError as error:
        assert error.code == 400, error
        return
    strategy = CRDStrategy()
    strategy.prepare_for_create(crd)
    given = copy.deepcopy(crd)
    problems = strategy.validate(crd)
    assert all(str(problem) for problem in problems)
    strategy.warnings(crd, None)
    assert crd == given
    if not problems and crd["metadata"].get("name"):
        assert strategy.validate_update(crd, given) == []
        served = {**crd, "status": {**crd["status"], "acceptedNames": crd["spec"]["names"]}}
        loaded = asyncio.run(CompiledCRDs("/registry", upstream=UpstreamKinds()).load(orjson.dumps(served)))
        assert loaded.error is None


_SCHEMA = compile_schema(DEFINITION["spec"]["versions"][0]["schema"]["openAPIV3Schema"])


def _object(data: bytes) -> None:
    try:
        obj = decode_json(data)
    except DecodeError:
        return
    if not isinstance(obj, dict):
        return
    _SCHEMA.prune(obj)
    try:
        _SCHEMA.default(obj)
    except (TooManyDefaultsError, SchemaTooDeepError):
        return
    before = copy.deepcopy(obj)
    first = _SCHEMA.validate(obj)
    assert obj == before
    assert [str(error) for error in _SCHEMA.validate(obj)] == [str(error) for error in first]
    assert _SCHEMA.is_valid(obj) == (not first)
    assert _SCHEMA.prune(obj) == []
    assert obj == before
