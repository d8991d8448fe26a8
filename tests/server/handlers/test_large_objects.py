"""Objects near the size limit of a body are read, checked and written in threads, with the same answers as small ones."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kcp_py.aio import offload
from kcp_py.apimachinery.serializer.yaml.codec import encode_yaml
from tests.server.handlers.conftest import Api, instance, make_crd
from tests.server.handlers.widgets import MERGE, WIDGETS, install, spec_schema

pytestmark = pytest.mark.anyio

PART: dict[str, Any] = {
    "type": "object",
    "properties": {"name": {"type": "string", "pattern": "^[a-z0-9]*$"}, "count": {"type": "integer", "default": 1}},
}
SCHEMA = spec_schema(parts={"type": "array", "items": PART})
MANY = [{"name": f"n{index}"} for index in range(5_000)]


@pytest.fixture
async def widgets(api: Api) -> Api:
    await install(api, make_crd(schema=SCHEMA))
    return api


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Keeps the thread for large work busy until it is set."""
    release = threading.Event()
    offload._thread().submit(release.wait, 60)
    yield release
    release.set()


def large(name: str, /, **part: Any) -> dict[str, Any]:
    return instance(name, spec={"parts": [*MANY, part]})


@pytest.mark.parametrize("media", ["json", "yaml"])
async def test_other_requests_are_answered_while_a_large_body_is_read(widgets: Api, held: threading.Event, media: str) -> None:
    """With the thread for large work stopped, nothing but the large request waits."""
    obj = large("large", count=2)
    content = json.dumps(obj).encode() if media == "json" else encode_yaml(obj)
    waiting = asyncio.ensure_future(widgets("POST", WIDGETS, content=content, headers={"Content-Type": f"application/{media}"}))
    for name in ("one", "two", "three"):
        await widgets.ok("POST", WIDGETS, instance(name, spec={"parts": [{}]}))
    assert not waiting.done()
    held.set()
    created = await waiting
    assert created.status_code == 201
    assert created.json()["spec"]["parts"][0] == {"name": "n0", "count": 1}
    assert created.json()["spec"]["parts"][-1] == {"count": 2}


JSON_PATCH, APPLY = "application/json-patch+json", "application/apply-patch+yaml"


def ops(*operations: dict[str, Any]) -> bytes:
    return json.dumps(operations).encode()


SHIFTS: list[dict[str, Any]] = [{"op": "add", "path": "/spec/parts/0", "value": {"name": "x"}}, {"op": "remove", "path": "/spec/parts/0"}]
NESTING: list[dict[str, Any]] = [
    {"op": "move", "from": "/spec", "path": "/status"},
    {"op": "add", "path": "/spec", "value": {}},
    {"op": "move", "from": "/status", "path": "/spec/status"},
]
OWNED: dict[str, Any] = {f'k:{{"name":"n{number}"}}': {".": {}, "f:name": {}, "f:count": {}} for number in range(25_000)}
ENTRY = {"manager": "x", "operation": "Update", "apiVersion": "example.com/v1", "fieldsType": "FieldsV1", "fieldsV1": {"f:spec": OWNED}}
MANAGED = json.dumps({"metadata": {"managedFields": [ENTRY]}}, separators=(",", ":")).encode()
HOSTILE = {
    "tests": (JSON_PATCH, ops(*[{"op": "test", "path": "/spec/parts/0/name", "value": "n0"}] * 10_000), 200),
    "copies": (JSON_PATCH, ops(*[{"op": "copy", "from": "/spec/parts", "path": "/spec/parts/-"}] * 40), 422),
    "shifts": (JSON_PATCH, ops(*SHIFTS * 5_000), 200),
    "nesting": (JSON_PATCH, ops(*NESTING * 3_000), 422),
    "owners": (MERGE["Content-Type"], MANAGED, 200),
    "nulls": (MERGE["Content-Type"], json.dumps({"spec": {f"k{number}": None for number in range(50_000)}}).encode(), 200),
    "conflicts": (APPLY, json.dumps(large("one", name="n1", count=3)).encode(), 409),
}


@pytest.mark.parametrize("patch", HOSTILE.values(), ids=HOSTILE)
async def test_other_requests_are_answered_while_a_hostile_patch_is_worked_on(
    widgets: Api, held: threading.Event, patch: tuple[str, bytes, int]
) -> None:
    """Whatever the size of the object: operations by the thousand, copies of copies, and owners of a hundred thousand fields."""
    media, body, code = patch
    await widgets.ok("POST", WIDGETS, instance("one", spec={"parts": [{"name": "n0"}]}))
    headers = {"Content-Type": media}
    params = {"fieldManager": "m"}
    waiting = asyncio.ensure_future(widgets("PATCH", f"{WIDGETS}/one", content=body, headers=headers, params=params))
    for name in ("two", "three"):
        await widgets.ok("POST", WIDGETS, instance(name, spec={"parts": [{}]}))
    assert not waiting.done()
    held.set()
    answer = await waiting
    assert answer.status_code == code, answer.text[:1000]
    await widgets.ok("PATCH", f"{WIDGETS}/one", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)


async def test_large_objects_are_told_the_same(widgets: Api) -> None:
    """Unknown fields, wrong values and repeated keys are found in them too, on create, update and patch."""
    sent = large("large", extra=1)
    strict = await widgets.fails(400, "POST", WIDGETS, sent, params={"fieldValidation": "Strict"})
    frame = 'Widget in version "v1" cannot be handled as a Widget: '
    assert strict["message"] == frame + 'strict decoding error: unknown field "spec.parts[5000].extra"'
    response = await widgets("POST", WIDGETS, sent)
    assert (response.status_code, response.headers["warning"]) == (201, '299 - "unknown field \\"spec.parts[5000].extra\\""')
    wrong = {**response.json(), **large("large", name="NO"), "metadata": response.json()["metadata"]}
    problem = "spec.parts[5000].name in body should match '^[a-z0-9]*$'"
    assert problem in (await widgets.fails(422, "PUT", f"{WIDGETS}/large", wrong))["message"]
    assert problem in (await widgets.fails(422, "PATCH", f"{WIDGETS}/large", {"spec": wrong["spec"]}, headers=MERGE))["message"]
    twice = json.dumps(large("other")).replace('"kind"', '"kind": "x", "kind"', 1).encode()
    status = await widgets.fails(400, "POST", WIDGETS, content=twice, params={"fieldValidation": "Strict"}, headers=JSON)
    assert status["message"] == frame + 'strict decoding error: duplicate field "kind"'
    again = await widgets("GET", f"{WIDGETS}/large", headers={"Accept": "application/yaml"})
    assert again.status_code == 200
    assert "name: n4999" in again.text


JSON = {"Content-Type": "application/json"}


async def test_defaults_that_would_fill_the_memory_are_refused(api: Api) -> None:
    """A small object of a small definition: 413, and the server goes on."""
    schema: dict[str, Any] = {"type": "object", "properties": {"leaf": {"type": "string", "default": "x"}}}
    for _ in range(6):
        schema = {"type": "object", "properties": {"list": {"type": "array", "items": schema, "default": [{}] * 500}}}
    await install(api, make_crd(schema={"type": "object", "properties": {"spec": schema}}))
    status = await api.fails(413, "POST", WIDGETS, instance("one", spec={}))
    assert (status["reason"], status["message"]) == ("RequestEntityTooLarge", "Request entity too large: limit is 4194304")
    await api.ok("POST", WIDGETS, instance("two"))


async def test_what_is_stored_can_be_read_and_deleted_whatever_defaults_come(widgets: Api) -> None:
    """A later definition with more defaults than fit into memory does not lock objects up."""
    await widgets.ok("POST", WIDGETS, large("large"))
    crd = "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
    bomb = {**PART, "properties": {**PART["properties"], "text": {"type": "string", "default": "x" * 10_000}}}
    change = [
        {"op": "replace", "path": "/spec/versions/0/schema/openAPIV3Schema", "value": spec_schema(parts={"type": "array", "items": bomb})}
    ]
    await widgets.ok("PATCH", crd, change, headers={"Content-Type": "application/json-patch+json"})
    read = await widgets.ok("GET", f"{WIDGETS}/large")
    assert len(read["spec"]["parts"]) == len(MANY) + 1
    assert read["spec"]["parts"][0]["text"] == "x" * 10_000
    await widgets.ok("DELETE", f"{WIDGETS}/large")
    await widgets.fails(404, "GET", f"{WIDGETS}/large")
