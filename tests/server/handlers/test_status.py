"""`/status` of custom resources: the status alone is written through it, and it alone is written there."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, Watch, instance, make_crd
from tests.server.handlers.widgets import ALL_WIDGETS, CRD, MERGE, SCHEMA, WIDGETS, gone, install

pytestmark = pytest.mark.anyio

ONE = f"{WIDGETS}/one"
STATUS = f"{ONE}/status"
JSON_PATCH = {"Content-Type": "application/json-patch+json"}


async def widget(api: Api, **metadata: Any) -> Any:
    await install(api)
    sent = instance("one", spec={"size": 1})
    sent["metadata"] |= metadata
    return await api.ok("POST", WIDGETS, sent)


async def test_reading_it_is_reading_the_object(api: Api) -> None:
    """The whole object, in every representation."""
    one = await widget(api)
    assert await api.ok("GET", STATUS) == one == await api.ok("GET", ONE)
    partial = await api.ok("GET", STATUS, headers={"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"})
    assert partial["metadata"] == one["metadata"]


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
async def test_nothing_but_the_status_is_taken(api: Api, method: str) -> None:
    """Metadata of every sort, the spec and other members stay as they are, also those that would have been refused."""
    one = await widget(api, labels={"a": "b"}, annotations={"c": "d"}, finalizers=["example.com/hold"])
    owner = {"apiVersion": "v1", "kind": "ConfigMap", "name": "x", "uid": "y"}
    metadata = {
        "labels": {"x y": "not a label"},
        "annotations": {"x": "y"},
        "finalizers": [],
        "ownerReferences": [owner],
        "generation": 77,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
    }
    body = {**one, "metadata": {**one["metadata"], **metadata}, "spec": {"size": 99}, "status": {"ready": 2}}
    answer = await api.ok(method, STATUS, body, headers=MERGE if method == "PATCH" else None)
    version, (mine, entry) = answer["metadata"]["resourceVersion"], answer["metadata"]["managedFields"]
    assert [mine] == one["metadata"]["managedFields"]
    assert (entry["subresource"], entry["fieldsV1"]) == ("status", {"f:status": {".": {}, "f:ready": {}}})
    expected = {**one["metadata"], "resourceVersion": version, "managedFields": [mine, entry]}
    assert answer == {**one, "metadata": expected, "status": {"ready": 2}}
    assert version != one["metadata"]["resourceVersion"]
    assert await api.ok("GET", ONE) == answer


async def test_generation_counts_specs_alone(api: Api) -> None:
    """1 when created, 1 after a status, 2 after a spec, 2 after labels."""
    await widget(api)
    seen = []
    for path, change in ((STATUS, {"status": {"ready": 1}}), (ONE, {"spec": {"size": 2}}), (ONE, {"metadata": {"labels": {"a": "b"}}})):
        seen.append((await api.ok("PATCH", path, change, headers=MERGE))["metadata"]["generation"])
    assert seen == [1, 2, 2]


@pytest.mark.parametrize("change", [{}, {"status": {"ready": 1}}, {"spec": {"size": 9}}], ids=["nothing", "the same", "the spec"])
async def test_what_changes_no_status_writes_nothing(api: Api, change: dict[str, Any]) -> None:
    """The resourceVersion stays, whatever else the request says."""
    await widget(api)
    one = await api.ok("PATCH", STATUS, {"status": {"ready": 1}}, headers=MERGE)
    assert await api.ok("PATCH", STATUS, change, headers=MERGE) == one
    assert await api.ok("PUT", STATUS, {**one, "spec": {"size": 9}}) == one


async def test_a_missing_status_is_taken_away(api: Api) -> None:
    """By a PUT without one and by a patch with null; a patch without one leaves it."""
    await widget(api)
    one = await api.ok("PATCH", STATUS, {"status": {"ready": 1}}, headers=MERGE)
    assert "status" not in await api.ok("PUT", STATUS, {key: value for key, value in one.items() if key != "status"})
    await api.ok("PATCH", STATUS, [{"op": "add", "path": "/status", "value": {"ready": 2}}], headers=JSON_PATCH)
    assert "status" not in await api.ok("PATCH", STATUS, {"status": None}, headers=MERGE)


async def test_the_lock(api: Api) -> None:
    """A PUT needs a resourceVersion and the right one, a patch may bring one; a uid is a precondition of PUT alone."""
    one = await widget(api)
    unversioned = {**one, "metadata": {key: value for key, value in one["metadata"].items() if key != "resourceVersion"}}
    status = await api.fails(422, "PUT", STATUS, {**unversioned, "status": {"ready": 1}})
    fault = "metadata.resourceVersion: Invalid value: 0: must be specified for an update"
    assert status["message"] == f'widgets.example.com "one" is invalid: {fault}'
    await api.ok("PUT", STATUS, {**one, "status": {"ready": 1}})
    await api.fails(409, "PUT", STATUS, {**one, "status": {"ready": 2}})
    old = {"metadata": {"resourceVersion": one["metadata"]["resourceVersion"]}, "status": {"ready": 2}}
    await api.fails(409, "PATCH", STATUS, old, headers=MERGE)
    latest = await api.ok("GET", ONE)
    await api.fails(409, "PUT", STATUS, {**latest, "metadata": {**latest["metadata"], "uid": "other"}})
    patched = await api.ok("PATCH", STATUS, {"metadata": {"uid": "other"}, "status": {"ready": 3}}, headers=MERGE)
    assert (patched["metadata"]["uid"], patched["status"]) == (one["metadata"]["uid"], {"ready": 3})


async def test_statuses_are_pruned_defaulted_and_checked(api: Api) -> None:
    """Unknown fields are told as the client asks; a status that breaks its schema is refused."""
    await widget(api)
    body = {"status": {"ready": 1, "more": 1}}
    response = await api("PATCH", STATUS, body, headers=MERGE)
    assert (response.json()["status"], response.headers["warning"]) == ({"ready": 1}, '299 - "unknown field \\"status.more\\""')
    status = await api.fails(422, "PATCH", STATUS, body, headers=MERGE, params={"fieldValidation": "Strict"})
    assert 'strict decoding error: unknown field "status.more"' in status["message"]
    status = await api.fails(422, "PATCH", STATUS, {"status": {"ready": 15}}, headers=MERGE)
    (cause,) = status["details"]["causes"]
    assert cause["field"] == "status.ready"
    assert cause["message"].endswith("ready in body should be less than or equal to 3")


async def test_a_status_is_judged_by_its_own_schema_alone(api: Api) -> None:
    """Faults of the rest of an object under a later schema do not prevent status updates."""
    await widget(api)
    place = "/spec/versions/0/schema/openAPIV3Schema/properties/spec"
    operations = [
        {"op": "add", "path": f"{place}/required/-", "value": "code"},
        {"op": "add", "path": f"{place}/anyOf", "value": [{"required": ["free"]}]},
    ]
    await api.ok("PATCH", CRD, operations, headers=JSON_PATCH)
    assert (await api.ok("PATCH", STATUS, {"status": {"ready": 2}}, headers=MERGE))["status"] == {"ready": 2}
    status = await api.fails(422, "PATCH", STATUS, {"status": {"ready": 4}}, headers=MERGE)
    fault = "status.ready: Invalid value: 4: ready in body should be less than or equal to 3"
    assert status["message"] == f'Widget.example.com "one" is invalid: {fault}'
    await api.fails(422, "PATCH", ONE, {"spec": {"size": 2}}, headers=MERGE)


async def test_no_status_creates_an_object(api: Api) -> None:
    """404 for a missing object, before anything else is checked."""
    await install(api)
    status = await api.fails(404, "PUT", STATUS, instance("one", spec={"size": 1}, status={"ready": 1}))
    assert status["message"] == 'widgets.example.com "one" not found'
    await api.fails(404, "PATCH", STATUS, {}, headers=MERGE)
    await api.fails(404, "GET", STATUS)


async def test_dry_runs(api: Api) -> None:
    """The answer has the new status, the store the old one."""
    one = await widget(api)
    for method, body, headers in (("PUT", {**one, "status": {"ready": 1}}, None), ("PATCH", {"status": {"ready": 1}}, MERGE)):
        assert (await api.ok(method, STATUS, body, headers=headers, params={"dryRun": "All"}))["status"] == {"ready": 1}
    assert await api.ok("GET", ONE) == one


async def test_other_verbs_and_places(api: Api) -> None:
    """405 with the verb for what `/status` does not take, and in the wildcard; 404 without a namespace."""
    await widget(api)
    for method, verb in (("POST", "create"), ("DELETE", "delete")):
        status = await api.fails(405, method, STATUS, instance("one") if method == "POST" else None)
        assert status["message"] == f'{verb} is not supported on resources of kind "widgets.example.com"'
    await api.fails(405, "GET", f"{ALL_WIDGETS}/one/status")
    for method in ("GET", "PUT", "PATCH"):
        body = {} if method == "PATCH" else instance("one") if method == "PUT" else None
        assert (await api(method, "/clusters/a/apis/example.com/v1/widgets/one/status", body, headers=MERGE)).status_code == 404


async def test_watches_see_statuses(api: Api) -> None:
    """As changes of the object."""
    await widget(api)
    async with Watch(api, WIDGETS) as watch:
        assert await watch.brief() == ("ADDED", "one")
        await api.ok("PATCH", STATUS, {"status": {"ready": 1}}, headers=MERGE)
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["status"]) == ("MODIFIED", {"ready": 1})


async def test_a_terminating_object_reports_on(api: Api) -> None:
    """Its status is written while finalizers hold it, generation and time of deletion stay; taking the last one ends it."""
    one = await widget(api, finalizers=["example.com/hold"])
    precondition = {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": one["metadata"]["uid"]}}
    terminating = await api.ok("DELETE", ONE, precondition)
    assert (terminating["kind"], terminating["metadata"]["generation"]) == ("Widget", 2)
    assert terminating["metadata"]["deletionGracePeriodSeconds"] == 0
    assert await api.ok("DELETE", ONE) == terminating
    reported = await api.ok("PUT", STATUS, {**terminating, "status": {"ready": 1}})
    for field in ("generation", "deletionTimestamp", "deletionGracePeriodSeconds", "finalizers"):
        assert reported["metadata"][field] == terminating["metadata"][field]
    metadata = {key: value for key, value in reported["metadata"].items() if key != "finalizers"}
    final = await api.ok("PUT", ONE, {**reported, "metadata": {**metadata, "finalizers": []}})
    assert final["status"] == {"ready": 1}
    await api.fails(404, "GET", ONE)


async def test_while_the_definition_terminates(api: Api) -> None:
    """Objects that finalizers hold are read, reported on and let go; nothing new is created, not even as a dry run."""
    await widget(api, finalizers=["example.com/hold"])
    await api.ok("DELETE", CRD)
    for params in ({}, {"dryRun": "All"}):
        status = await api.fails(403, "POST", WIDGETS, instance("two", spec={"size": 1}), params=params)
        assert "create not allowed while custom resource definition is terminating" in status["message"]
    await api.ok("PATCH", STATUS, {"status": {"ready": 1}}, headers=MERGE)
    assert (await api.ok("GET", ONE))["status"] == {"ready": 1}
    await api.ok("PATCH", ONE, {"metadata": {"finalizers": None}}, headers=MERGE)
    await gone(api, CRD)


async def test_versions_may_differ_in_having_it(api: Api) -> None:
    """Where a version has no `/status`, its status is data: it is written with the rest and raises the generation."""
    crd = make_crd(schema=SCHEMA)
    (first,) = crd["spec"]["versions"]
    crd["spec"]["versions"] = [first, {**first, "name": "v2", "storage": False, "subresources": {}}]
    await install(api, crd)
    second = WIDGETS.replace("/v1/", "/v2/")
    sent = {**instance("one", spec={"size": 1}, status={"ready": 1}), "apiVersion": "example.com/v2"}
    assert (await api.ok("POST", second, sent))["status"] == {"ready": 1}
    changed = await api.ok("PATCH", f"{second}/one", {"status": {"ready": 2}}, headers=MERGE)
    assert (changed["status"], changed["metadata"]["generation"]) == ({"ready": 2}, 2)
    assert (await api("GET", f"{second}/one/status")).status_code == 404
    assert (await api.ok("PATCH", ONE, {"status": {"ready": 3}}, headers=MERGE))["status"] == {"ready": 2}
    assert (await api.ok("PATCH", STATUS, {"status": {"ready": 3}}, headers=MERGE))["status"] == {"ready": 3}
