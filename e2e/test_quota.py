"""Quotas through real servers: kubectl's view of them, races between servers, and a server that is killed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Kubectl, ServerProcess
from e2e.informer import Session, configmap
from e2e.pair import Etcd
from e2e.racing import WRITERS, create_with, kill_under_load, stored

CORE = "/clusters/quota/api/v1/namespaces/default"
QUOTA = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}}


def quota_of(hard: dict[str, str]) -> dict[str, Any]:
    return QUOTA | {"spec": {"hard": hard}}


def usage(server: ServerProcess) -> int:
    return int(server.request("GET", f"{CORE}/resourcequotas/q").json["status"]["used"]["count/configmaps"])


def test_kubectl(kubectl: Callable[[str], Kubectl]) -> None:
    """A quota is created, described, exceeded, and raised."""
    client = kubectl("quota-kubectl")
    client.run("create", "quota", "team", "--hard=count/configmaps=1,secrets=5")
    client.run("create", "configmap", "a")
    refused = client.run("create", "configmap", "b", fails=True)
    assert (
        'configmaps "b" is forbidden: exceeded quota: team, requested: count/configmaps=1, used: count/configmaps=1, limited: ' in refused
    )
    assert "exceeded quota" in client.run("create", "configmap", "b", "--dry-run=server", fails=True)
    described = [line.split() for line in client.run("describe", "quota", "team").splitlines()]
    assert ["count/configmaps", "1", "1"] in described
    assert ["secrets", "0", "5"] in described
    client.run("patch", "quota", "team", "--type=merge", "-p", '{"spec":{"hard":{"count/configmaps":"2"}}}')
    client.run("create", "configmap", "b")
    client.run("delete", "configmap", "--all")
    assert ["count/configmaps", "0", "2"] in [line.split() for line in client.run("describe", "quota", "team").splitlines()]


def test_two_servers_share_the_last_unit(tmp_path: Path, new_server: Callable[..., ServerProcess]) -> None:
    """Of 64 writers on both servers exactly one gets it, also right after the quota was created."""
    etcd = Etcd(tmp_path).start()
    try:
        first, second = (new_server("--storage", "etcd", "--etcd-servers", etcd.url).start() for _ in range(2))
        assert create_with((first, second), CORE, "free") == {201: WRITERS}
        limit = WRITERS + 1
        assert first.request("POST", f"{CORE}/resourcequotas", quota_of({"count/configmaps": str(limit)})).code == 201
        assert create_with((second, first), CORE, "counted") == {201: 1, 403: WRITERS - 1}
        assert usage(first) == usage(second) == stored(first, CORE) == limit
        with Session(first) as a, Session(second) as b:
            assert a.request("DELETE", f"{CORE}/configmaps/free-0")[0] == 200
            assert b.request("POST", f"{CORE}/configmaps", configmap("again", {}))[0] == 201
            assert a.request("POST", f"{CORE}/configmaps", configmap("more", {}))[0] == 403
            assert b.request("DELETE", f"{CORE}/resourcequotas/q")[0] == 200
            assert a.request("POST", f"{CORE}/configmaps", configmap("more", {}))[0] == 201
    finally:
        etcd.kill()


def test_deletions_of_controllers_give_back(server: ServerProcess, kubectl: Callable[[str], Kubectl]) -> None:
    """What the garbage collector and the deletions of a namespace and of the cluster take along is not used any more."""
    team = kubectl("quota-deletions")
    path = "/clusters/quota-deletions/api/v1"
    hard = "--hard=count/configmaps=10,count/secrets=10"
    team.run("create", "quota", "q", hard)
    owner = server.request("POST", f"{path}/namespaces/default/secrets", {"metadata": {"name": "owner"}}).json
    reference = {"apiVersion": "v1", "kind": "Secret", "name": "owner", "uid": owner["metadata"]["uid"], "blockOwnerDeletion": True}
    for number in range(9):
        body = configmap(f"m-{number}", {})
        body["metadata"]["ownerReferences"] = [reference]
        assert server.request("POST", f"{path}/namespaces/default/configmaps", body).code == 201
    used = "-o=jsonpath={.status.used.count/configmaps},{.status.used.count/secrets}"
    assert team.run("get", "quota", "q", used) == "9,1"
    team.run("delete", "secret", "owner", "--cascade=foreground")
    assert team.run("get", "quota", "q", used) == "0,0"
    team.run("create", "namespace", "shop")
    wide = {"metadata": {"name": "wide", "annotations": {"experimental.quota.kcp.io/cluster-scoped": "true"}}}
    wide["spec"] = {"hard": {"count/secrets": "10"}}
    assert server.request("POST", f"{path}/namespaces/default/resourcequotas", wide).code == 201
    team.run("-n", "shop", "create", "secret", "generic", "one")
    assert team.run("get", "quota", "wide", "-o=jsonpath={.status.used}") == '{"count/secrets":"1"}'
    team.run("delete", "namespace", "shop")
    assert team.run("get", "quota", "wide", "-o=jsonpath={.status.used}") == '{"count/secrets":"0"}'
    team.run("delete", "logicalcluster", "cluster", "--grace-period=0")
    team.run("create", "quota", "q", hard)
    assert team.run("get", "quota", "q", used) == "0,0"


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["sqlite", "etcd"])
def test_a_killed_server_leaves_no_charge_without_an_object(
    storage: str, tmp_path: Path, new_server: Callable[..., ServerProcess], request: pytest.FixtureRequest
) -> None:
    """After each of several kill -9 under load the usage is the number of objects, without a count of the server that follows."""
    more: Sequence[str] = ()
    if storage == "etcd":
        etcd = Etcd(tmp_path).start()
        request.addfinalizer(etcd.kill)
        more = ("--storage", "etcd", "--etcd-servers", etcd.url)
    # The controller would repair the usage.
    server = new_server("--controllers", "*,-resourcequota-controller", *more).start()
    server.request("POST", f"{CORE}/resourcequotas", quota_of({"count/configmaps": "30"}))
    for _ in range(3):
        kill_under_load(server, CORE)
        assert usage(server) == stored(server, CORE) <= 30
