"""Limits of logical clusters through real servers: their administrators, races between servers, and a server that is killed."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Answer, Kubectl, ServerProcess
from e2e.informer import Watch, configmap
from e2e.pair import Etcd
from e2e.racing import WRITERS, create_with, kill_under_load, stored

CORE = "/clusters/limited/api/v1/namespaces/default"
LOGICAL_CLUSTER = "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
OBJECTS = "core.kcp.io/max-total-objects"
MERGE = {"Content-Type": "application/merge-patch+json"}


def limit(server: ServerProcess, cluster: str, annotations: dict[str, str | None], token: str | None = None) -> Answer:
    patch = {"metadata": {"annotations": annotations}}
    return server.request("PATCH", f"/clusters/{cluster}{LOGICAL_CLUSTER}", patch, headers=MERGE, token=token)


def fill(server: ServerProcess, most: int) -> int:
    """Create objects until one is refused; the number of objects then."""
    for number in range(most + 1):
        answer = server.request("POST", f"{CORE}/configmaps", configmap(f"fill-{number}", {}))
        if answer.code != 201:
            assert (answer.code, answer.json["reason"]) == (403, "Forbidden")
            return stored(server, CORE)
    raise AssertionError("no limit")


def administrator(server: ServerProcess, client: Kubectl) -> Callable[[str, str, Any], Answer]:
    """A tenant with all permissions in its cluster: takes method, path in the cluster, and body."""
    client.run("create", "serviceaccount", "tenant")
    client.run("create", "clusterrolebinding", "tenant", "--clusterrole=cluster-admin", "--serviceaccount=default:tenant")
    token = client.run("create", "token", "tenant").strip()
    cluster = client.server.rpartition("/clusters/")[2]

    def ask(method: str, path: str, body: Any = None) -> Answer:
        headers = MERGE if method == "PATCH" else None
        return server.request(method, f"/clusters/{cluster}{path}", body, headers=headers, token=token)

    return ask


def test_a_tenant_is_bound(server: ServerProcess, kubectl: Callable[[str], Kubectl]) -> None:
    """The administrator of a cluster sees its limits, meets them, and does not get around them."""
    client = kubectl("limits-tenant")
    tenant = administrator(server, client)
    client.run("annotate", "logicalcluster", "cluster", f"{OBJECTS}=4", "kcp-py.io/max-total-bytes=64Ki")
    client.run("create", "configmap", "a")
    client.run("create", "configmap", "b")
    for more in ((), ("--dry-run=server",)):
        assert (
            client.run("create", "configmap", "c", *more, fails=True)
            .strip()
            .endswith(
                'configmaps "c" is forbidden: logical cluster "limits-tenant" has reached its limit of 4 objects '
                "(core.kcp.io/max-total-objects): 4 used, 1 requested"
            )
        )
    client.run("wait", "logicalcluster/cluster", "--for=jsonpath={.status.used.objects}=4", "--timeout=60s")
    shown = tenant("GET", LOGICAL_CLUSTER).json
    assert shown["status"]["limits"] == {"objects": 4, "bytes": 65536}
    large = {"data": {"a": "x" * 70_000}}
    answer = tenant("PATCH", "/api/v1/namespaces/default/configmaps/a", large)
    assert (answer.code, "its limit of 65536 bytes (kcp-py.io/max-total-bytes)" in answer.json["message"]) == (403, True)

    for change in ({"metadata": {"annotations": {OBJECTS: value}}} for value in ("5", "0", "3", None)):
        answer = tenant("PATCH", LOGICAL_CLUSTER, change)
        assert (answer.code, "only administrators of all clusters can change the annotation" in answer.json["message"]) == (403, True)
        # A write of the status changes no annotations, and so is allowed where it changes nothing.
        assert tenant("PATCH", f"{LOGICAL_CLUSTER}/status", change).json["metadata"]["annotations"][OBJECTS] == "4"
    assert tenant("PATCH", LOGICAL_CLUSTER, {"metadata": {"labels": {"mine": "1"}}}).code == 200
    assert tenant("PUT", LOGICAL_CLUSTER, {**shown, "metadata": {**shown["metadata"], "annotations": {}}}).code in {403, 409}
    assert tenant("PATCH", f"{LOGICAL_CLUSTER}/status", {"status": {"used": {"objects": 0}}}).code == 403
    answer = tenant("DELETE", LOGICAL_CLUSTER)
    assert (answer.code, "delete a logical cluster with the annotation" in answer.json["message"]) == (403, True)
    assert tenant("DELETE", LOGICAL_CLUSTER.rpartition("/")[0]).code in {403, 405}
    assert tenant("POST", "/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}}).code == 403
    assert tenant("GET", LOGICAL_CLUSTER).json["metadata"]["annotations"][OBJECTS] == "4"

    client.run("delete", "configmap", "a")
    client.run("create", "configmap", "c")


def test_watches_and_requests(server: ServerProcess, kubectl: Callable[[str], Kubectl]) -> None:
    """Refused with 429 and the name of the limit; administrators of all clusters are not."""
    client = kubectl("limits-rates")
    tenant = administrator(server, client)
    maps = "/api/v1/namespaces/default/configmaps"
    client.run("annotate", "logicalcluster", "cluster", "kcp-py.io/max-watches=0", "kcp-py.io/max-requests-per-second=1")
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda _: tenant("GET", maps), range(64)))
    assert {answer.code for answer in answers} == {200, 429}
    refused = next(answer for answer in answers if answer.code == 429)
    assert refused.headers["retry-after"] == "1"
    assert "limit of 1 requests per second (kcp-py.io/max-requests-per-second)" in refused.json["message"]
    assert {server.request("GET", f"/clusters/limits-rates{maps}").code for _ in range(20)} == {200}

    client.run("annotate", "--overwrite", "logicalcluster", "cluster", "kcp-py.io/max-watches=1", "kcp-py.io/max-requests-per-second=0")
    token = client.run("create", "token", "tenant").strip()
    watch = Watch(server, f"/clusters/limits-rates{maps}?watch=1", Authorization=f"Bearer {token}")
    assert watch.response.status == 200
    answer = tenant("GET", f"{maps}?watch=1")
    assert (answer.code, "limit of 1 watches (kcp-py.io/max-watches)" in answer.json["message"]) == (429, True)
    watch.close()
    for _ in range(1000):
        if tenant("GET", f"{maps}?watch=1&timeoutSeconds=1&resourceVersion=0").code == 200:
            break
    else:
        raise AssertionError("the watch that was cut is counted still")


def test_two_servers_share_the_last_units(tmp_path: Path, new_server: Callable[..., ServerProcess]) -> None:
    """Of 64 writers on both servers exactly as many succeed as there are units, also right after the limit was set, and with a default."""
    etcd = Etcd(tmp_path).start()
    try:
        options = ("--storage", "etcd", "--etcd-servers", etcd.url, "--logical-cluster-total-object-limit", "10")
        first, second = (new_server(*options).start() for _ in range(2))
        assert create_with((first, second), CORE, "first") == {201: 10, 403: WRITERS - 10}
        assert limit(first, "limited", {OBJECTS: "11"}).code == 200
        assert create_with((second, first), CORE, "second") == {201: 1, 403: WRITERS - 1}
        assert stored(first, CORE) == stored(second, CORE) == 11
        assert second.request("DELETE", f"{CORE}/configmaps").code == 200
        assert limit(second, "limited", {OBJECTS: "0"}).code == 200
        assert create_with((first, second), CORE, "third") == {201: WRITERS}
        assert limit(second, "limited", {OBJECTS: None}).code == 200
        assert create_with((first, second), CORE, "fourth") == {403: WRITERS}
    finally:
        etcd.kill()


@pytest.mark.slow
def test_a_killed_server_leaves_no_charge_without_an_object(new_server: Callable[..., ServerProcess]) -> None:
    """After each of several kill -9 under load the limit is reached with exactly as many objects, without a count by the controller."""
    server = new_server("--controllers", "*,-logicalcluster-limits-controller").start()
    created = {
        "apiVersion": "core.kcp.io/v1alpha1",
        "kind": "LogicalCluster",
        "metadata": {"name": "cluster", "annotations": {OBJECTS: "30"}},
    }
    assert server.request("POST", f"/clusters/limited{LOGICAL_CLUSTER.rpartition('/')[0]}", created).code == 201
    for _ in range(3):
        kill_under_load(server, CORE)
        assert fill(server, 30) == 30
        server.request("DELETE", f"{CORE}/configmaps")
