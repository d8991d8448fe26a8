"""Deletion of logical clusters as clients see it: protection, the grace period, and undeletion."""

from __future__ import annotations

from collections.abc import AsyncIterator

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, Watch, config_map, options
from tests.server.handlers.widgets import MERGE, gone

pytestmark = pytest.mark.anyio

OBJECT = "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
CONFIG_MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
AFTER = "kcp-py.io/delete-after"
PROTECTION = "kcp-py.io/deletion-protection"


@pytest.fixture
async def graceful(tmp_path) -> AsyncIterator[Api]:
    """The administrator of a server that keeps deleted clusters for an hour, with a config map in cluster `a`."""
    async with ControlPlane(options(tmp_path, logical_cluster_deletion_grace=3600.0)) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            await api.ok("POST", CONFIG_MAPS, config_map("kept"))
            yield api


async def test_protection(api: Api) -> None:
    """Every way to delete a protected cluster is refused with the name of the annotation; without it the cluster goes."""
    await api.ok("POST", CONFIG_MAPS, config_map("kept"))
    await api.ok("PATCH", OBJECT, {"metadata": {"annotations": {PROTECTION: "true"}}}, headers=MERGE)
    for path in (OBJECT, f"{OBJECT}?gracePeriodSeconds=0", f"{OBJECT}?dryRun=All"):
        status = await api.fails(403, "DELETE", path)
        assert f"protected from deletion by its annotation {PROTECTION}" in status["message"]
    assert "deletionTimestamp" not in (await api.ok("GET", OBJECT))["metadata"]
    await api.ok("PATCH", OBJECT, {"metadata": {"annotations": {PROTECTION: "false"}}}, headers=MERGE)
    await api.ok("DELETE", OBJECT)
    await gone(api, OBJECT)


async def test_a_deleted_cluster_is_kept_and_not_served(graceful: Api) -> None:
    """Until the grace period ends its watches are over, its requests are refused with what brings it back, and its content stays."""
    api = graceful
    before = await api.ok("GET", OBJECT)
    async with Watch(api, CONFIG_MAPS) as watch:
        assert await watch.brief() == ("ADDED", "kept")
        answer = await api.ok("DELETE", OBJECT)
        while await watch.next() is not None:
            pass
    metadata = answer["metadata"]
    after = metadata["annotations"][AFTER]
    assert "deletionTimestamp" not in metadata
    assert (metadata["uid"], answer["status"]["phase"]) == (before["metadata"]["uid"], "Inactive")
    hint = f'logical cluster is deleted; until {after} "kcp-py cluster undelete a" brings it back'
    for method, path, body in (
        ("GET", CONFIG_MAPS, None),
        ("POST", CONFIG_MAPS, config_map("new")),
        ("DELETE", f"{CONFIG_MAPS}/kept", None),
        ("GET", "/clusters/a/api/v1", None),
        ("GET", f"{CONFIG_MAPS}?watch=true", None),
    ):
        status = await api.fails(403, method, path, body)
        assert status["message"] == f'logicalclusters.core.kcp.io "a" is forbidden: {hint}', path
    await api.fails(409, "POST", OBJECT.rpartition("/")[0], {**before, "metadata": {"name": "cluster"}})
    again = await api.ok("DELETE", OBJECT)
    assert again["metadata"]["resourceVersion"] == metadata["resourceVersion"]
    kept = await api.ok("GET", "/clusters/*/api/v1/configmaps")
    assert [item["metadata"]["name"] for item in kept["items"]] == ["kept"]


async def test_undelete(graceful: Api) -> None:
    """Without the annotation the cluster is served again, with its uid and all its content."""
    api = graceful
    before = await api.ok("GET", OBJECT)
    await api.ok("DELETE", OBJECT)
    back = await api.ok("PATCH", OBJECT, {"metadata": {"annotations": {AFTER: None}}}, headers=MERGE)
    assert (back["metadata"]["uid"], back["status"]["phase"]) == (before["metadata"]["uid"], "Ready")
    assert (await api.ok("GET", f"{CONFIG_MAPS}/kept"))["metadata"]["name"] == "kept"
    await api.ok("POST", CONFIG_MAPS, config_map("new"))


async def test_the_grace_period_of_a_deletion(graceful: Api) -> None:
    """gracePeriodSeconds wins over the option; a later deletion brings the end nearer, never further away; 0 deletes at once."""
    api = graceful
    ends = []
    for seconds in (7200, 1800, 7200):
        answer = await api.ok("DELETE", f"{OBJECT}?gracePeriodSeconds={seconds}")
        ends.append(answer["metadata"]["annotations"][AFTER])
    assert ends[0] > ends[1] == ends[2]
    dry = await api.ok("DELETE", f"{OBJECT}?gracePeriodSeconds=60&dryRun=All")
    assert dry["metadata"]["annotations"][AFTER] < ends[1]
    assert (await api.ok("GET", OBJECT))["metadata"]["annotations"][AFTER] == ends[1]
    await api.ok("DELETE", OBJECT, {"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0})
    await gone(api, OBJECT)
    assert (await api.ok("GET", "/clusters/*/api/v1/configmaps"))["items"] == []


async def test_any_number_of_seconds(graceful: Api) -> None:
    """The largest number that a client can send is a deletion some years away, not an error."""
    answer = await graceful.ok("DELETE", f"{OBJECT}?gracePeriodSeconds={2**63 - 1}")
    assert answer["metadata"]["annotations"][AFTER] > "2030"


async def test_only_deletions_set_the_end(graceful: Api) -> None:
    """Clients cannot set or move the annotation, or protect a deleted cluster. They can protect it when they undelete it."""
    api = graceful
    for end in ("2020-01-01T00:00:00Z", "soon"):
        status = await api.fails(422, "PATCH", OBJECT, {"metadata": {"annotations": {AFTER: end}}}, headers=MERGE)
        assert "only a deletion sets this annotation" in status["message"]
    body = {"apiVersion": "core.kcp.io/v1alpha1", "kind": "LogicalCluster"}
    body["metadata"] = {"name": "cluster", "annotations": {AFTER: "2020-01-01T00:00:00Z"}}  # type: ignore[assignment]
    await api.fails(422, "POST", OBJECT.replace("/a/", "/b/").rpartition("/")[0], body)
    await api.ok("DELETE", OBJECT)
    status = await api.fails(422, "PATCH", OBJECT, {"metadata": {"annotations": {PROTECTION: "true"}}}, headers=MERGE)
    assert f"remove the annotation {AFTER} to undelete it" in status["message"]
    await api.ok("PATCH", OBJECT, {"metadata": {"annotations": {AFTER: None, PROTECTION: "true"}}}, headers=MERGE)
    await api.fails(403, "DELETE", f"{OBJECT}?gracePeriodSeconds=0")


async def test_an_undeletion_that_comes_too_late_is_refused(graceful: Api) -> None:
    """A client that removes the annotation while the content is being deleted is told so; other changes, of finalizers above all, go on."""
    api = graceful
    await api.ok("PATCH", OBJECT, {"metadata": {"finalizers": ["example.com/holds"]}}, headers=MERGE)
    await api.ok("DELETE", OBJECT)
    await api.ok("DELETE", f"{OBJECT}?gracePeriodSeconds=0")
    status = await api.fails(422, "PATCH", OBJECT, {"metadata": {"annotations": {AFTER: None}}}, headers=MERGE)
    assert "it cannot be undeleted" in status["message"]
    await api.ok("PATCH", OBJECT, {"metadata": {"finalizers": None, "labels": {"x": "y"}}}, headers=MERGE)
    await gone(api, OBJECT)
