"""DELETE: the words of failed preconditions, and where kinds differ."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, config_map, make_crd
from tests.server.handlers.upstreamkinds import installed
from tests.server.handlers.widgets import install

pytestmark = pytest.mark.anyio

CORE = "/clusters/a/api/v1"
CRDS = "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
MAPS = f"{CORE}/namespaces/default/configmaps"
JOBS = "/clusters/a/apis/batch/v1/namespaces/default/jobs"
NAMESPACES = f"{CORE}/namespaces"
CRD = f"{CRDS}/widgets.example.com"
JOB_WARNING = (
    '299 - "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set '
    'propagationPolicy=Orphan to suppress this warning"'
)


def job(name: str) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "busybox"}]}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}}


@pytest.mark.parametrize(
    ("params", "finalizers", "code"),
    [
        pytest.param({"orphanDependents": "true"}, ["example.com/hold", "orphan"], 200, id="orphans"),
        pytest.param({"orphanDependents": "false"}, ["example.com/hold"], 202, id="no orphans"),
        pytest.param({"propagationPolicy": "Background"}, ["example.com/hold"], 200, id="the same in today's words"),
        pytest.param({"propagationPolicy": "Foreground"}, ["example.com/hold", "foregroundDeletion"], 200, id="foreground"),
    ],
)
async def test_a_deletion_that_is_not_over(api: Api, params: dict[str, str], finalizers: list[str], code: int) -> None:
    """The object comes back; accepted is what the old option asks for, and nothing else."""
    await api.ok("POST", MAPS, config_map("one", finalizers=["example.com/hold"]))
    for dry_run in ({"dryRun": "All"}, {}):
        answer = await api("DELETE", f"{MAPS}/one", params={**params, **dry_run})
        assert answer.status_code == code
        assert answer.json()["kind"] == "ConfigMap"
        assert answer.json()["metadata"]["finalizers"] == finalizers
    assert (await api.ok("GET", f"{MAPS}/one"))["metadata"]["finalizers"] == finalizers


async def test_jobs_leave_their_pods(api: Api) -> None:
    """A delete that says nothing lets dependents go, with a warning; one that does is obeyed; what the object says comes between."""
    await installed(api, "jobs")
    for name in ("silent", "told", "marked"):
        await api.ok("POST", JOBS, job(name))
    silent = await api("DELETE", f"{JOBS}/silent", params={"dryRun": "All"})
    assert silent.headers["Warning"] == JOB_WARNING
    assert silent.json()["metadata"]["finalizers"] == ["orphan"]
    told = await api("DELETE", f"{JOBS}/told", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
    assert "Warning" not in told.headers
    assert told.json()["status"] == "Success"
    await api.ok("DELETE", f"{JOBS}/marked", params={"propagationPolicy": "Foreground"})
    again = await api("DELETE", f"{JOBS}/marked")
    if again.status_code == 200:  # the garbage collector may have been faster
        assert again.json()["metadata"]["finalizers"] == ["foregroundDeletion"]
    collection = await api("DELETE", JOBS, params={"dryRun": "All"})
    assert collection.headers["Warning"] == JOB_WARNING
    assert all(one["metadata"]["finalizers"] == ["orphan"] for one in collection.json()["items"] if one["metadata"]["name"] == "silent")


async def test_namespaces_and_definitions_are_marked_first(api: Api) -> None:
    """The first delete sets the time and the state, and neither a grace period nor a generation."""
    await api.ok("POST", NAMESPACES, {"metadata": {"name": "shop", "finalizers": ["example.com/hold"]}})
    marked = await api.ok("DELETE", f"{NAMESPACES}/shop", params={"orphanDependents": "false", "dryRun": "All"})
    assert marked["status"]["phase"] == "Terminating"
    assert "deletionGracePeriodSeconds" not in marked["metadata"]
    assert marked["metadata"]["finalizers"] == ["example.com/hold", "foregroundDeletion"]
    await install(api)
    deleted = await api.ok("DELETE", CRD, params={"propagationPolicy": "Foreground", "dryRun": "All"})
    assert (deleted["kind"], deleted["metadata"]["generation"]) == ("CustomResourceDefinition", 1)
    assert "deletionGracePeriodSeconds" not in deleted["metadata"]
    assert deleted["metadata"]["finalizers"] == ["customresourcecleanup.apiextensions.k8s.io"]


async def test_a_namespace_without_finalizers_waits_for_a_second_delete(api: Api) -> None:
    """The first deletion marks it; no finalizer remains, so the second one removes it."""
    created = await api.ok("POST", NAMESPACES, {"metadata": {"name": "shop"}})
    await api.ok("PUT", f"{NAMESPACES}/shop/finalize", {**created, "spec": {"finalizers": []}})
    marked = await api.ok("DELETE", f"{NAMESPACES}/shop")
    assert marked["status"]["phase"] == "Terminating"
    assert (await api.ok("GET", f"{NAMESPACES}/shop"))["metadata"]["deletionTimestamp"]
    await api.ok("DELETE", f"{NAMESPACES}/shop")
    await api.fails(404, "GET", f"{NAMESPACES}/shop")


@pytest.mark.parametrize("cluster", ["root", "system:admin"])
async def test_clusters_that_always_exist_are_not_deleted(api: Api, cluster: str) -> None:
    """Deleting the root would empty it and leave it there: it is refused, as for the namespace `default`."""
    await api("POST", f"/clusters/{cluster}/api/v1/namespaces/default/configmaps", {"metadata": {"name": "one"}})
    path = f"/clusters/{cluster}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    status = await api.fails(403, "DELETE", path)
    assert status["message"] == 'logicalclusters.core.kcp.io "cluster" is forbidden: LogicalCluster cannot be deleted'


@pytest.mark.parametrize("name", ["default", "kube-system", "kube-public"])
async def test_namespaces_that_always_exist_are_not_deleted(api: Api, name: str) -> None:
    """By no user; kube-node-lease is not one of them."""
    status = await api.fails(403, "DELETE", f"{NAMESPACES}/{name}")
    assert status["message"] == f'namespaces "{name}" is forbidden: this namespace may not be deleted'
    assert (await api.ok("GET", f"{NAMESPACES}/{name}"))["status"]["phase"] == "Active"


async def test_a_failed_precondition_names_the_kind(api: Api) -> None:
    """As upstream's generic store, which names the resource everywhere else."""
    path = f"{CORE}/namespaces/default/configmaps"
    uid = (await api.ok("POST", path, config_map("one")))["metadata"]["uid"]
    status = await api.fails(409, "DELETE", f"{path}/one", {"preconditions": {"uid": "other"}})
    assert status["message"].startswith(
        f'Operation cannot be fulfilled on ConfigMap "one": the UID in the precondition (other) does not match the UID in record ({uid}). '
    )
    assert status["details"] == {"name": "one", "kind": "ConfigMap"}


@pytest.mark.parametrize("field", ["uid", "resourceVersion"])
async def test_namespaces_and_definitions_have_their_own_words(api: Api, field: str) -> None:
    """Their preconditions are checked before the generic store sees the request."""
    name = {"uid": "UID", "resourceVersion": "ResourceVersion"}[field]
    space = await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "n"}})
    status = await api.fails(409, "DELETE", f"{CORE}/namespaces/n", {"preconditions": {field: "7"}})
    assert status["message"] == (
        f'Operation cannot be fulfilled on namespaces "n": Precondition failed: {name} in precondition: 7, '
        f"{name} in object meta: {space['metadata'][field]}"
    )
    widgets = (await api.ok("POST", CRDS, make_crd()))["metadata"]["name"]
    status = await api.fails(409, "DELETE", f"{CRDS}/{widgets}", {"preconditions": {field: "7"}})
    assert (
        f'customresourcedefinitions.apiextensions.k8s.io "{widgets}": precondition failed: {name} in precondition: 7' in status["message"]
    )
