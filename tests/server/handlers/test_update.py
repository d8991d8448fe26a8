"""PUT: the identity of an object, and the fields that only the server sets."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, config_map

pytestmark = pytest.mark.anyio

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
NAMESPACES = "/clusters/a/api/v1/namespaces"


async def test_an_object_without_a_name_is_not_determinable(api: Api) -> None:
    """The name of the URL does not stand in for that of the object."""
    await api.ok("POST", MAPS, config_map("one"))
    status = await api.fails(400, "PUT", f"{MAPS}/one", {"metadata": {}})
    assert status["message"] == "the name of the object (one based on URL) was undeterminable: name must be provided"


async def test_a_creation_time_in_other_words_is_no_change(api: Api) -> None:
    """Clients that print times in their own way, or wrongly, can still replace what they have read."""
    created = await api.ok("POST", MAPS, config_map("one"))
    sent = {**created, "metadata": {**created["metadata"], "creationTimestamp": "2001-01-01T00:00:00+00:00"}}
    assert await api.ok("PUT", f"{MAPS}/one", sent) == created


@pytest.mark.parametrize(
    ("field", "value"), [("deletionTimestamp", "2001-01-01T00:00:00Z"), ("deletionGracePeriodSeconds", 5)], ids=["time", "grace period"]
)
async def test_nothing_is_deleted_by_an_update(api: Api, field: str, value: Any) -> None:
    """What marks an object as being deleted can neither be set nor changed."""
    created = await api.ok("POST", MAPS, config_map("one", finalizers=["a.b/c"]))
    sent = {**created, "metadata": {**created["metadata"], field: value}}
    status = await api.fails(422, "PUT", f"{MAPS}/one", sent)
    assert [cause["field"] for cause in status["details"]["causes"]] == [f"metadata.{field}"]
    assert status["message"].endswith("field is immutable")
    deleted = await api.ok("DELETE", f"{MAPS}/one")
    without = {key: item for key, item in deleted["metadata"].items() if not key.startswith("deletion")}
    assert await api.ok("PUT", f"{MAPS}/one", {**deleted, "metadata": without}) == deleted
    moved = {**deleted, "metadata": {**deleted["metadata"], "deletionTimestamp": "2001-01-01T00:00:00Z"}}
    assert await api.ok("PUT", f"{MAPS}/one", moved) == deleted


async def test_finalizers_of_a_namespace_change_through_finalize_only(api: Api) -> None:
    """PUT of the namespace keeps them, PUT of `/finalize` sets them, and no other method is served there."""
    created = await api.ok("POST", NAMESPACES, {"metadata": {"name": "n"}})
    path = f"{NAMESPACES}/n"
    wanted = {**created, "spec": {"finalizers": ["kubernetes", "example.com/mine"]}}
    assert (await api.ok("PUT", path, wanted))["spec"] == {"finalizers": ["kubernetes"]}
    finalized = await api.ok("PUT", f"{path}/finalize", wanted)
    assert finalized["spec"] == wanted["spec"]
    assert finalized["status"] == {"phase": "Active"}
    assert await api.ok("GET", path) == finalized
    status = await api.fails(422, "PUT", f"{path}/finalize", {**finalized, "spec": {"finalizers": ["mine"]}})
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.finalizers[0]"]
    for method in ("GET", "PATCH", "POST", "DELETE"):
        await api.fails(405, method, f"{path}/finalize", None if method == "GET" else {})
    assert (await api("PUT", f"{MAPS}/one/finalize", {})).status_code == 404


async def test_the_last_finalizer_takes_a_terminating_namespace_with_it(api: Api) -> None:
    """`kubectl replace --raw .../finalize` frees a namespace that nothing empties."""
    await api.ok("POST", NAMESPACES, {"metadata": {"name": "n"}})
    await api.ok("POST", f"{NAMESPACES}/n/configmaps", config_map("held", finalizers=["a.b/c"]))
    deleted = await api.ok("DELETE", f"{NAMESPACES}/n")
    assert deleted["status"]["phase"] == "Terminating"
    await api.ok("PUT", f"{NAMESPACES}/n/finalize", {"metadata": {"name": "n"}, "spec": {"finalizers": []}})
    assert (await api("GET", f"{NAMESPACES}/n")).status_code == 404


async def test_finalize_is_discovered(api: Api) -> None:
    """Discovery names it in both of its forms."""
    resources = (await api.ok("GET", "/clusters/a/api/v1"))["resources"]
    assert {item["name"]: item["verbs"] for item in resources if item["name"].startswith("namespaces/")} == {
        "namespaces/finalize": ["update"],
        "namespaces/status": ["get", "patch", "update"],
    }


@pytest.mark.parametrize("version", ["x", "-1", "1x", " 1"])
@pytest.mark.parametrize("way", ["put", "merge", "apply"])
async def test_a_resource_version_that_is_no_number(api: Api, version: str, way: str) -> None:
    """It is 422 with its name in every way of writing (kube-apiserver answers 500), and 409 as a precondition of a deletion."""
    await api.ok("POST", MAPS, config_map("one"))
    metadata = {"name": "one", "resourceVersion": version}
    body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata}
    if way == "put":
        status = await api.fails(422, "PUT", f"{MAPS}/one", body)
    else:
        headers = {"Content-Type": f"application/{'merge-patch+json' if way == 'merge' else 'apply-patch+yaml'}"}
        status = await api.fails(422, "PATCH", f"{MAPS}/one", body, headers=headers, params={"fieldManager": "a"})
    assert [cause["field"] for cause in status["details"]["causes"]] == ["metadata.resourceVersion"]
    status = await api.fails(409, "DELETE", f"{MAPS}/one", {"preconditions": {"resourceVersion": version}})
    assert f"the ResourceVersion in the precondition ({version}) does not match" in status["message"]
