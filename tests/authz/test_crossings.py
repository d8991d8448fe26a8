"""Requests that name something of another cluster, namespace or scope where they have permission for their own."""

from __future__ import annotations

import asyncio
import base64
from typing import Any, Final

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.authz.conftest import ALICE, BOB, MAPS, RBAC, binding, let_in, role, rule
from tests.server.handlers.conftest import Api, config_map, established, make_crd

pytestmark = pytest.mark.anyio

OTHER: Final = "/clusters/team-b/api/v1/namespaces/default/configmaps"
CRDS: Final = "/clusters/team-a/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
WIDGETS: Final = "/clusters/team-a/apis/example.com/v1"


async def administer(api: Api) -> None:
    """Alice administers team-a, and bob team-b."""
    for cluster, user in (("team-a", "alice"), ("team-b", "bob")):
        path = f"/clusters/{cluster}/apis/rbac.authorization.k8s.io/v1/clusterrolebindings"
        await api.ok("POST", path, binding("admin", "cluster-admin", f"User:{user}"))


async def test_positions_in_lists_of_another_cluster(api: Api) -> None:
    """A page token of one cluster, namespace, resource or caller of grants does not serve another. Selectors do not leave the namespace."""
    await administer(api)
    for path, token in ((MAPS, ALICE), (OTHER, BOB)):
        for name in ("one", "two"):
            await api.ok("POST", path, config_map(name), token=token)
    page = (await api.ok("GET", f"{MAPS}?limit=1", token=ALICE))["metadata"]["continue"]
    assert len((await api.ok("GET", f"{MAPS}?limit=1&continue={page}", token=ALICE))["items"]) == 1
    for path, token in (
        (OTHER, BOB),
        (MAPS.replace("configmaps", "secrets"), ALICE),
        (MAPS.replace("default", "kube-system"), ALICE),
        ("/clusters/team-a/api/v1/configmaps", ALICE),
        ("/clusters/*/api/v1/configmaps", "Bearer secret"),
    ):
        await api.fails(400, "GET", f"{path}?limit=1&continue={page}", token=token)
    selected = await api("GET", f"{MAPS}?fieldSelector=metadata.namespace%3D..%2F..%2Fteam-b", token=ALICE)
    assert (selected.status_code, selected.json()["items"]) == (200, [])


@pytest.mark.parametrize(
    ("metadata", "code"),
    [
        ({"name": "x", "namespace": "kube-system"}, 400),
        ({"name": "x", "namespace": "../team-b/default"}, 400),
        ({"name": "../../team-b/default/x"}, 422),
        ({"name": "a/b"}, 422),
        ({"name": ".."}, 422),
        ({"name": "a%2fb"}, 422),
        ({"generateName": "../team-b/"}, 422),
        ({"name": "x", "clusterName": "team-b"}, 201),
        ({"name": "x", "annotations": {"kcp.io/cluster": "team-b"}}, 201),
        ({"name": "x", "uid": "3b1f0f0e-0000-4000-8000-000000000000", "resourceVersion": "", "selfLink": OTHER}, 201),
        ({"name": "x", "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "../x", "uid": ""}]}, 422),
    ],
    ids=str,
)
async def test_metadata_that_names_other_places(api: Api, metadata: dict[str, Any], code: int) -> None:
    """It is refused, or without effect: the place of an object is that of the URL."""
    await administer(api)
    answer = await api("POST", MAPS, {"metadata": metadata}, token=ALICE)
    assert answer.status_code == code, answer.text
    if code == 201:
        made = answer.json()["metadata"]
        assert (made["namespace"], made["annotations"]["kcp.io/cluster"]) == ("default", "team-a")
        assert "clusterName" not in made
        assert "selfLink" not in made
        assert made["uid"] != metadata.get("uid")
    assert (await api.ok("GET", OTHER, token=BOB))["items"] == []


async def test_resources_at_paths_of_another_scope(api: Api) -> None:
    """A role in a namespace gives nothing at cluster scope, and a cluster-scoped object has no path in a namespace."""
    await let_in(api, "User:alice")
    cluster_wide = make_crd("gears")
    cluster_wide["spec"]["scope"] = "Cluster"
    for made in (cluster_wide, make_crd("widgets")):
        await api.ok("POST", CRDS, made)
    for plural in ("gears", "widgets"):
        await established(api, "team-a", f"{plural}.example.com")
    await api.ok("POST", f"{WIDGETS}/gears", {"apiVersion": "example.com/v1", "kind": "Gear", "metadata": {"name": "one"}})
    allowed = role("all", rule("*", "gears gears/status widgets", groups="example.com"))
    await api.ok("POST", f"{RBAC}/namespaces/default/roles", allowed)
    await api.ok("POST", f"{RBAC}/namespaces/default/rolebindings", binding("all", "all", "User:alice", kind="Role"))
    for path in ("gears", "gears/one", "widgets"):
        await api.fails(403, "GET", f"{WIDGETS}/{path}", token=ALICE)
    for method, path in (("GET", "gears/one"), ("GET", "gears"), ("DELETE", "gears/one"), ("GET", "gears/one/status")):
        assert (await api(method, f"{WIDGETS}/namespaces/default/{path}", token=ALICE)).status_code == 404
    await api.ok("GET", f"{WIDGETS}/namespaces/default/widgets", token=ALICE)
    await api.fails(403, "GET", f"{WIDGETS}/namespaces/kube-system/widgets", token=ALICE)
    for odd in ("widgets/../gears/one", "widgets%2f..%2fgears", "wid%67ets%2fone"):
        assert (await api("GET", f"{WIDGETS}/namespaces/default/{odd}", token=ALICE)).status_code in {400, 403, 404}
    assert (await api.ok("GET", f"{WIDGETS}/gears/one"))["metadata"]["name"] == "one"


async def test_a_permission_that_is_withdrawn_between_pages(api: Api) -> None:
    """The next page is refused, and so is a watch from the revision of the first one."""
    await let_in(api, "User:alice")
    await api.ok("POST", f"{RBAC}/clusterroles", role("maps", rule("list watch", "configmaps")))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("maps", "maps", "User:alice"))
    for name in ("one", "two"):
        await api.ok("POST", MAPS, config_map(name))
    metadata = (await api.ok("GET", f"{MAPS}?limit=1", token=ALICE))["metadata"]
    await api.ok("DELETE", f"{RBAC}/clusterrolebindings/maps")
    for query in (f"limit=1&continue={metadata['continue']}", f"watch=1&resourceVersion={metadata['resourceVersion']}"):
        await api.fails(403, "GET", f"{MAPS}?{query}", token=ALICE)


async def test_two_approvers_of_one_request_decide_once(api: Api) -> None:
    """Approval and denial at the same time: one of them counts, and a denied request gets no certificate."""
    await administer(api)
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "carol")])
    request = x509.CertificateSigningRequestBuilder().subject_name(name).sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    spec = {
        "request": base64.b64encode(request.public_bytes(serialization.Encoding.PEM)).decode(),
        "signerName": "kubernetes.io/kube-apiserver-client",
        "usages": ["client auth"],
    }
    path = "/clusters/team-a/apis/certificates.k8s.io/v1/certificatesigningrequests"
    for number in range(5):
        made = await api.ok("POST", path, {"metadata": {"name": f"carol-{number}"}, "spec": spec}, token=ALICE)
        answers = await asyncio.gather(
            *(
                api(
                    "PUT",
                    f"{path}/carol-{number}/approval",
                    {**made, "status": {"conditions": [{"type": kind, "status": "True", "reason": "x"}]}},
                    token=ALICE,
                )
                for kind in ("Approved", "Denied")
            )
        )
        assert sorted(answer.status_code for answer in answers) == [200, 409]
        (decided,) = (answer.json() for answer in answers if answer.status_code == 200)
        (condition,) = decided["status"]["conditions"]
        other = {"Approved": "Denied", "Denied": "Approved"}[condition["type"]]
        again = {**decided, "status": {"conditions": [condition, {"type": other, "status": "True", "reason": "x"}]}}
        current = await api.ok("GET", f"{path}/carol-{number}", token=ALICE)
        again["metadata"] = current["metadata"]
        await api.fails(422, "PUT", f"{path}/carol-{number}/approval", again, token=ALICE)
