"""Lists of one namespace of every cluster."""

from __future__ import annotations

import pytest

from tests.server.handlers.conftest import Api, Watch, config_map

pytestmark = pytest.mark.anyio

PATH = "/clusters/*/api/v1/namespaces/default/configmaps"


async def test_a_namespace_of_all_clusters_is_no_other_namespace(api: Api) -> None:
    """Lists, their pages and initial events have the objects of the namespace that the path names, of every cluster."""
    for cluster in ("a", "b"):
        for namespace in ("default", "kube-public"):
            await api.ok("POST", f"/clusters/{cluster}/api/v1/namespaces/{namespace}/configmaps", config_map("one"))
    listed = await api.ok("GET", PATH)
    found = [(item["metadata"]["clusterName"], item["metadata"]["namespace"]) for item in listed["items"]]
    assert found == [("a", "default"), ("b", "default")]
    page = await api.ok("GET", PATH, params={"limit": "1"})
    assert "remainingItemCount" not in page["metadata"]
    rest = await api.ok("GET", PATH, params={"limit": "1", "continue": page["metadata"]["continue"]})
    assert page["items"] + rest["items"] == listed["items"]
    async with Watch(api, PATH) as watch:
        for cluster in ("a", "b"):
            event = await watch.next()
            assert event is not None
            assert (event["object"]["metadata"]["clusterName"], event["object"]["metadata"]["namespace"]) == (cluster, "default")
        await api.ok("POST", "/clusters/a/api/v1/namespaces/kube-public/configmaps", config_map("two"))
        await api.ok("POST", "/clusters/a/api/v1/namespaces/default/configmaps", config_map("three"))
        assert await watch.brief() == ("ADDED", "three")
