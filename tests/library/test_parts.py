"""`ObjectPart`: a part of an object under the lock of the object, with permissions of its own."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py import Attributes, ControlPlane, GroupVersionKind, StoredResource
from kcp_py.library.parts import ObjectPart
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

FOOS = "/clusters/a/apis/example.com/v1/namespaces/default/foos"
CONFIG = f"{FOOS}/one/config"
MERGE = {"headers": [("Content-Type", "application/merge-patch+json")]}
JSON = {"headers": [("Content-Type", "application/json-patch+json")]}
APPLY = {"headers": [("Content-Type", "application/apply-patch+yaml")]}
PROPERTIES: dict[str, dict[str, Any]] = {"msg": {"type": "string", "maxLength": 5}, "more": {"type": "string"}}
TEXTS = {"type": "object", "properties": PROPERTIES}


def config(**more: Any) -> dict[str, Any]:
    return {"apiVersion": "example.com/v1", "kind": "Config", "metadata": {"name": "one"}, **more}


async def test_a_part_is_written_under_the_lock_of_its_object(tmp_path: Path) -> None:
    """GET, PUT and PATCH change the part alone; conflicts, dry runs, races, permissions, owners of fields, and refusals of the object."""
    foos = StoredResource(
        group="example.com",
        version="v1",
        resource="foos",
        kind="Foo",
        schema={"type": "object", "properties": {"spec": {"type": "object", "properties": {"config": TEXTS, "size": {"type": "integer"}}}}},
    )
    cp = ControlPlane(options(tmp_path), apis=[foos])
    kind = GroupVersionKind("example.com", "v1", "Config")
    schema = {"type": "object", "properties": {"spec": TEXTS}}
    cp.subresource("foos.example.com", "config", kind=kind, schema=schema)(ObjectPart(lambda: cp.client, {"spec": "spec.config"}))
    async with cp, httpx.AsyncClient(transport=httpx.ASGITransport(cp.app), base_url="https://kcp.test") as client:
        api = Api(client, cp)
        await api.fails(404, "GET", CONFIG)
        await api.fails(404, "PUT", CONFIG, config())
        made = {"kind": "Foo", "metadata": {"name": "one", "labels": {"a": "b"}}, "spec": {"size": 1}}
        foo = await api.ok("POST", FOOS, {"apiVersion": "example.com/v1", **made})
        empty = await api.ok("GET", CONFIG)
        assert (empty["kind"], "spec" in empty, empty["metadata"]["uid"]) == ("Config", False, foo["metadata"]["uid"])
        put = await api.ok("PUT", f"{CONFIG}?fieldManager=me", config(spec={"msg": "hi"}))
        assert (put["spec"], "labels" in put["metadata"]) == ({"msg": "hi"}, False)
        foo = await api.ok("GET", f"{FOOS}/one")
        assert (foo["spec"], foo["metadata"]["labels"]) == ({"size": 1, "config": {"msg": "hi"}}, {"a": "b"})
        assert foo["metadata"]["resourceVersion"] == put["metadata"]["resourceVersion"]
        assert "f:msg" in str([entry for entry in foo["metadata"]["managedFields"] if entry["manager"] == "me"])
        await api.ok("PATCH", f"{CONFIG}?dryRun=All", {"spec": {"msg": "no"}}, **MERGE)
        await api.ok("PATCH", CONFIG, [{"op": "add", "path": "/spec/more", "value": "x"}], **JSON)
        assert (await api.ok("GET", CONFIG))["spec"] == {"msg": "hi", "more": "x"}
        await api.fails(409, "PUT", CONFIG, {**put, "spec": {}})
        await api.fails(409, "PUT", CONFIG, {**config(), "metadata": {"name": "one", "uid": "other"}})
        assert "spec.config.msg" in (await api.fails(422, "PATCH", CONFIG, {"spec": {"msg": "much too long"}}, **MERGE))["message"]
        await api.fails(400, "PUT", CONFIG, {**config(), "metadata": {"name": "two"}})
        await api.fails(403, "GET", CONFIG, token="Bearer user")
        parts = [api.ok("PATCH", CONFIG, {"spec": {"msg": str(n)}}, **MERGE) for n in range(3)]
        wholes = [api.ok("PATCH", f"{FOOS}/one", {"metadata": {"labels": {f"n{n}": "x"}}}, **MERGE) for n in range(3)]
        await asyncio.gather(*parts, *wholes, api.ok("PUT", CONFIG, config(spec={"msg": "put"})))
        assert set((await api.ok("GET", f"{FOOS}/one"))["metadata"]["labels"]) == {"a", "n0", "n1", "n2"}
        await api.ok("PUT", CONFIG, config())
        assert (await api.ok("GET", f"{FOOS}/one"))["spec"] == {"size": 1}


@pytest.mark.parametrize("fields", [{}, {"spec": "status.x"}, {"metadata": "spec"}, {"spec": "kind"}, {"": "spec"}])
def test_other_fields_are_refused(fields: dict[str, str], tmp_path: Path) -> None:
    """Those that a write of the object does not take from a part."""
    cp = ControlPlane(options(tmp_path))
    with pytest.raises(ValueError, match="part"):
        ObjectPart(lambda: cp.client, fields)


def owners(obj: dict[str, Any]) -> dict[tuple[str, str, str], Any]:
    """The fields of the spec with owners, by manager, operation and subresource."""
    entries = obj["metadata"]["managedFields"]
    return {(one["manager"], one["operation"], one.get("subresource", "")): one["fieldsV1"].get("f:spec") for one in entries}


@pytest.fixture
async def applied(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a control plane whose foos have `/config`, with the object `one`."""
    texts = {"type": "object", "properties": {**PROPERTIES, "color": {"type": "string", "default": "red"}}}
    spec = {"type": "object", "properties": {"config": texts, "size": {"type": "integer"}}}
    foos = StoredResource(
        group="example.com", version="v1", resource="foos", kind="Foo", schema={"type": "object", "properties": {"spec": spec}}
    )
    cp = ControlPlane(options(tmp_path), apis=[foos])
    kind, schema = GroupVersionKind("example.com", "v1", "Config"), {"type": "object", "properties": {"spec": texts}}
    cp.subresource("foos.example.com", "config", kind=kind, schema=schema)(ObjectPart(lambda: cp.client, {"spec": "spec.config"}))

    @cp.mutating("foos.example.com/config", operations=["UPDATE"])
    def shout(attributes: Attributes) -> None:
        assert attributes.obj is not None
        if attributes.obj.get("spec", {}).get("msg") == "loud":
            attributes.obj["spec"]["more"] = "!"

    @cp.validating("foos.example.com/config", operations=["UPDATE"])
    def judge(attributes: Attributes) -> str | None:
        assert attributes.obj is not None
        assert attributes.old is not None
        assert attributes.obj["kind"] == attributes.old["kind"] == "Config"
        return "not that" if attributes.obj.get("spec", {}).get("msg") == "bad" else None

    async with cp, httpx.AsyncClient(transport=httpx.ASGITransport(cp.app), base_url="https://kcp.test") as client:
        api = Api(client, cp)
        made = {"kind": "Foo", "metadata": {"name": "one", "labels": {"a": "b"}}, "spec": {"size": 1}}
        await api.ok("POST", f"{FOOS}?fieldManager=maker", {"apiVersion": "example.com/v1", **made})
        yield api


async def test_apply_owns_fields_through_the_subresource(applied: Api) -> None:
    """The owners are entries of the object for `config`; a field that is left out of the next configuration goes."""
    put = await applied.ok("PATCH", f"{CONFIG}?fieldManager=me", config(spec={"msg": "hi", "more": "x"}), **APPLY)
    assert (put["kind"], put["spec"], "managedFields" in put["metadata"]) == ("Config", {"msg": "hi", "more": "x", "color": "red"}, False)
    whole = await applied.ok("GET", f"{FOOS}/one")
    assert whole["spec"] == {"size": 1, "config": put["spec"]}
    assert owners(whole) == {
        ("maker", "Update", ""): {".": {}, "f:size": {}},
        ("me", "Apply", "config"): {"f:config": {"f:more": {}, "f:msg": {}}},
    }
    again = await applied.ok("PATCH", f"{CONFIG}?fieldManager=me", config(spec={"msg": "hi", "more": "x"}), **APPLY)
    assert again["metadata"]["resourceVersion"] == whole["metadata"]["resourceVersion"]
    less = await applied.ok("PATCH", f"{CONFIG}?fieldManager=me", config(spec={"msg": "hi"}), **APPLY)
    assert less["spec"] == {"msg": "hi", "color": "red"}
    # The fields that a manager applies to the object itself are another entry.
    foo = {"apiVersion": "example.com/v1", "kind": "Foo", "metadata": {"name": "one"}, "spec": {"size": 1}}
    both = await applied.ok("PATCH", f"{FOOS}/one?fieldManager=me", foo, **APPLY)
    assert both["spec"]["config"] == less["spec"]
    assert {("me", "Apply", "config"), ("me", "Apply", "")} <= owners(both).keys()


async def test_apply_has_conflicts(applied: Api) -> None:
    """With owners of the subresource and of the object; force takes the fields."""
    await applied.ok("PATCH", f"{CONFIG}?fieldManager=me", config(spec={"msg": "hi"}), **APPLY)
    refused = await applied.fails(409, "PATCH", f"{CONFIG}?fieldManager=you", config(spec={"msg": "ho"}), **APPLY)
    assert 'conflict with "me" with subresource "config": .spec.config.msg' in refused["message"]
    await applied.ok("PATCH", f"{CONFIG}?fieldManager=you&force=true", config(spec={"msg": "ho"}), **APPLY)
    assert ("me", "Apply", "config") not in owners(await applied.ok("GET", f"{FOOS}/one"))
    await applied.ok("PUT", f"{CONFIG}?fieldManager=put", config(spec={"msg": "put"}))
    whole = owners(await applied.ok("GET", f"{FOOS}/one"))
    assert whole["put", "Update", "config"] == {"f:config": {"f:msg": {}}}


async def test_apply_refuses(applied: Api) -> None:
    """Other kinds, names, versions, unknown fields, and what schema and admission refuse; nothing changes. Dry runs store nothing."""
    before = await applied.ok("GET", f"{FOOS}/one")
    path = f"{CONFIG}?fieldManager=me"
    await applied.fails(422, "PATCH", CONFIG, config(spec={}), **APPLY)
    await applied.fails(400, "PATCH", path, {**config(), "kind": "Foo"}, **APPLY)
    await applied.fails(400, "PATCH", path, {**config(), "metadata": {"name": "two"}}, **APPLY)
    await applied.fails(404, "PATCH", path.replace("/one/", "/two/"), {**config(), "metadata": {"name": "two"}}, **APPLY)
    assert 'unknown field "spec.size"' in (await applied.fails(400, "PATCH", path, config(spec={"size": 2}), **APPLY))["message"]
    assert 'unknown field "size"' in (await applied.fails(400, "PATCH", path, config(size=2), **APPLY))["message"]
    stale = {**config(spec={"msg": "x"}), "metadata": {"name": "one", "resourceVersion": "1"}}
    await applied.fails(409, "PATCH", path, stale, **APPLY)
    other = {**config(spec={"msg": "x"}), "metadata": {"name": "one", "uid": "other"}}
    await applied.fails(409, "PATCH", path, other, **APPLY)
    owned = {**config(), "metadata": {"name": "one", "managedFields": [{"manager": "x"}]}}
    await applied.fails(400, "PATCH", path, owned, **APPLY)
    await applied.fails(422, "PATCH", path, config(spec={"msg": "much too long"}), **APPLY)
    assert (await applied.fails(500, "PATCH", path, config(spec={"msg": 5}), **APPLY))["message"]
    assert "not that" in (await applied.fails(403, "PATCH", path, config(spec={"msg": "bad"}), **APPLY))["message"]
    dry = await applied.ok("PATCH", f"{path}&dryRun=All", config(spec={"msg": "dry"}), **APPLY)
    assert dry["spec"]["msg"] == "dry"
    assert await applied.ok("GET", f"{FOOS}/one") == before


async def test_apply_with_mutating_admission(applied: Api) -> None:
    """A plugin changes the stored object; fields that it adds have no owner."""
    made = await applied.ok("PATCH", f"{CONFIG}?fieldManager=me", config(spec={"msg": "loud"}), **APPLY)
    assert made["spec"] == {"msg": "loud", "more": "!", "color": "red"}
    whole = owners(await applied.ok("GET", f"{FOOS}/one"))
    assert whole["me", "Apply", "config"] == {"f:config": {"f:msg": {}}}


async def test_applies_race_with_other_writes(applied: Api) -> None:
    """All of them are carried out."""
    parts = [applied.ok("PATCH", f"{CONFIG}?fieldManager=me{n}", config(spec={"msg": "x"}), **APPLY) for n in range(3)]
    wholes = [applied.ok("PATCH", f"{FOOS}/one", {"metadata": {"labels": {f"n{n}": "x"}}}, **MERGE) for n in range(3)]
    await asyncio.gather(*parts, *wholes)
    whole = await applied.ok("GET", f"{FOOS}/one")
    assert set(whole["metadata"]["labels"]) == {"a", "n0", "n1", "n2"}
    assert {("me0", "Apply", "config"), ("me1", "Apply", "config"), ("me2", "Apply", "config")} <= owners(whole).keys()
