"""Who the owner of a service account's token is, in its cluster and in others, and when a token ends."""

from __future__ import annotations

import base64
from pathlib import Path

import orjson
import pytest

from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.storage.contract import Put
from tests.authn.serviceaccount.conftest import CORE, SERVER, Issued, Sign, issue, now, review, server, whoami
from tests.authz.conftest import RBAC, binding, let_in
from tests.server.handlers.conftest import Api, Watch

pytestmark = pytest.mark.anyio

FOREIGN = "system:kcp:serviceaccount:team-a:default:builder"


async def test_the_owner_in_its_cluster(api: Api, issued: Issued) -> None:
    """Name, uid, groups and credential are those of Kubernetes. The cluster is kcp's."""
    user = (await whoami(api, issued.token)).json()["status"]["userInfo"]
    assert user == {
        "username": "system:serviceaccount:default:builder",
        "uid": issued.uid,
        "groups": ["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"],
        "extra": {
            "authentication.kcp.io/cluster-name": ["team-a"],
            "authentication.kubernetes.io/credential-id": [f"JTI={issued.claims['jti']}"],
        },
    }


async def test_the_owner_in_another_cluster(api: Api, issued: Issued) -> None:
    """It is a foreign account there: it may not enter, and bindings of local accounts of its name are not for it."""
    other = "/clusters/team-b"
    await issue(api, core=f"{other}/api/v1/namespaces/default")
    await let_in(api, "Group:system:serviceaccounts", "ServiceAccount:default:builder", cluster="team-b")
    refused = (await whoami(api, issued.token, other)).json()
    assert refused["code"] == 403
    assert refused["message"].endswith("access denied")
    await api.ok("DELETE", f"{other}/apis/rbac.authorization.k8s.io/v1/clusterrolebindings/members")
    await let_in(api, f"User:{FOREIGN}", cluster="team-b")
    user = (await whoami(api, issued.token, other)).json()["status"]["userInfo"]
    assert (user["username"], user["groups"]) == (FOREIGN, ["system:authenticated"])


async def test_an_account_needs_no_permission_to_be_in_its_cluster(api: Api, issued: Issued) -> None:
    """A binding alone lets it read."""
    path, bearer = f"{CORE}/configmaps", f"Bearer {issued.token}"
    await api.fails(403, "GET", path, token=bearer)
    await api.ok("POST", f"{RBAC}/namespaces/default/rolebindings", binding("views", "view", "ServiceAccount:default:builder"))
    await api.ok("GET", path, token=bearer)
    await api.fails(403, "GET", "/clusters/*/api/v1/configmaps", token=bearer)


async def test_reviews(api: Api, issued: Issued) -> None:
    """A review in the cluster of the token shows its owner, one in another cluster the foreign account."""
    here, there = await review(api, issued.token), await review(api, issued.token, "team-b")
    assert (here["user"]["username"], here["audiences"]) == ("system:serviceaccount:default:builder", [SERVER])
    assert there["user"]["username"] == FOREIGN
    refused = await review(api, issued.token, audiences=["vault"])
    assert refused["user"] == {}
    assert "is invalid for the target audiences" in refused["error"]


async def test_audiences(api: Api) -> None:
    """The server refuses a token for others, and a review finds the audiences that both know."""
    issued = await issue(api, spec={"audiences": ["vault", "db"]})
    assert (await whoami(api, issued.token)).status_code == 401
    assert (await review(api, issued.token)).get("authenticated") is None
    assert (await review(api, issued.token, audiences=["db", "x"]))["audiences"] == ["db"]


async def test_a_deleted_account_ends_its_tokens(api: Api, issued: Issued) -> None:
    """At once, and an account of the same name that comes later does not bring them back."""
    assert (await whoami(api, issued.token)).status_code == 201
    await api.ok("DELETE", f"{CORE}/serviceaccounts/builder")
    assert (await whoami(api, issued.token)).status_code == 401
    later = await issue(api)
    assert (await whoami(api, issued.token)).status_code == 401
    assert (await whoami(api, later.token)).status_code == 201


async def test_a_deleted_namespace_ends_its_tokens(api: Api) -> None:
    """So does its deletion, and another one of its name does not bring them back."""
    namespaces, core = "/clusters/team-a/api/v1/namespaces", "/clusters/team-a/api/v1/namespaces/shop"
    await api.ok("POST", namespaces, {"metadata": {"name": "shop"}})
    issued = await issue(api, core=core)
    assert (await whoami(api, issued.token)).status_code == 201
    await api.ok("DELETE", f"{core}/serviceaccounts/builder")
    later = await issue(api, core=core)
    assert (await whoami(api, issued.token)).status_code == 401
    assert (await whoami(api, later.token)).status_code == 201


async def test_a_deleted_cluster_ends_its_tokens(api: Api, issued: Issued) -> None:
    """In it and in others, and another cluster of its name, with an account of the name, does not bring them back."""
    cluster = "/clusters/team-a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    assert (await whoami(api, issued.token)).status_code == 201
    async with Watch(api, cluster.rpartition("/")[0]) as watch:
        await api.ok("DELETE", cluster)
        while (event := await watch.next()) is not None and event["type"] != "DELETED":
            pass
    assert (await whoami(api, issued.token)).status_code == 401
    assert (await whoami(api, issued.token, "/clusters/team-b")).status_code == 401
    later = await issue(api)
    assert (await whoami(api, issued.token)).status_code == 401
    assert (await whoami(api, later.token)).status_code == 201


async def test_a_bound_secret_ends_its_tokens(api: Api) -> None:
    """With its deletion, also where another secret of the name comes."""
    await api.ok("POST", f"{CORE}/secrets", {"metadata": {"name": "session"}})
    issued = await issue(api, spec={"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "session"}})
    assert set(issued.claims["kubernetes.io"]["secret"]) == {"name", "uid"}
    assert (await whoami(api, issued.token)).status_code == 201
    await api.ok("DELETE", f"{CORE}/secrets/session")
    assert (await whoami(api, issued.token)).status_code == 401
    await api.ok("POST", f"{CORE}/secrets", {"metadata": {"name": "session"}})
    assert (await whoami(api, issued.token)).status_code == 401


@pytest.mark.parametrize(("ago", "code"), [(30, 201), (90, 401)])
async def test_an_object_that_is_being_deleted_counts_for_a_minute(api: Api, ago: int, code: int) -> None:
    """As upstream: a deletion timestamp of more than a minute ago ends the token."""
    made = await api.ok("POST", f"{CORE}/secrets", {"metadata": {"name": "session", "finalizers": ["example.com/wait"]}})
    issued = await issue(api, spec={"boundObjectRef": {"kind": "Secret", "apiVersion": "v1", "name": "session"}})
    await api.ok("DELETE", f"{CORE}/secrets/session")
    await _age(api, "/registry/core/secrets/team-a/default/session", ago)
    assert made["metadata"]["uid"] == issued.claims["kubernetes.io"]["secret"]["uid"]
    assert (await whoami(api, issued.token)).status_code == code


async def _age(api: Api, key: str, seconds: int) -> None:
    """Move the deletion timestamp of a stored object into the past."""
    backend = api.control_plane.backend
    item = await backend.access.storage.get(key)
    assert item is not None
    obj = orjson.loads(item.value)
    obj["metadata"]["deletionTimestamp"] = format_time(now() - seconds)
    revision = await backend.access.storage.transact([], [Put(key, orjson.dumps(obj))])
    await backend.fanout.reached(revision)


async def test_bound_pods_and_nodes(tmp_path: Path) -> None:
    """The user of a token that is bound to a pod names pod and node. Either one ends the tokens that are bound to it."""
    async with server(tmp_path, builtin_kinds=("pods", "nodes")) as api:
        await api.ok("POST", f"{CORE}/serviceaccounts", {"metadata": {"name": "builder"}})
        node = await api.ok("POST", "/clusters/team-a/api/v1/nodes", {"metadata": {"name": "n1"}})
        spec = {"serviceAccountName": "builder", "nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
        pod = await api.ok("POST", f"{CORE}/pods", {"metadata": {"name": "p1"}, "spec": spec})
        reference = {"kind": "Pod", "apiVersion": "v1", "name": "p1", "uid": pod["metadata"]["uid"]}
        issued = await issue(api, spec={"boundObjectRef": reference})
        assert issued.claims["kubernetes.io"]["node"] == {"name": "n1", "uid": node["metadata"]["uid"]}
        extra = (await whoami(api, issued.token)).json()["status"]["userInfo"]["extra"]
        prefix = "authentication.kubernetes.io/"
        assert extra[f"{prefix}pod-name"] == ["p1"]
        assert extra[f"{prefix}pod-uid"] == [pod["metadata"]["uid"]]
        assert extra[f"{prefix}node-name"] == ["n1"]
        assert extra[f"{prefix}node-uid"] == [node["metadata"]["uid"]]
        on_node = await issue(api, spec={"boundObjectRef": {"kind": "Node", "apiVersion": "v1", "name": "n1"}})
        assert (await whoami(api, on_node.token)).status_code == 201
        await api.ok("DELETE", "/clusters/team-a/api/v1/nodes/n1")
        assert (await whoami(api, on_node.token)).status_code == 401
        # The node of a pod is told, and not checked.
        assert (await whoami(api, issued.token)).status_code == 201
        await api.ok("DELETE", f"{CORE}/pods/p1?gracePeriodSeconds=0")
        assert (await whoami(api, issued.token)).status_code == 401


@pytest.mark.parametrize(
    ("change", "code"),
    [
        ({}, 201),
        ({"exp": -30}, 201),
        ({"exp": -90}, 401),
        ({"nbf": 30}, 201),
        ({"nbf": 90}, 401),
    ],
    ids=str,
)
async def test_dates(api: Api, issued: Issued, sign: Sign, change: dict[str, int], code: int) -> None:
    """A token is valid from its beginning to its end, and a minute before and after, as upstream."""
    claims = {**issued.claims, **{name: now() + offset for name, offset in change.items()}}
    assert (await whoami(api, sign(claims))).status_code == code


async def test_requests_without_a_cluster_go_to_that_of_the_token(api: Api, issued: Issued) -> None:
    """In-cluster clients name no cluster. Their requests go to that of their token, and pages of the server stay its own."""
    bearer = f"Bearer {issued.token}"
    assert (await whoami(api, issued.token, "")).json()["status"]["userInfo"]["username"] == "system:serviceaccount:default:builder"
    await api.ok("POST", f"{RBAC}/namespaces/default/rolebindings", binding("edits", "edit", "ServiceAccount:default:builder"))
    await api.ok("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "mine"}}, token=bearer)
    await api.ok("GET", f"{CORE}/configmaps/mine")
    assert (await api("GET", "/version", token=bearer)).status_code == 200
    assert (await api("GET", "/metrics", token=bearer)).status_code == 403
    named = await api("GET", "/api/v1/namespaces/default/configmaps", headers={"X-Kubernetes-Cluster": "team-b"}, token=bearer)
    assert named.status_code == 403


async def test_an_unverified_claim_chooses_a_cluster_and_nothing_else(api: Api, issued: Issued) -> None:
    """A forged token that claims to be of a cluster is refused, whether the cluster exists or not, with the same bytes."""
    head, _, signature = issued.token.split(".")
    answers = []
    for cluster in ("team-a", "team-z", "root"):
        claims = {**issued.claims, "iss": f"{SERVER}/clusters/{cluster}", "jti": "forged"}
        payload = base64.urlsafe_b64encode(orjson.dumps(claims)).rstrip(b"=").decode()
        answer = await whoami(api, f"{head}.{payload}.{signature}", "")
        answers.append((answer.status_code, answer.content))
    assert {code for code, _ in answers} == {401}
    assert len(set(answers)) == 1


async def test_an_impersonated_account_is_one_of_the_cluster(api: Api, issued: Issued) -> None:
    """It needs no permission to enter its cluster, as with its token. The caller cannot make it one of another cluster."""
    del issued
    headers = {"Impersonate-User": "system:serviceaccount:default:builder"}
    for cluster in ("team-a", "team-b"):
        answer = await api.ok("POST", f"/clusters/{cluster}/apis/authentication.k8s.io/v1/selfsubjectreviews", {}, headers=headers)
        user = answer["status"]["userInfo"]
        assert user["extra"] == {"authentication.kcp.io/cluster-name": [cluster]}
        assert "system:serviceaccounts:default" in user["groups"]
