"""Fragments: the JSON of one resource's paths and models, ready to be joined with others into a document.

A document of OpenAPI v3 is for one group and version, the one of v2 for everything. Both are joined from bytes: a CRD that changes costs
its own fragment.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.bootstrap.descriptions import with_descriptions
from kcp_py.bootstrap.kinds import REFERENCE_PREFIX, definitions
from kcp_py.bootstrap.known import known_definitions
from kcp_py.schema.publish.kinds import META, PublishedKind
from kcp_py.schema.publish.operations import DELETE_OPTIONS, PATCH, SCALE, STATUS, Operation, Parameter, PathItem, path_items
from kcp_py.schema.publish.schemas import full_schema, list_schema, reduced_schema

_V2_PREFIX: Final = "#/definitions/"
_SHARED: Final = (META + "ListMeta", META + "ObjectMeta", DELETE_OPTIONS, PATCH, STATUS)
"""What every resource's operations refer to."""
_ANSWER_TYPES: Final = ("application/json", "application/yaml")
_WATCH_TYPES: Final = ("application/json", "application/json;stream=watch", "application/yaml")
_BEARER_TOKEN: Final = b'{"description":"Bearer Token authentication","type":"apiKey","name":"authorization","in":"header"}'
_UNAUTHORIZED: Final = {"401": {"description": "Unauthorized"}}


PART_BYTES: Final = 64 * 1024
"""Documents are put together in parts of this size: those of hundreds of definitions have tens of megabytes."""


class Fragment(NamedTuple):
    """JSON members, each `"name":value`, by name."""

    paths: Mapping[str, bytes]
    models: Mapping[str, bytes]
    """`components.schemas` in v3, `definitions` in v2."""
    weight: int = 0
    """Bytes that this fragment shares with no other."""


def fragment_v3(kind: PublishedKind) -> Fragment:
    """What a v3 document says of a resource."""
    paths = {item.path: _member(item.path, _path_item_v3(kind, item)) for item in path_items(kind)}
    models = dict(_builtin_models(_referred(kind), v2=False))
    if not kind.definition:
        models[kind.model] = _member(kind.model, full_schema(kind))
        models[kind.list_model] = _member(kind.list_model, list_schema(kind, REFERENCE_PREFIX))
    return _weighed(paths, models, kind)


def fragment_v2(kind: PublishedKind) -> Fragment:
    """What the v2 document says of a resource."""
    paths = {item.path: _member(item.path, _path_item_v2(kind, item)) for item in path_items(kind)}
    models = dict(_builtin_models(_referred(kind), v2=True))
    if not kind.definition:
        models[kind.model] = _member(kind.model, reduced_schema(kind))
        models[kind.list_model] = _member(kind.list_model, list_schema(kind, _V2_PREFIX))
    return _weighed(paths, models, kind)


def _referred(kind: PublishedKind) -> Iterator[str]:
    """The built-in models that the operations on a resource refer to."""
    yield from _SHARED
    if kind.has_scale:
        yield SCALE
    if kind.definition:
        yield kind.definition
        yield kind.definition + "List"


def _weighed(paths: Mapping[str, bytes], models: Mapping[str, bytes], kind: PublishedKind) -> Fragment:
    own = () if kind.definition else (models[kind.model], models[kind.list_model])
    return Fragment(paths, models, sum(map(len, paths.values())) + sum(map(len, own)))


def document_v3(fragments: Iterable[Fragment]) -> Iterator[bytes]:
    """A whole document of one group and version, in parts of about `PART_BYTES`, or of one member where that is longer."""
    head = b'{"openapi":"3.0.0","info":{"title":"Kubernetes","version":"unversioned"},"paths":{'
    tail = b'},"securitySchemes":{"BearerToken":' + _BEARER_TOKEN + b"}}}"
    return _parts(fragments, head, b'},"components":{"schemas":{', tail)


def document_v2(fragments: Iterable[Fragment]) -> Iterator[bytes]:
    """The document of everything, in parts as well."""
    head = b'{"swagger":"2.0","info":{"title":"Kubernetes","version":"unversioned"},"paths":{'
    tail = b'},"securityDefinitions":{"BearerToken":' + _BEARER_TOKEN + b'},"security":[{"BearerToken":[]}]}'
    return _parts(fragments, head, b'},"definitions":{', tail)


def _parts(fragments: Iterable[Fragment], head: bytes, middle: bytes, tail: bytes) -> Iterator[bytes]:
    paths: dict[str, bytes] = {}
    models: dict[str, bytes] = {}
    for fragment in fragments:
        paths.update(fragment.paths)
        models.update(fragment.models)
    pieces = [head]
    size = 0
    for members, end in ((paths, middle), (models, tail)):
        for at, name in enumerate(sorted(members)):
            if at:
                pieces.append(b",")
            pieces.append(members[name])
            size += len(members[name])
            if size > PART_BYTES:
                yield b"".join(pieces)
                pieces.clear()
                size = 0
        pieces.append(end)
    yield b"".join(pieces)


def _member(name: str, value: Any) -> bytes:
    return orjson.dumps(name) + b":" + orjson.dumps(value)


def _builtin_models(names: Iterable[str], *, v2: bool) -> Iterator[tuple[str, bytes]]:
    """The models with these names and all that they refer to."""
    reached: set[str] = set()
    pending = list(names)
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            member, references = _builtin_model(name, v2=v2)
            pending.extend(references)
            yield name, member


@cache
def _builtin_model(name: str, *, v2: bool) -> tuple[bytes, tuple[str, ...]]:
    published = definitions().get(name) or known_definitions()[name]
    schema = with_descriptions(name, published)
    if v2:
        schema = _without_defaults(schema)
    member = _member(name, schema)
    if v2:
        # Of all built-in types only this one is a union, which v2 cannot say.
        if name.endswith(".resource.Quantity"):
            member = _member(name, {**{key: value for key, value in schema.items() if key != "oneOf"}, "type": "string"})
        member = member.replace(REFERENCE_PREFIX.encode(), _V2_PREFIX.encode())
    return member, tuple(_references(published))


def _without_defaults(schema: Mapping[str, Any]) -> Mapping[str, Any]:
    """Of the model of a known kind: v2 publishes no defaults (kube-openapi `handler.PruneDefaults`), which stand on its fields."""
    if "properties" not in schema:
        return schema
    properties = {name: {key: value for key, value in child.items() if key != "default"} for name, child in schema["properties"].items()}
    return {**schema, "properties": properties}


def _references(schema: Any) -> Iterator[str]:
    if isinstance(schema, dict):
        if isinstance(target := schema.get("$ref"), str):
            yield target.removeprefix(REFERENCE_PREFIX)
        for child in schema.values():
            yield from _references(child)
    elif isinstance(schema, list):
        for child in schema:
            yield from _references(child)


def _path_item_v3(kind: PublishedKind, item: PathItem) -> dict[str, Any]:
    result: dict[str, Any] = {operation.method: _operation_v3(kind, operation) for operation in item.operations}
    result["parameters"] = [_parameter_v3(parameter) for parameter in item.parameters]
    return result


def _operation_v3(kind: PublishedKind, operation: Operation) -> dict[str, Any]:
    answer = {"schema": {"$ref": REFERENCE_PREFIX + operation.answer}}
    types = _WATCH_TYPES if operation.watchable else _ANSWER_TYPES
    response = {"description": "OK", "content": dict.fromkeys(types, answer)}
    result: dict[str, Any] = {"tags": [kind.tag], "description": operation.summary, "operationId": operation.operation_id}
    if operation.parameters:
        result["parameters"] = [_parameter_v3(parameter) for parameter in operation.parameters]
    if operation.body:
        body = {"schema": {"$ref": REFERENCE_PREFIX + operation.body}}
        request: dict[str, Any] = {"content": dict.fromkeys(operation.body_types, body)}
        if operation.action in {"patch", "post", "put"}:
            request["required"] = True
        result["requestBody"] = request
    result["responses"] = {code: {**response, "description": _DESCRIPTIONS[code]} for code in operation.codes} | _UNAUTHORIZED
    result["x-kubernetes-action"] = operation.action
    result["x-kubernetes-group-version-kind"] = kind.group_version_kind
    return result


_DESCRIPTIONS: Final = {"200": "OK", "201": "Created", "202": "Accepted"}


def _parameter_v3(parameter: Parameter) -> dict[str, Any]:
    result: dict[str, Any] = {"name": parameter.name, "in": parameter.place, "schema": {"type": parameter.type, "uniqueItems": True}}
    if parameter.place == "path":
        result["required"] = True
    return result


def _path_item_v2(kind: PublishedKind, item: PathItem) -> dict[str, Any]:
    result: dict[str, Any] = {operation.method: _operation_v2(kind, operation) for operation in item.operations}
    result["parameters"] = [_parameter_v2(parameter) for parameter in item.parameters]
    return result


def _operation_v2(kind: PublishedKind, operation: Operation) -> dict[str, Any]:
    answer = {"schema": {"$ref": _V2_PREFIX + operation.answer}}
    parameters = [_parameter_v2(parameter) for parameter in operation.parameters]
    if operation.body:
        body: dict[str, Any] = {"name": "body", "in": "body", "schema": {"$ref": _V2_PREFIX + operation.body}}
        if operation.action in {"patch", "post", "put"}:
            body["required"] = True
        parameters.insert(0, body)
    return {
        "tags": [kind.tag],
        "description": operation.summary,
        "operationId": operation.operation_id,
        "schemes": ["https"],
        "consumes": list(operation.body_types) or ["*/*"],
        "produces": list(_WATCH_TYPES if operation.watchable else _ANSWER_TYPES),
        "parameters": parameters,
        "responses": {code: {"description": _DESCRIPTIONS[code], **answer} for code in operation.codes} | _UNAUTHORIZED,
        "x-kubernetes-action": operation.action,
        "x-kubernetes-group-version-kind": kind.group_version_kind,
    }


def _parameter_v2(parameter: Parameter) -> dict[str, Any]:
    result: dict[str, Any] = {"name": parameter.name, "in": parameter.place, "type": parameter.type, "uniqueItems": True}
    if parameter.place == "path":
        result["required"] = True
    return result
