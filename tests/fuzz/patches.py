"""Patches of every type, and the owners of fields."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.managedfields.entries import ManagedFieldsError, decode_entries, encode_entries
from kcp_py.apimachinery.managedfields.fieldsets import FieldSetError, decode, paths, show
from kcp_py.apimachinery.managedfields.merging import DuplicateKeyError
from kcp_py.apimachinery.managedfields.ownership import ConflictsError, Versions
from kcp_py.apimachinery.managedfields.tracking import ManagedWrite, conflict_message, conflicts_of, track_apply, track_update
from kcp_py.apimachinery.managedfields.types import DEDUCED, MergeType
from kcp_py.apimachinery.meta.decoding import type_problem
from kcp_py.apimachinery.patches import json_patch, merge_patch, strategic_merge_patch
from kcp_py.apimachinery.serializer.json.codec import DecodeError, decode_json
from tests.fuzz.documents import METADATA, plain
from tests.fuzz.mutation import of_json
from tests.fuzz.target import Target
from tests.schema.reading import merge_type

ORIGINAL: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "p", "labels": {"a/b": "c", "": "e", "~": "t"}},
    "spec": {
        "containers": [{"name": "a", "image": "x", "ports": [{"containerPort": 1}]}, {"name": "b"}],
        "args": ["1", "2"],
        "count": 1,
        "deep": [[[1]]],
        "none": None,
    },
}
OPERATIONS: list[Any] = [
    {"op": "add", "path": "/spec/args/-", "value": "3"},
    {"op": "remove", "path": "/spec/none"},
    {"op": "replace", "path": "/metadata/labels/a~1b", "value": {"x": [1]}},
    {"op": "move", "from": "/spec/args/0", "path": "/spec/first"},
    {"op": "copy", "from": "/spec", "path": "/spec/copied"},
    {"op": "test", "path": "/spec/count", "value": 1},
    {"op": "test", "path": "", "value": {}},
    {"op": "add", "path": "/spec/containers/0", "value": {"name": "c"}},
]
MERGES: list[Any] = [
    {"spec": {"count": None, "args": ["9"], "new": {"a": None, "b": {"c": None}}}},
    {"metadata": {"labels": {"a/b": None}}},
    ORIGINAL,
]
DIRECTIVES: list[Any] = [
    {"spec": {"containers": [{"name": "a", "image": "y"}, {"name": "b", "$patch": "delete"}, {"$patch": "replace"}]}},
    {"spec": {"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "a"}]}},
    {"spec": {"$deleteFromPrimitiveList/finalizers": ["x"], "$retainKeys": ["args"], "args": ["1"], "$patch": "merge"}},
    {"$patch": "replace", "spec": {"strategy": {"$retainKeys": ["type"], "type": "x"}}},
]
MERGED = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
SCHEMA: dict[str, Any] = {
    "properties": {
        "spec": {
            "properties": {
                "containers": {"type": "array", "items": {"$ref": "#/definitions/container"}, **MERGED},
                "args": {"type": "array", "items": {"type": "string"}},
                "finalizers": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
                "strategy": {"type": "object", "properties": {}, "x-kubernetes-patch-strategy": "retainKeys"},
            }
        }
    }
}
DEFINITIONS = {"container": {"properties": {"name": {"type": "string"}, "ports": {"type": "array", "items": {}, **MERGED}}}}
FIELDS: dict[str, Any] = {
    "f:metadata": {"f:labels": {".": {}, "f:a": {}}, "f:finalizers": {".": {}, 'v:"x"': {}}},
    "f:spec": {"f:ports": {'k:{"port":80,"protocol":"TCP"}': {".": {}, "f:port": {}}}, "i:3": {}, "v:1": {}, "x:y": {}, "f:": {}},
}
LIST = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {"type": "object", "properties": {"name": {"type": "string", "default": "d"}, "value": {"type": "integer"}}},
}
KIND = merge_type(
    {
        "type": "object",
        "properties": {
            "metadata": {"type": "object"},
            "spec": {
                "type": "object",
                "properties": {
                    "containers": LIST,
                    "args": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                    "deep": {"type": "array"},
                    "count": {"type": "integer"},
                },
            },
        },
    },
    resource=True,
)
APPLIED: list[Any] = [
    {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "p"},
        "spec": {"containers": [{"name": "a", "value": 1}, {"value": 2}], "args": ["1"]},
    },
    {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "labels": {"x": "y"}}, "spec": {"count": 2, "deep": [[1], {"a": 1}]}},
]


def targets() -> list[Target]:
    return [
        Target(
            name="json-patch",
            make=of_json([OPERATIONS, *([operation] for operation in OPERATIONS)]),
            run=_json_patch,
            seeds=[orjson.dumps([operation]) for operation in OPERATIONS[:6]],
        ),
        Target(name="merge-patch", make=of_json(MERGES), run=_merge_patch, seeds=list(map(orjson.dumps, MERGES))),
        Target(
            name="strategic-merge-patch", make=of_json([*MERGES, *DIRECTIVES]), run=_strategic, seeds=list(map(orjson.dumps, DIRECTIVES))
        ),
        Target(name="fields-v1", make=of_json([FIELDS]), run=_fields, seeds=[orjson.dumps(FIELDS)]),
        Target(
            name="managed-fields", make=of_json([METADATA["managedFields"]]), run=_entries, seeds=[orjson.dumps(METADATA["managedFields"])]
        ),
        Target(name="apply", make=of_json(APPLIED), run=_apply, seeds=list(map(orjson.dumps, APPLIED)), calls_per_byte=1000),
    ]


def _decoded(data: bytes) -> tuple[Any, ...]:
    try:
        return (decode_json(data),)
    except DecodeError:
        return ()


def _json_patch(data: bytes) -> None:
    for patch in _decoded(data):
        before = copy.deepcopy((ORIGINAL, patch))
        try:
            result = json_patch.apply(ORIGINAL, patch)
        except StatusError as error:
            assert error.code in {400, 413, 422}, error
        else:
            plain(result) if not isinstance(result, dict) or len(orjson.dumps(result)) < 100_000 else None
        assert before == (ORIGINAL, patch)
        if isinstance(patch, list):
            json_patch.unknown_fields(patch)


def _merge_patch(data: bytes) -> None:
    for patch in _decoded(data):
        before = copy.deepcopy((ORIGINAL, patch))
        try:
            result = merge_patch.apply(ORIGINAL, patch)
        except StatusError as error:
            assert error.code == 400, error
        else:
            plain(result)
            again = merge_patch.apply(result, patch)
            assert merge_patch.apply(again, patch) == again, "a merge patch says what there shall be"
        assert before == (ORIGINAL, patch)


def _strategic(data: bytes) -> None:
    for patch in _decoded(data):
        before = copy.deepcopy((ORIGINAL, patch))
        try:
            plain(strategic_merge_patch.apply(ORIGINAL, patch, SCHEMA, DEFINITIONS))
        except StatusError as error:
            assert error.code in {400, 422}, error
        assert before == (ORIGINAL, patch)


def _fields(data: bytes) -> None:
    for value in _decoded(data):
        try:
            fields = decode(value)
        except FieldSetError as error:
            assert str(error)
            continue
        assert decode(orjson.loads(orjson.dumps(fields))) == fields
        for path in paths(fields):
            assert isinstance(show(path), str)


def _entries(data: bytes) -> None:
    for value in _decoded(data):
        try:
            managed = decode_entries(value)
        except ManagedFieldsError as error:
            assert str(error)
            continue
        written = encode_entries(managed)
        plain(written)
        assert encode_entries(decode_entries(written)) == written


def _unchanged(kind: MergeType, obj: Any, _version: str) -> tuple[MergeType, Any]:
    return kind, obj


def _apply(data: bytes) -> None:
    for value in _decoded(data):
        if not isinstance(value, dict) or type_problem(value) is not None or not isinstance(value.get("metadata"), dict):
            continue
        for kind in (KIND, DEDUCED):
            versions = Versions("v1", kind, partial(_unchanged, kind), key=object())
            live = copy.deepcopy(ORIGINAL)
            try:
                track_update(versions, None, live, ManagedWrite(name="first", time="2024-01-01T00:00:00Z"))
                by = ManagedWrite(name="m", time="2024-01-01T00:00:01Z")
                applied, _ = track_apply(versions, live, copy.deepcopy(value), by, force=True)
                again, _ = track_apply(versions, copy.deepcopy(applied), copy.deepcopy(value), by, force=False)
                assert again == applied, "applying the same again changes nothing"
                other = copy.deepcopy(value)
                track_update(versions, live, other, ManagedWrite(name="o", time="2024-01-01T00:00:02Z"))
                track_apply(versions, other, copy.deepcopy(APPLIED[0]), ManagedWrite(name="n", time="2024-01-01T00:00:03Z"), force=False)
            except DuplicateKeyError as error:
                assert str(error)
            except ConflictsError as error:
                assert conflict_message(conflicts_of(error))
