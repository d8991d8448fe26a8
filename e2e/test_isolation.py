"""Tenants are strangers: no answer, watch, page, log or metric shows one of them an object of another."""

from __future__ import annotations

import json
import re
import secrets
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from e2e.conftest import Answer, ServerProcess
from e2e.informer import Session, Watch, configmap, create_definition, definition

SECONDS = 20
ROUNDS = 40
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io"
PARTIAL = "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"
CONFIG_MAPS = "/api/v1/namespaces/default/configmaps"
CLUSTERS = "/apis/core.kcp.io/v1alpha1/logicalclusters"
GROUP = "isolation.example.com"

NewServer = Callable[..., ServerProcess]


ROUTES = [
    "/",
    "/api",
    "/api/v1",
    "/apis",
    "/apis/apiextensions.k8s.io",
    "/apis/apiextensions.k8s.io/v1",
    "/openapi/v2",
    "/openapi/v3",
    "/openapi/v3/api/v1",
    "/.well-known/openid-configuration",
    "/docs",
    "/openapi.json",
    "/redoc",
    "/debug/pprof/",
    "/logs",
    "/nonsense",
    CONFIG_MAPS,
    f"{CONFIG_MAPS}/secret",
    f"{CONFIG_MAPS}?watch=1",
    f"{CONFIG_MAPS}?watch=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "/api/v1/watch/namespaces/default/configmaps",
    "/api/v1/configmaps",
    "/api/v1/secrets",
    "/api/v1/namespaces",
    "/api/v1/namespaces/default",
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions",
    "/apis/rbac.authorization.k8s.io/v1/clusterroles",
    CLUSTERS,
    f"{CLUSTERS}/cluster",
    "/apis/nobody.example.com/v1/things",
]


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that knows a user without any group, and on which clusters are declared."""
    root = tmp_path_factory.mktemp("guarded")
    (root / "tokens.csv").write_text('stranger-token,stranger,u1,"tenants"\n')
    process = ServerProcess(root / "root", "--token-auth-file", str(root / "tokens.csv"), "--logical-clusters", "declared").start()
    try:
        create_cluster(process, "iso-a")
        yield process
    finally:
        process.stop()


def create_cluster(server: ServerProcess, name: str) -> None:
    """As an administrator does it."""
    command = [sys.executable, "-m", "kcp_py", "cluster", "create", name, "--kubeconfig", str(server.kubeconfig)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(("token", "code"), [("", 403), ("stranger-token", 403), ("no-such-token", 401)])
def test_strangers_reach_health_and_version_only(guarded: ServerProcess, token: str, code: int) -> None:
    """Every other route is refused in every cluster and in all at once, for reads and for writes."""
    with Session(guarded) as session:
        headers = {"Authorization": f"Bearer {token}" if token else ""}
        for prefix in ("", "/clusters/iso-a", "/clusters/root", "/clusters/iso-ghost", "/clusters/*", "/clusters/%2A"):
            for route in ROUTES:
                assert session.request("GET", f"{prefix}{route}", **headers)[0] == code, f"{prefix}{route}"
            for method, path in [
                ("POST", CONFIG_MAPS),
                ("PUT", f"{CONFIG_MAPS}/x"),
                ("DELETE", f"{CONFIG_MAPS}/x"),
                ("DELETE", CONFIG_MAPS),
            ]:
                assert session.request(method, f"{prefix}{path}", configmap("x", {}), **headers)[0] == code, (method, prefix, path)
            patch = {**headers, "Content-Type": "application/merge-patch+json"}
            assert session.request("PATCH", f"{prefix}{CONFIG_MAPS}/x", {}, **patch)[0] == code
            creating = ("POST", f"{prefix}{CLUSTERS}", {"metadata": {"name": "cluster"}})
            assert session.request(*creating, **headers)[0] == code
        assert session.request("GET", "/metrics", **headers)[0] == code
        for page in (
            "/healthz",
            "/livez",
            "/readyz",
            "/readyz?verbose",
            "/version",
            "/clusters/iso-a/readyz",
            "/clusters/iso-ghost/version",
        ):
            assert session.request("GET", page, **headers)[0] == (200 if code == 403 else 401), page


def without_names(answer: Answer, *names: str) -> tuple[int, bytes, dict[str, str]]:
    """All of an answer but what differs from one request to the next, and these names."""
    kept = {name: value for name, value in answer.headers.items() if name.lower() not in {"date", "audit-id", "content-length"}}
    return answer.code, re.sub("|".join(names).encode(), b"", answer.body), kept


def test_an_unknown_cluster_looks_like_a_forbidden_one(guarded: ServerProcess) -> None:
    """Strangers get the same bytes for both, and where clusters are declared so does the administrator until it is created."""
    for token in ("", "stranger-token"):
        for route in ROUTES:
            known, unknown = (guarded.request("GET", f"/clusters/{name}{route}", token=token) for name in ("iso-a", "iso-ghost"))
            assert without_names(known, "iso-a") == without_names(unknown, "iso-ghost"), route
    # The rest are pages of the server, which there are in no cluster.
    for route in [route for route in ROUTES if route == "/" or route.startswith(("/api", "/openapi/"))]:
        assert guarded.request("GET", f"/clusters/iso-later{route}").code == 403, route
    refused = guarded.request("POST", f"/clusters/iso-later{CONFIG_MAPS}", configmap("one", {}))
    assert refused.code == 403, refused.body
    listed = guarded.request("GET", f"/clusters/*{CLUSTERS}").body
    assert b"iso-later" not in listed
    create_cluster(guarded, "iso-later")
    assert guarded.request("POST", f"/clusters/iso-later{CONFIG_MAPS}", configmap("one", {})).code == 201
    assert guarded.request("GET", f"/clusters/iso-later{CONFIG_MAPS}/one", token="stranger-token").code == 403


@dataclass
class Tenant:
    """Works in a cluster of its own, with the names that all the others use, and reads every answer for strangers' markers.

    Attributes:
        public: stands in labels, annotations, schemas and names.
        private: stands in data only, and thus in no log.
    """

    server: ServerProcess
    cluster: str
    public: str = field(default_factory=lambda: f"p{secrets.token_hex(12)}")
    private: str = field(default_factory=lambda: f"s{secrets.token_hex(12)}")
    others: list[Tenant] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seen: int = 0

    @property
    def path(self) -> str:
        return f"/clusters/{self.cluster}{CONFIG_MAPS}"

    def check(self, where: str, content: object, *, own: bool = True) -> None:
        """No stranger's marker or cluster is in it, and (where it has to be) one's own is."""
        text = content if isinstance(content, str) else json.dumps(content)
        for other in self.others:
            if other.public in text or other.private in text or other.cluster in text:
                self.failures.append(f"{where} of {self.cluster} shows {other.cluster}: {text[:500]}")
        if own and self.public not in text:
            self.failures.append(f"{where} of {self.cluster} lacks its marker: {text[:500]}")
        self.seen += 1

    def run(self, work: Callable[..., None], *arguments: Any) -> threading.Thread:
        """Start a thread whose faults are remembered."""

        def guard() -> None:
            try:
                work(*arguments)
            except Exception as error:  # noqa: BLE001 - told to the thread that waits
                self.failures.append(f"{work.__name__}{arguments} in {self.cluster}: {error!r}")

        thread = threading.Thread(target=guard, daemon=True)
        thread.start()
        return thread

    def manifest(self, name: str, number: int) -> dict[str, Any]:
        marks = {"labels": {"mark": self.public}, "annotations": {"mark": self.public}}
        return configmap(name, {"n": str(number), "secret": self.private}, **marks)

    def define(self) -> None:
        """A definition of the same name in each cluster, whose rules and whose message are the cluster's own."""
        properties = {"size": {"type": "string", "enum": [self.public], "description": self.public}}
        create_definition(self.server, self.cluster, definition(GROUP, "widgets", "Widget", properties))

    def write(self) -> None:
        with Session(self.server) as session:
            for number in range(ROUNDS):
                name = f"o{number % 5}"
                code, body = session.request("POST", self.path, self.manifest(name, number))
                if code == 409:
                    self.check("conflict", body, own=False)
                    code, body = session.request("PUT", f"{self.path}/{name}", self.manifest(name, number))
                assert code in (200, 201), body
                self.check("write", body)
                if number % 6 == 5:
                    self.check("deletion", session.request("DELETE", f"{self.path}/{name}")[1], own=False)
            self.check("the last write", session.request("POST", self.path, self.manifest("end", ROUNDS))[1])

    def read(self) -> None:
        widgets = f"/clusters/{self.cluster}/apis/{GROUP}/v1/namespaces/default/widgets"
        widget = {"apiVersion": f"{GROUP}/v1", "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": "no"}}
        header = {"X-Kubernetes-Cluster": self.cluster}
        with Session(self.server) as session:
            for number in range(ROUNDS):
                for accept in ("application/json", TABLE, PARTIAL.replace("Metadata;", "MetadataList;")):
                    for selection in ("", "&resourceVersion=0", "&labelSelector=mark"):
                        self.check("list", session.request("GET", f"{self.path}?limit=500{selection}", Accept=accept)[1], own=False)
                self.check("list by header", session.request("GET", CONFIG_MAPS, **header)[1], own=False)
                self.check("get", session.request("GET", f"{self.path}/o{number % 5}")[1], own=False)
                code, body = session.request("GET", f"{self.path}/absent-{self.public}")
                assert code == 404
                self.check("not found", body)
                code, body = session.request("POST", widgets, widget)
                assert code == 422, body
                self.check("invalid", body)
                code, body = session.request("PUT", f"{self.path}/o0", self.manifest(self.public, 0))
                assert code == 400, body
                self.check("bad request", body)
            self.check("OpenAPI", session.request("GET", f"/clusters/{self.cluster}/openapi/v3/apis/{GROUP}/v1")[1])
            self.check("OpenAPI v2", session.request("GET", f"/clusters/{self.cluster}/openapi/v2")[1])

    def watch(self, watch: Watch) -> None:
        with watch:
            for event in watch:
                self.check("event", event)
                if '"end"' in json.dumps(event):
                    return
        raise AssertionError("the watch ended early")

    def watch_all(self, watch: Watch) -> None:
        """A platform's watch: each event carries the marker of the cluster that it says it is from."""
        tenants = {tenant.cluster: tenant for tenant in (self, *self.others)}
        ended: set[str] = set()
        with watch:
            for event in watch:
                metadata = event["object"]["metadata"]
                tenant = tenants.get(metadata["annotations"]["kcp.io/cluster"])
                if tenant is None:
                    continue
                tenant.check("event of the wildcard", event)
                if metadata["name"] == "end":
                    ended.add(tenant.cluster)
                if len(ended) == len(tenants):
                    return
        raise AssertionError("the wildcard watch ended early")


def test_markers_do_not_cross_between_busy_clusters(new_server: NewServer) -> None:
    """With writers, readers and watchers in four clusters, nothing shown to one, logged or counted has a mark of another."""
    server = new_server("--log-level", "debug").start()
    tenants = [Tenant(server, f"iso-tenant-{name}") for name in ("red", "blue", "green", "grey")]
    for tenant in tenants:
        tenant.others = [other for other in tenants if other is not tenant]
        tenant.define()
    threads = []
    for tenant in tenants:
        plain = f"{tenant.path}?watch=1"
        threads += [tenant.run(tenant.watch, Watch(server, plain, Accept=accept)) for accept in ("application/json", TABLE, PARTIAL)]
        header = {"X-Kubernetes-Cluster": tenant.cluster}
        threads.append(tenant.run(tenant.watch, Watch(server, f"{CONFIG_MAPS}?watch=1&labelSelector=mark%3D{tenant.public}", **header)))
    threads.append(tenants[0].run(tenants[0].watch_all, Watch(server, "/clusters/*/api/v1/configmaps?watch=1")))
    for tenant in tenants:
        threads += [tenant.run(tenant.write), tenant.run(tenant.read)]
    for thread in threads:
        thread.join(SECONDS)
    assert [failure for tenant in tenants for failure in tenant.failures] == []
    assert not [thread for thread in threads if thread.is_alive()]
    assert min(tenant.seen for tenant in tenants) > 4 * ROUNDS
    by_cluster = {tenant.cluster: tenant for tenant in tenants}
    for item in server.request("GET", "/clusters/*/api/v1/configmaps").json["items"]:
        if found := by_cluster.get(item["metadata"]["clusterName"]):
            found.check("item of the wildcard list", item)
    metrics = server.request("GET", "/metrics").body.decode()
    assert server.stop() == 0
    log = server.log_file.read_text()
    for tenant in tenants:
        assert tenant.failures == []
        assert tenant.private not in metrics + log
        assert tenant.public not in metrics
        assert tenant.cluster not in metrics
        for line in log.splitlines():
            if tenant.public in line or tenant.cluster in line:
                tenant.check("log", line, own=False)
        assert tenant.failures == []


def test_a_cluster_made_again_under_its_name_is_another(server: ServerProcess) -> None:
    """Its objects, watches, continue tokens and identity ended with it."""
    base = "/clusters/iso-phoenix"
    path = f"{base}{CONFIG_MAPS}"
    old = secrets.token_hex(12)
    for number in range(4):
        assert server.request("POST", path, configmap(f"o{number}", {"marker": old})).code == 201
    first = server.request("GET", f"{base}{CLUSTERS}/cluster").json["metadata"]
    page = server.request("GET", f"{path}?limit=2").json["metadata"]
    watch = Watch(server, f"{path}?watch=1&resourceVersion={page['resourceVersion']}")
    clusters = Watch(server, f"/clusters/*{CLUSTERS}?watch=1&resourceVersion={page['resourceVersion']}&timeoutSeconds={SECONDS}")
    assert server.request("DELETE", f"{base}{CLUSTERS}/cluster").code in (200, 202)
    with clusters:
        for event in clusters:
            if event["type"] == "DELETED" and event["object"]["metadata"]["uid"] == first["uid"]:
                break
        else:
            raise AssertionError("the cluster did not end")
    with watch:
        # It may show the deletions, and then it ends: a new object below would keep it waiting for more.
        told = list(watch)
    assert {event["type"] for event in told} <= {"DELETED", "ERROR"}
    create_cluster(server, "iso-phoenix")
    second = server.request("GET", f"{base}{CLUSTERS}/cluster").json["metadata"]
    assert second["uid"] != first["uid"]
    assert server.request("GET", f"{path}?limit=2&continue={page['continue']}").code in (400, 410)
    for query in ("", "?resourceVersion=0", f"?resourceVersion={page['resourceVersion']}&resourceVersionMatch=NotOlderThan"):
        answer = server.request("GET", f"{path}{query}")
        assert (answer.code, answer.json["items"]) == (200, []), query
    exact = server.request("GET", f"{path}?resourceVersion={page['resourceVersion']}&resourceVersionMatch=Exact")
    assert old.encode() not in exact.body
    assert server.request("GET", f"{path}/o0").code == 404
    assert server.request("POST", path, configmap("o0", {"marker": "new"})).code == 201
    with Watch(server, f"{path}?watch=1&resourceVersion={page['resourceVersion']}&timeoutSeconds=1") as resumed:
        assert old not in resumed.response.read().decode()
    namespaces = server.request("GET", f"{base}/api/v1/namespaces").json["items"]
    assert {item["metadata"]["creationTimestamp"] for item in namespaces} == {second["creationTimestamp"]}


def test_a_cluster_named_like_a_part_of_a_key(server: ServerProcess) -> None:
    """The cluster `customresources` has live watches, alone and in the wildcard, and garbage collection; its neighbour sees none of it."""
    name, neighbour = "customresources", "iso-owner"
    path = f"/clusters/{name}/api/v1/namespaces/{neighbour}/configmaps"
    create_cluster(server, name)
    create_cluster(server, neighbour)
    namespace = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": neighbour}}
    assert server.request("POST", f"/clusters/{name}/api/v1/namespaces", namespace).code == 201
    since = server.request("GET", path).json["metadata"]["resourceVersion"]
    query = f"watch=1&resourceVersion={since}&timeoutSeconds={SECONDS}"
    with (
        Watch(server, f"{path}?{query}") as one,
        Watch(server, f"/clusters/*/api/v1/configmaps?{query}") as all_clusters,
        Watch(server, f"/clusters/{neighbour}/api/v1/configmaps?{query}") as other,
    ):
        owner = server.request("POST", path, configmap("owner", {})).json["metadata"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["uid"], "blockOwnerDeletion": True}
        assert server.request("POST", path, configmap("dependent", {}, ownerReferences=[reference])).code == 201
        # An owner in another cluster does not count: the garbage collector of the object's cluster deletes the object.
        stranger = f"/clusters/{neighbour}{CONFIG_MAPS}"
        assert server.request("POST", stranger, configmap("orphan", {}, ownerReferences=[reference])).code == 201
        foreground = {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Foreground"}
        assert server.request("DELETE", f"{path}/owner", foreground).code == 200
        told = [
            ("ADDED", "owner"),
            ("ADDED", "dependent"),
            ("MODIFIED", "owner"),
            ("DELETED", "dependent"),
            ("DELETED", "owner"),
        ]
        assert [brief(next(one)) for _ in told] == told
        mine: list[tuple[str, str]] = []
        while len(mine) < len(told):
            event = next(all_clusters)
            if event["object"]["metadata"]["annotations"]["kcp.io/cluster"] == name:
                mine.append(brief(event))
        assert mine == told
        assert [brief(next(other)) for _ in range(2)] == [("ADDED", "orphan"), ("DELETED", "orphan")]
    assert server.request("DELETE", f"/clusters/{name}{CLUSTERS}/cluster").code in (200, 202)
    assert server.request("GET", f"/clusters/{neighbour}{CLUSTERS}/cluster").code == 200


def brief(event: dict[str, Any]) -> tuple[str, str]:
    """Type and name of an event."""
    return event["type"], event["object"]["metadata"]["name"]


def test_the_tokens_of_one_cluster_are_refused_in_another(server: ServerProcess) -> None:
    """A continue token opens no other cluster, resource or namespace, and not the wildcard."""
    marker = secrets.token_hex(12)
    for cluster in ("iso-page", "iso-other"):
        for number in range(3):
            answer = server.request("POST", f"/clusters/{cluster}{CONFIG_MAPS}", configmap(f"o{number}", {"marker": f"{cluster}{marker}"}))
            assert answer.code == 201, answer.body
    token = server.request("GET", f"/clusters/iso-page{CONFIG_MAPS}?limit=1").json["metadata"]["continue"]
    assert server.request("GET", f"/clusters/iso-page{CONFIG_MAPS}?continue={token}").code == 200
    for path in (
        f"/clusters/iso-other{CONFIG_MAPS}",
        "/clusters/iso-page/api/v1/namespaces/default/secrets",
        "/clusters/iso-page/api/v1/namespaces/other/configmaps",
        "/clusters/iso-page/api/v1/configmaps",
        "/clusters/*/api/v1/configmaps",
        CONFIG_MAPS,
    ):
        answer = server.request("GET", f"{path}?limit=1&continue={token}")
        assert answer.code == 400, (path, answer.body)
        assert marker.encode() not in answer.body
