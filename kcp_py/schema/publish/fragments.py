"""Fragments: one resource's paths and models in JSON or in protobuf, ready to be joined with others into a document.

A document of OpenAPI v3 is for one group and version, the one of v2 for everything. All are joined from bytes: a CRD that changes costs
its own fragment.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

import orjson

from kcp_py.bootstrap.descriptions import MISSING, are_installed, with_descriptions
from kcp_py.bootstrap.kinds import REFERENCE_PREFIX, models
from kcp_py.bootstrap.upstream_kinds import upstream_models
from kcp_py.schema.publish.defaults import with_published_defaults
from kcp_py.schema.publish.kinds import META, PublishedKind
from kcp_py.schema.publish.messages import field, field_head, model_message, path_message
from kcp_py.schema.publish.operations import DELETE_OPTIONS, PATCH, STATUS, Operation, Parameter, PathItem, path_items
from kcp_py.schema.publish.schemas import full_schema, list_schema, plain_schema, reduced_schema

_V2_PREFIX: Final = "#/definitions/"
_SHARED: Final = (META + "ListMeta", META + "ObjectMeta", DELETE_OPTIONS, PATCH, STATUS)
"""What every resource's operations refer to."""
_ANSWER_TYPES: Final = ("application/json", "application/yaml")
_WATCH_TYPES: Final = ("application/json", "application/json;stream=watch", "application/yaml")
_BEARER_TOKEN: Final = b'{"description":"Bearer Token authentication","type":"apiKey","name":"authorization","in":"header"}'
_INT_OR_STRING: Final = ".intstr.IntOrString"
_UNIONS: Final = (".resource.Quantity", _INT_OR_STRING)
"""The only built-in types with alternatives, which v2 cannot express; clients know the format."""
_UNAUTHORIZED: Final = {"401": {"description": "Unauthorized"}}


PART_BYTES: Final = 64 * 1024
"""Documents are put together in parts of this size: those of hundreds of models have tens of megabytes."""


class Fragment(NamedTuple):
    """JSON members, each `"name":value`, or elements of protobuf fields, each of a name and a value; by name."""

    paths: Mapping[str, bytes]
    models: Mapping[str, bytes]
    """`components.schemas` in v3, `definitions` in v2."""
    own: Sequence[str] = ()
    """The models that are of this resource alone, though they may be called as built-in ones are."""
    weight: int = 0
    """Bytes that this fragment shares with no other."""


def fragment_v3(kind: PublishedKind) -> Fragment:
    """The part of a v3 document about a resource."""
    paths = {item.path: _member(item.path, _path_item_v3(kind, item)) for item in path_items(kind)}
    models = {**dict(_builtin_models(_referred(kind), v2=False)), **_subresource_models(kind)}
    if not kind.upstream_model:
        models[kind.model] = _member(kind.model, full_schema(kind))
        models[kind.list_model] = _member(kind.list_model, list_schema(kind, REFERENCE_PREFIX))
    return _weighed(paths, models, _own(kind))


def fragment_v2(kind: PublishedKind) -> Fragment:
    """The part of the v2 document about a resource."""
    paths = {item.path: _member(item.path, _path_item_v2(kind, item)) for item in path_items(kind)}
    models = {**dict(_builtin_models(_referred(kind), v2=True)), **_subresource_models(kind)}
    if not kind.upstream_model:
        models[kind.model] = _member(kind.model, reduced_schema(kind))
        models[kind.list_model] = _member(kind.list_model, list_schema(kind, _V2_PREFIX))
    return _weighed(paths, models, _own(kind))


def protobuf_fragment(fragment: Fragment, version: int) -> Fragment:
    """A fragment in protobuf.

    Args:
        fragment: in JSON.
        version: 2 or 3, of OpenAPI.
    """
    paths = {name: path_message(version, name, _value(name, member)) for name, member in fragment.paths.items()}
    models = {
        name: model_message(version, name, _value(name, member)) if name in fragment.own else _builtin_message(name, version)
        for name, member in fragment.models.items()
    }
    return _weighed(paths, models, fragment.own)


@cache
def _builtin_message(name: str, version: int) -> bytes:
    member, _ = _builtin_model(name, v2=version == 2)
    return model_message(version, name, _value(name, member))


def _value(name: str, member: bytes) -> Any:
    return orjson.loads(member[len(orjson.dumps(name)) + 1 :])


def _referred(kind: PublishedKind) -> Iterator[str]:
    """The built-in models that the operations on a resource refer to."""
    yield from _SHARED
    yield from (subresource.model for subresource in kind.subresources if subresource.model in models())
    if kind.upstream_model:
        yield kind.upstream_model
        if "list" in kind.verbs:
            yield kind.upstream_model + "List"


def _subresource_models(kind: PublishedKind) -> dict[str, bytes]:
    """Models of kinds that subresources served by code have, and of which nothing but the name is known."""
    found = {}
    for one in kind.subresources:
        if one.model and one.model not in models():
            found[one.model] = _member(one.model, {"type": "object", "x-kubernetes-group-version-kind": [one.group_version_kind]})
    return found


def _weighed(paths: Mapping[str, bytes], models: Mapping[str, bytes], own: Sequence[str]) -> Fragment:
    return Fragment(paths, models, own, sum(map(len, paths.values())) + sum(len(models[name]) for name in own))


def _own(kind: PublishedKind) -> tuple[str, ...]:
    own = () if kind.upstream_model else (kind.model, kind.list_model)
    return (*own, *_subresource_models(kind))


def _info() -> dict[str, str]:
    """The document's `info`: upstream's, and where descriptions of built-in kinds are missing, how to get them."""
    info = {"title": "Kubernetes", "version": "unversioned"}
    return info if are_installed() else {**info, "description": MISSING}


def document_v3(fragments: Iterable[Fragment]) -> Iterator[bytes]:
    """A whole document of one group and version, in parts of about `PART_BYTES`, or of one member where that is longer."""
    head = b'{"openapi":"3.0.0","info":' + orjson.dumps(_info()) + b',"paths":{'
    tail = b'},"securitySchemes":{"BearerToken":' + _BEARER_TOKEN + b"}}}"
    return _parts(fragments, head, b'},"components":{"schemas":{', tail)


def document_v2(fragments: Iterable[Fragment]) -> Iterator[bytes]:
    """The document of everything, in parts as well."""
    head = b'{"swagger":"2.0","info":' + orjson.dumps(_info()) + b',"paths":{'
    tail = b'},"securityDefinitions":{"BearerToken":' + _BEARER_TOKEN + b'},"security":[{"BearerToken":[]}]}'
    return _parts(fragments, head, b'},"definitions":{', tail)


def protobuf_document(fragments: Iterable[Fragment], version: int) -> Iterator[bytes]:
    """A whole document in protobuf, in such parts.

    Args:
        fragments: in protobuf.
        version: 2 or 3, of OpenAPI.
    """
    paths, models = _merged(fragments)
    lengths = [sum(map(len, members.values())) for members in (paths, models)]
    # The numbers of the fields in gnostic's `OpenAPIv2.proto` and `OpenAPIv3.proto`.
    numbers = {"title": 1, "version": 2, "description": 3} if version == 2 else {"title": 1, "description": 2, "version": 6}
    info = field(
        2, b"".join(field(numbers[name], text.encode()) for name, text in sorted(_info().items(), key=lambda one: numbers[one[0]]))
    )
    if version == 2:
        heads = field(1, b"2.0") + info + field_head(8, lengths[0]), field_head(9, lengths[1])
        tail = field(12, field(1, field(1, b"BearerToken") + field(2, b""))) + field(13, field(1, _scheme_message(2)))
    else:
        schemas, tail = field_head(1, lengths[1]), field(7, field(1, _scheme_message(3)))
        components = field_head(5, len(schemas) + lengths[1] + len(tail))
        heads = field(1, b"3.0.0") + info + field_head(4, lengths[0]), components + schemas
    return _joined(itertools.chain([heads[0]], _by_name(paths), [heads[1]], _by_name(models), [tail]))


def _scheme_message(version: int) -> bytes:
    """How to authenticate: the second choice of v2's is a key; in v3 the second is a reference."""
    scheme = orjson.loads(_BEARER_TOKEN)
    rows = {2: ("type", "name", "in", "description"), 3: ("type", "description", "name", "in")}[version]
    key = b"".join(field(number, scheme[member].encode()) for number, member in enumerate(rows, 1))
    return field(1, b"BearerToken") + field(2, field(2 if version == 2 else 1, key))


def _parts(fragments: Iterable[Fragment], head: bytes, middle: bytes, tail: bytes) -> Iterator[bytes]:
    paths, models = _merged(fragments)
    return _joined(itertools.chain([head], _separated(_by_name(paths)), [middle], _separated(_by_name(models)), [tail]))


def _merged(fragments: Iterable[Fragment]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    paths: dict[str, bytes] = {}
    models: dict[str, bytes] = {}
    for fragment in fragments:
        paths.update(fragment.paths)
        models.update(fragment.models)
    return paths, models


def _by_name(members: Mapping[str, bytes]) -> Iterator[bytes]:
    return (members[name] for name in sorted(members))


def _separated(members: Iterator[bytes]) -> Iterator[bytes]:
    for at, member in enumerate(members):
        if at:
            yield b","
        yield member


def _joined(pieces: Iterable[bytes]) -> Iterator[bytes]:
    collected: list[bytes] = []
    size = 0
    for piece in pieces:
        collected.append(piece)
        size += len(piece)
        if size > PART_BYTES:
            yield b"".join(collected)
            collected.clear()
            size = 0
    if collected:
        yield b"".join(collected)


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
    published = models().get(name) or upstream_models()[name]
    schema = with_descriptions(name, published)
    if name.endswith(_INT_OR_STRING):
        schema = {**schema, "format": "int-or-string"}
    if v2:
        schema = plain_schema(schema)
        if name.endswith(_UNIONS):
            schema = {**{key: value for key, value in schema.items() if key != "oneOf"}, "type": "string"}
    else:
        schema = with_published_defaults(name, schema)
    return _member(name, schema), tuple(_references(published))


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
    result["x-kubernetes-group-version-kind"] = operation.group_version_kind or kind.group_version_kind
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
        "x-kubernetes-group-version-kind": operation.group_version_kind or kind.group_version_kind,
    }


def _parameter_v2(parameter: Parameter) -> dict[str, Any]:
    result: dict[str, Any] = {"name": parameter.name, "in": parameter.place, "type": parameter.type, "uniqueItems": True}
    if parameter.place == "path":
        result["required"] = True
    return result
