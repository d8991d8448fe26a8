"""The requests of k9s and Headlamp, replayed by a user with one namespace and by an administrator of the cluster.

Sources: derailed/k9s `internal/client/client.go`, `internal/dao/{registry,table}.go`, `internal/watch/factory.go`; kubernetes-sigs/headlamp
`frontend/src/lib/k8s/{KubeObject.ts,api/v1/clusterApi.ts,api/v2/apiDiscovery.tsx,api/v2/webSocket.ts}`.
"""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from contextlib import closing
from typing import Any, Literal, NamedTuple

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import TIMEOUT, Watch, configmap, create_definition, definition

# One worker runs them all, with one server.
pytestmark = pytest.mark.xdist_group("dashboards")
CLUSTER = "/clusters/dashboards"
GROUP = "dashboards.example.com"
User = Literal["alice", "carol"]
USERS: tuple[User, ...] = ("alice", "carol")
"""Alice administers the namespace shop. Carol administers the cluster."""

DISCOVERY = "application/json;g=apidiscovery.k8s.io;v={};as=APIGroupDiscoveryList"
CLIENT_GO = f"{DISCOVERY.format('v2')},{DISCOVERY.format('v2beta1')},application/json"
HEADLAMP = "application/json;v=v2;g=apidiscovery.k8s.io;as=APIGroupDiscoveryList"
TABLE = "application/json;as=Table;v=v1;g=meta.k8s.io, application/json"
ANY = "application/json, */*"
BOTH = (200, 200)
FORBIDDEN = (403, 200)
ABSENT = (403, 404)
"""A resource that the server does not have is 404 for those who may read all resources."""


class Read(NamedTuple):
    """A GET: the path, the accepted media types, the status codes of alice and of carol, and the kind of the answer."""

    path: str
    accept: str
    codes: tuple[int, int]
    kind: str


K9S = (
    Read("/version", ANY, BOTH, ""),
    Read("/api", CLIENT_GO, BOTH, "APIGroupDiscoveryList"),
    Read("/apis", CLIENT_GO, BOTH, "APIGroupDiscoveryList"),
    Read("/apis/metrics.k8s.io/v1beta1", ANY, (404, 404), ""),
    Read("/api/v1/namespaces", ANY, FORBIDDEN, "NamespaceList"),
    Read("/apis/apiextensions.k8s.io/v1/customresourcedefinitions?limit=500", ANY, FORBIDDEN, "CustomResourceDefinitionList"),
    Read("/api/v1/namespaces/shop/configmaps?limit=500", ANY, BOTH, "ConfigMapList"),
    Read("/api/v1/namespaces/shop/configmaps", TABLE, BOTH, "Table"),
    Read("/api/v1/configmaps", TABLE, FORBIDDEN, "Table"),
    Read("/api/v1/namespaces/shop/secrets?labelSelector=owner%3Dhelm", TABLE, BOTH, "Table"),
    Read(f"/apis/{GROUP}/v1/namespaces/shop/ships", TABLE, FORBIDDEN, "Table"),
    Read("/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings", TABLE, BOTH, "Table"),
    Read("/apis/rbac.authorization.k8s.io/v1/clusterroles", TABLE, FORBIDDEN, "Table"),
    Read("/api/v1/nodes", TABLE, ABSENT, "Status"),
    Read("/apis/metrics.k8s.io/v1beta1/nodes", ANY, ABSENT, ""),
)
HEADLAMP_READS = (
    Read("/version", ANY, BOTH, ""),
    Read("/healthz", "*/*", BOTH, ""),
    Read("/api", HEADLAMP, BOTH, "APIGroupDiscoveryList"),
    Read("/apis", HEADLAMP, BOTH, "APIGroupDiscoveryList"),
    Read("/openapi/v2", ANY, BOTH, ""),
    Read("/api/v1/namespaces", ANY, FORBIDDEN, "NamespaceList"),
    Read("/api/v1/namespaces/shop", ANY, BOTH, "Namespace"),
    Read("/api/v1/events?limit=2000", ANY, FORBIDDEN, "EventList"),
    Read("/api/v1/namespaces/shop/events?limit=2000", ANY, BOTH, "EventList"),
    Read("/api/v1/namespaces/shop/configmaps/prices", ANY, BOTH, "ConfigMap"),
    Read("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", ANY, FORBIDDEN, "CustomResourceDefinitionList"),
    Read(f"/apis/{GROUP}/v1/namespaces/shop/ships", ANY, FORBIDDEN, "ShipList"),
    Read("/api/v1/nodes", ANY, ABSENT, "Status"),
    Read("/apis/metrics.k8s.io/v1beta1/nodes", ANY, ABSENT, ""),
)
REVIEWS: tuple[tuple[dict[str, str], bool], ...] = (
    # k9s asks for each verb of what it shows, without a namespace for all of them.
    ({"verb": "list", "resource": "namespaces"}, False),
    ({"verb": "list", "resource": "configmaps"}, False),
    ({"verb": "list", "resource": "configmaps", "namespace": "shop"}, True),
    ({"verb": "watch", "resource": "configmaps", "namespace": "shop"}, True),
    ({"verb": "get", "resource": "secrets", "namespace": "shop", "name": "key"}, True),
    ({"verb": "get", "resource": "secrets", "namespace": "default", "name": "key"}, False),
    ({"verb": "create", "resource": "pods", "subresource": "exec", "namespace": "shop"}, True),
    ({"verb": "get", "resource": "pods", "subresource": "log", "namespace": "shop"}, True),
    ({"verb": "list", "group": "apiextensions.k8s.io", "resource": "customresourcedefinitions"}, False),
    ({"verb": "list", "group": "metrics.k8s.io", "resource": "nodes"}, False),
    # Headlamp names the version, and the object that its buttons are for.
    ({"verb": "create", "group": "rbac.authorization.k8s.io", "version": "v1", "resource": "roles", "namespace": "shop"}, True),
    ({"verb": "update", "group": "", "version": "v1", "resource": "configmaps", "namespace": "shop", "name": "prices"}, True),
    ({"verb": "delete", "group": "", "version": "v1", "resource": "namespaces", "name": "shop", "namespace": ""}, False),
    ({"verb": "patch", "group": GROUP, "version": "v1", "resource": "ships", "namespace": "shop", "name": "ann"}, False),
)


@pytest.fixture(scope="module")
def dashboards(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server with alice and carol, and a cluster with a namespace, a definition and objects."""
    folder = tmp_path_factory.mktemp("dashboards")
    users = folder / "users.csv"
    users.write_text("".join(f"{name}-token,{name},{name}-uid\n" for name in USERS))
    process = ServerProcess(folder / "root", "--token-auth-file", str(users)).start()
    create_definition(process, "dashboards", definition(GROUP, "ships", "Ship", {"color": {"type": "string"}}))
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for path, body in (
        ("/api/v1/namespaces", {"metadata": {"name": "shop"}}),
        ("/api/v1/namespaces/shop/configmaps", configmap("prices", {"apple": "1"})),
        (f"/apis/{GROUP}/v1/namespaces/shop/ships", {"apiVersion": f"{GROUP}/v1", "kind": "Ship", "metadata": {"name": "ann"}}),
        (f"{rbac}/clusterrolebindings", binding("carol", "cluster-admin")),
        (f"{rbac}/clusterrolebindings", binding("alice", "system:kcp:workspace:access")),
        (f"{rbac}/namespaces/shop/rolebindings", binding("alice", "admin")),
    ):
        answer = process.request("POST", CLUSTER + path, body)
        assert answer.code == 201, answer.body
    yield process
    process.stop()


def binding(user: str, role: str) -> dict[str, Any]:
    group = "rbac.authorization.k8s.io"
    subjects = [{"kind": "User", "apiGroup": group, "name": user}]
    return {"metadata": {"name": user}, "subjects": subjects, "roleRef": {"kind": "ClusterRole", "apiGroup": group, "name": role}}


def replay(server: ServerProcess, user: User, reads: tuple[Read, ...]) -> None:
    """Send the requests of a user, and compare status codes and kinds."""
    found = []
    for read in reads:
        answer = server.request("GET", CLUSTER + read.path, headers={"Accept": read.accept}, token=f"{user}-token")
        json_type = {name.lower(): value for name, value in answer.headers.items()}["content-type"].startswith("application/json")
        kind = answer.json.get("kind", "") if json_type else ""
        found.append((read.path, answer.code, kind if answer.code != 200 or read.kind else ""))
    codes = [read.codes[USERS.index(user)] for read in reads]
    kinds = {403: "Status"}
    wanted = [(read.path, code, kinds.get(code, read.kind)) for read, code in zip(reads, codes, strict=True)]
    assert found == wanted


@pytest.mark.parametrize("user", USERS)
def test_k9s(dashboards: ServerProcess, user: User) -> None:
    """k9s starts: version, discovery, and tables of the resources that the user may read. Other requests are refused."""
    replay(dashboards, user, K9S)


@pytest.mark.parametrize("user", USERS)
def test_headlamp(dashboards: ServerProcess, user: User) -> None:
    """Headlamp starts: health, discovery in the newest form alone, OpenAPI, and lists of the resources that the user may read."""
    replay(dashboards, user, HEADLAMP_READS)


@pytest.mark.parametrize("user", USERS)
def test_discovery_is_complete(dashboards: ServerProcess, user: User) -> None:
    """Both users find every resource with its verbs, scope and kind: menus are made of them, whatever the user may do."""
    found = {}
    for path in ("/api", "/apis"):
        for group in dashboards.request("GET", CLUSTER + path, headers={"Accept": HEADLAMP}, token=f"{user}-token").json["items"]:
            for resource in group["versions"][0]["resources"]:
                found[group["metadata"].get("name", ""), resource["resource"]] = resource
    for key, scope, kind in (
        (("", "configmaps"), "Namespaced", "ConfigMap"),
        (("", "namespaces"), "Cluster", "Namespace"),
        ((GROUP, "ships"), "Namespaced", "Ship"),
        (("rbac.authorization.k8s.io", "clusterroles"), "Cluster", "ClusterRole"),
        (("apiextensions.k8s.io", "customresourcedefinitions"), "Cluster", "CustomResourceDefinition"),
    ):
        assert (found[key]["scope"], found[key]["responseKind"]["kind"]) == (scope, kind)
        assert {"get", "list", "watch", "create", "update", "patch", "delete"} <= set(found[key]["verbs"])
        assert found[key]["singularResource"]


@pytest.mark.parametrize("user", USERS)
def test_reviews(dashboards: ServerProcess, user: User) -> None:
    """Access reviews say what the user may do, with and without namespace, name, subresource and version."""
    found = []
    for attributes, _ in REVIEWS:
        review = {"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1", "spec": {"resourceAttributes": attributes}}
        path = f"{CLUSTER}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
        answer = dashboards.request("POST", path, review, token=f"{user}-token")
        assert (answer.code, answer.json["kind"]) == (201, "SelfSubjectAccessReview")
        found.append((attributes, answer.json["status"]["allowed"]))
    assert found == [(attributes, allowed or user == "carol") for attributes, allowed in REVIEWS]


@pytest.mark.parametrize("user", USERS)
def test_session(dashboards: ServerProcess, user: User) -> None:
    """Headlamp's check of a session sends a rules review without a kind; the review of the user says who it is."""
    path = f"{CLUSTER}/apis/authorization.k8s.io/v1/selfsubjectrulesreviews"
    rules = {}
    for namespace in ("default", "shop"):
        answer = dashboards.request("POST", path, {"spec": {"namespace": namespace}}, token=f"{user}-token")
        assert (answer.code, answer.json["kind"]) == (201, "SelfSubjectRulesReview")
        status = answer.json["status"]
        assert status["incomplete"] is False
        assert any("/api/*" in rule["nonResourceURLs"] for rule in status["nonResourceRules"])
        rules[namespace] = any("configmaps" in rule["resources"] or "*" in rule["resources"] for rule in status["resourceRules"])
    assert rules == {"default": user == "carol", "shop": True}
    review = {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}
    answer = dashboards.request("POST", f"{CLUSTER}/apis/authentication.k8s.io/v1/selfsubjectreviews", review, token=f"{user}-token")
    info = answer.json["status"]["userInfo"]
    assert (answer.code, info["username"], info["groups"]) == (201, user, ["system:authenticated"])
    refused = dashboards.request("POST", path, {"spec": {"namespace": "shop"}}, token="expired")
    assert (refused.code, refused.json["reason"]) == (401, "Unauthorized")


@pytest.mark.parametrize("user", USERS)
@pytest.mark.parametrize(
    "query",
    [
        "allowWatchBookmarks=true&resourceVersion={revision}&timeoutSeconds=300&watch=true",
        "allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan&sendInitialEvents=true&timeoutSeconds=300&watch=true",
    ],
    ids=["after a list", "list in the watch"],
)
def test_informers_of_k9s(dashboards: ServerProcess, user: User, query: str) -> None:
    """The informers of a view list and watch one namespace. A view of all namespaces is refused to a user of one."""
    collection = f"{CLUSTER}/api/v1/namespaces/shop/configmaps"
    token = f"{user}-token"
    listed = dashboards.request("GET", f"{collection}?limit=500&resourceVersion=0", token=token).json
    assert [item["metadata"]["name"] for item in listed["items"]] == ["prices"]
    path = f"{collection}?{query.format(revision=listed['metadata']['resourceVersion'])}"
    with Watch(dashboards, path, Authorization=f"Bearer {token}") as watch:
        change = {"data": {"apple": "2"}}
        merge = {"Content-Type": "application/merge-patch+json"}
        dashboards.request("PATCH", f"{collection}/prices", {"data": {"apple": None}}, headers=merge)
        assert dashboards.request("PATCH", f"{collection}/prices", change, headers=merge, token=token).code == 200
        assert any(event["type"] == "MODIFIED" and event["object"].get("data") == change["data"] for event in watch)
    with Watch(dashboards, f"{CLUSTER}/api/v1/configmaps?watch=true&timeoutSeconds=1", Authorization=f"Bearer {token}") as everywhere:
        assert everywhere.response.status == (200 if user == "carol" else 403)


@pytest.mark.parametrize("user", USERS)
def test_websocket_of_headlamp(dashboards: ServerProcess, user: User) -> None:
    """Headlamp watches over WebSocket, with its subprotocol: events of the namespace, and 403 where the user may not watch."""
    websocket = pytest.importorskip("websocket", reason="websocket-client is not installed")
    url = f"wss://127.0.0.1:{dashboards.port}{CLUSTER}/api/v1"
    options = {
        "header": [f"Authorization: Bearer {user}-token"],
        "subprotocols": ["base64.binary.k8s.io"],
        "origin": "http://localhost:4466",
        "sslopt": {"context": ssl.create_default_context(cafile=str(dashboards.ca_file))},
        "timeout": TIMEOUT,
    }
    with closing(websocket.create_connection(f"{url}/namespaces/shop/configmaps?watch=1", **options)) as socket:
        event = json.loads(socket.recv())
        assert (event["type"], event["object"]["metadata"]["name"]) == ("ADDED", "prices")
    if user == "alice":
        with pytest.raises(websocket.WebSocketBadStatusException) as refused:
            websocket.create_connection(f"{url}/configmaps?watch=1", **options)
        assert refused.value.status_code == 403
