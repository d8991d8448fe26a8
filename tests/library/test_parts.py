"""`ObjectPart`: a part of an object under the lock of the object, with permissions of its own."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py import ControlPlane, GroupVersionKind, StoredResource
from kcp_py.library.parts import ObjectPart
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

FOOS = "/clusters/a/apis/example.com/v1/namespaces/default/foos"
CONFIG = f"{FOOS}/one/config"
MERGE = {"headers": [("Content-Type", "application/merge-patch+json")]}
JSON = {"headers": [("Content-Type", "application/json-patch+json")]}
APPLY = {"headers": [("Content-Type", "application/apply-patch+yaml")]}
TEXTS = {"type": "object", "properties": {"msg": {"type": "string", "maxLength": 5}, "more": {"type": "string"}}}


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
        await api.fails(415, "PATCH", f"{CONFIG}?fieldManager=me", config(), **APPLY)
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
