"""Defaults below `status`: a create drops the status, and every read has the defaults of the whole schema."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, Watch, instance, make_crd
from tests.server.handlers.widgets import ALL_WIDGETS, CRD, MERGE, WIDGETS, install

pytestmark = pytest.mark.anyio

ONE = f"{WIDGETS}/one"
OLD = WIDGETS.replace("/v1/", "/v1beta1/")
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
WAITING = {
    "conditions": [{"type": "Accepted", "status": "Unknown", "reason": "Pending"}],
    "phase": "Waiting",
    "replicas": 7,
}
"""The status of a widget on which no controller has reported."""


def waiting(**more: Any) -> dict[str, Any]:
    """A CRD whose status has defaults: of its own, of its fields, and of the items of its own default."""
    condition = {"type": {"type": "string"}, "status": {"type": "string"}, "reason": {"type": "string", "default": "Pending"}}
    status = {
        "type": "object",
        "default": {"conditions": [{"type": "Accepted", "status": "Unknown"}]},
        "properties": {
            "phase": {"type": "string", "default": "Waiting"},
            "replicas": {"type": "integer", "default": 7},
            "conditions": {
                "type": "array",
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["type"],
                "items": {"type": "object", "required": ["type"], "properties": condition},
            },
        },
    }
    spec = {"type": "object", "properties": {"size": {"type": "integer", "default": 3}, "replicas": {"type": "integer", "default": 2}}}
    paths = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    return make_crd(
        schema={"type": "object", "properties": {"spec": spec, "status": status}},
        subresources={"status": {}, "scale": paths},
        selectableFields=[{"jsonPath": ".status.phase"}],
        additionalPrinterColumns=[{"name": "Phase", "type": "string", "jsonPath": ".status.phase"}],
        **more,
    )


async def test_the_answer_of_a_create_has_them(api: Api) -> None:
    """Of a real one and of a dry run, whatever status the client sent; the status belongs to no field manager."""
    await install(api, waiting())
    dry = await api.ok("POST", WIDGETS, instance("one", spec={}), params={"dryRun": "All"})
    created = await api.ok("POST", WIDGETS, instance("one", spec={}))
    sent = await api.ok("POST", WIDGETS, instance("two", spec={}, status={"phase": "Done", "conditions": []}))
    applied = await api.ok("PATCH", f"{WIDGETS}/three", instance("three", spec={}), headers=APPLY, params={"fieldManager": "m"})
    for answer in (dry, created, sent, applied):
        assert answer["status"] == WAITING
        assert answer["spec"] == {"size": 3, "replicas": 2}
        (entry,) = answer["metadata"]["managedFields"]
        assert entry["fieldsV1"].keys() == {"f:spec"}


async def test_every_read_has_them(api: Api) -> None:
    """GET, `/status`, lists and watches, of one cluster and of all, tables, scales, and selection by a field."""
    await install(api, waiting())
    created = await api.ok("POST", WIDGETS, instance("one", spec={}))
    assert await api.ok("GET", ONE) == created
    assert await api.ok("GET", f"{ONE}/status") == created
    for path in (WIDGETS, ALL_WIDGETS):
        for params in ({}, {"fieldSelector": "status.phase=Waiting"}):
            (item,) = (await api.ok("GET", path, params=params))["items"]
            assert item["status"] == WAITING
        async with Watch(api, path, fieldSelector="status.phase=Waiting") as watch:
            event = await watch.next()
        assert event is not None
        assert event["object"]["status"] == WAITING
    (row,) = (await api.ok("GET", WIDGETS, headers=TABLE))["rows"]
    assert row["cells"] == ["one", "Waiting"]
    assert (await api.ok("GET", f"{ONE}/scale"))["status"]["replicas"] == 7


async def test_a_watch_sees_them_as_they_come(api: Api) -> None:
    """The event of a create carries what a read would answer."""
    await install(api, waiting())
    for path in (WIDGETS, ALL_WIDGETS):
        before = (await api.ok("GET", WIDGETS))["metadata"]["resourceVersion"]
        async with Watch(api, path, resourceVersion=before) as watch:
            await api.ok("POST", WIDGETS, instance("one", spec={}))
            event = await watch.next()
        assert event is not None
        assert event["object"]["status"] == WAITING
        await api.ok("DELETE", ONE)


async def test_writes_begin_with_them(api: Api) -> None:
    """A patch finds the defaults, an apply merges with them, and an update that repeats them writes nothing."""
    await install(api, waiting())
    created = await api.ok("POST", WIDGETS, instance("one", spec={}))
    assert await api.ok("PUT", ONE, created) == created
    assert await api.ok("PATCH", ONE, {"spec": {"size": 3}}, headers=MERGE) == created
    assert await api.ok("PUT", f"{ONE}/status", created) == created
    operations = [
        {"op": "test", "path": "/status/phase", "value": "Waiting"},
        {"op": "replace", "path": "/status/conditions/0/status", "value": "True"},
    ]
    patched = await api.ok("PATCH", f"{ONE}/status", operations, headers=JSON_PATCH)
    condition = {"type": "Accepted", "status": "True", "reason": "Pending"}
    assert patched["status"] == WAITING | {"conditions": [condition]}
    config = instance("one", status={"conditions": [{"type": "Accepted", "status": "False"}]})
    applied = await api.ok("PATCH", f"{ONE}/status", config, headers=APPLY, params={"fieldManager": "m", "force": "true"})
    assert applied["status"] == WAITING | {"conditions": [condition | {"status": "False"}]}
    assert applied["metadata"]["generation"] == 1


async def test_a_required_status_is_asked_for_all_the_same(api: Api) -> None:
    """Validation reads the stored object, which has no status: as upstream, where only reads fill it in."""
    crd = waiting()
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["required"] = ["status"]
    await install(api, crd)
    status = await api.fails(422, "POST", WIDGETS, instance("one", spec={}))
    assert [cause["field"] for cause in status["details"]["causes"]] == ["status"]


@pytest.mark.parametrize("storage", ["v1", "v1beta1"])
async def test_other_versions_have_those_of_the_storage_version(api: Api, storage: str) -> None:
    """They are filled in before the conversion, whichever version the object was created in; what the other one lacks is pruned."""
    crd = waiting()
    (first,) = crd["spec"]["versions"]
    status = {"type": "object", "properties": {"phase": {"type": "string"}, "old": {"type": "string", "default": "o"}}}
    second = {"name": "v1beta1", "served": True, "subresources": {"status": {}}}
    second["schema"] = {"openAPIV3Schema": {"type": "object", "properties": {"status": status}}}
    for version in (first, second):
        version["storage"] = version["name"] == storage
    crd["spec"]["versions"] = [first, second]
    await install(api, crd)
    await api.ok("POST", WIDGETS, instance("one", spec={}))
    await api.ok("POST", OLD, instance("two") | {"apiVersion": "example.com/v1beta1"})
    for name in ("one", "two"):
        new = (await api.ok("GET", f"{WIDGETS}/{name}")).get("status")
        old = (await api.ok("GET", f"{OLD}/{name}")).get("status")
        assert (new, old) == ((WAITING, {"phase": "Waiting"}) if storage == "v1" else (None, None))


async def test_a_default_that_is_added_later_is_read_at_once(api: Api) -> None:
    """Objects from before the change have it in every read, as those that come after it."""
    crd = waiting()
    del crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["default"]
    await install(api, crd)
    created = await api.ok("POST", WIDGETS, instance("one", spec={}))
    assert "status" not in created
    at = "/spec/versions/0/schema/openAPIV3Schema/properties/status/default"
    await api.ok("PATCH", CRD, [{"op": "add", "path": at, "value": {"phase": "New"}}], headers=JSON_PATCH)
    expected = {"phase": "New", "replicas": 7}
    assert (await api.ok("GET", ONE))["status"] == expected
    (item,) = (await api.ok("GET", WIDGETS))["items"]
    assert item["status"] == expected
    assert (await api.ok("POST", WIDGETS, instance("two", spec={})))["status"] == expected
