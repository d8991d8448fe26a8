"""Requests of kubelets for certificates are approved where permissions say so."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apis.certificates.install import SIGNING_REQUESTS
from kcp_py.controllers import start_controllers
from kcp_py.controllers.kubeletrequests import KUBELET_SIGNER, KubeletRequestController
from kcp_py.controllers.runtime.queue import Key
from kcp_py.request.user import UserInfo
from tests.apis.certificates.making import condition, in_base64, new_request
from tests.controllers.planes import OTHER, TEAM, WAYS, Plane, open_plane

pytestmark = pytest.mark.anyio

RBAC = "rbac.authorization.k8s.io"
BINDINGS = GroupVersionResource(RBAC, "v1", "clusterrolebindings")
NODE = "system:node:one"
USAGES = ("digital signature", "client auth")
KEY = Key(TEAM, "", "csr")
SELF, ANY = "selfnodeclient", "nodeclient"
SELF_TEXT = "Auto approving self kubelet client certificate after SubjectAccessReview."
ANY_TEXT = "Auto approving kubelet client certificate after SubjectAccessReview."


async def allow(plane: Plane, user: str, permission: str) -> None:
    """Bind the role that Kubernetes has for a permission, and the one that lets users into a cluster."""
    subject = {"apiGroup": RBAC, "kind": "User", "name": user}
    for role in (f"system:certificates.k8s.io:certificatesigningrequests:{permission}", "system:kcp:workspace:access"):
        reference = {"apiGroup": RBAC, "kind": "ClusterRole", "name": role}
        binding = {"metadata": {"name": role}, "roleRef": reference, "subjects": [subject]}
        await plane.control_plane.client.create(TEAM, BINDINGS, binding)


def csr(
    name: str = NODE,
    *more: str,
    groups: Sequence[str] = ("system:nodes",),
    usages: Sequence[str] = USAGES,
    signer: str = KUBELET_SIGNER,
    extensions: Sequence[Any] = (),
) -> dict[str, Any]:
    """The request of a kubelet."""
    text = in_base64(new_request(name, *more, groups=groups, extensions=extensions))
    return {"metadata": {"name": "csr"}, "spec": {"request": text, "signerName": signer, "usages": list(usages)}}


async def request(plane: Plane, obj: dict[str, Any], user: str = NODE) -> None:
    """Create a request as a user, who is not asked for permission."""
    await plane.control_plane.client.acting_as(UserInfo(user, "", ("kubelets",))).create(TEAM, SIGNING_REQUESTS, obj)


async def conditions(plane: Plane) -> list[tuple[str, str, str]]:
    found = await plane.control_plane.client.get(TEAM, SIGNING_REQUESTS, "", "csr")
    return [(one["type"], one["reason"], one["message"]) for one in found["status"].get("conditions") or ()]


@pytest.mark.parametrize("way", WAYS)
async def test_a_kubelet_gets_its_approval(way: str, tmp_path: Path) -> None:
    """Of a request that exists, and of one that comes later. One that is refused stays as it is."""
    async with open_plane(way, tmp_path) as plane:
        await allow(plane, NODE, SELF)
        await request(plane, csr())
        start_controllers(plane.supervisor, plane.client, plane.tap, ("csrapproving",))

        async def approved() -> bool:
            return await conditions(plane) == [("Approved", "AutoApproved", SELF_TEXT)]

        await plane.until(approved)
        await plane.control_plane.client.delete(TEAM, SIGNING_REQUESTS, "", "csr")
        await request(plane, csr(usages=[*USAGES, "key encipherment"]))
        await plane.until(approved)


@pytest.mark.parametrize(
    ("user", "permission", "text"),
    [
        (NODE, SELF, SELF_TEXT),
        ("bootstrap", SELF, ""),
        ("bootstrap", ANY, ANY_TEXT),
        (NODE, ANY, ANY_TEXT),
        (NODE, "", ""),
    ],
)
async def test_permissions_decide(user: str, permission: str, text: str, tmp_path: Path) -> None:
    """`selfnodeclient` is for the own name alone. Permissions of another cluster do not count."""
    async with open_plane(WAYS[0], tmp_path) as plane:
        if permission:
            await allow(plane, user, permission)
        else:
            binding = {"metadata": {"name": "b"}, "roleRef": {"apiGroup": RBAC, "kind": "ClusterRole", "name": "cluster-admin"}}
            subjects = [{"apiGroup": RBAC, "kind": "User", "name": user}]
            await plane.control_plane.client.create(OTHER, BINDINGS, {**binding, "subjects": subjects})
        await request(plane, csr(), user)
        assert await KubeletRequestController(plane.client).reconcile(KEY) == 0
        assert await conditions(plane) == ([("Approved", "AutoApproved", text)] if text else [])


@pytest.mark.parametrize(
    "obj",
    [
        csr(signer="example.com/other"),
        csr("alice"),
        csr(groups=()),
        csr(groups=("system:nodes", "system:masters")),
        csr(NODE, "system:node:two"),
        csr(usages=["client auth"]),
        csr(usages=[*USAGES, "server auth"]),
        csr(extensions=[x509.SubjectAlternativeName([x509.DNSName("one")])]),
    ],
    ids=["signer", "name", "no group", "groups", "two names", "few usages", "usages", "alternative name"],
)
async def test_other_requests_are_left_alone(obj: dict[str, Any], tmp_path: Path) -> None:
    """Whatever the requester may do."""
    async with open_plane(WAYS[0], tmp_path) as plane:
        await allow(plane, NODE, SELF)
        await request(plane, obj)
        assert await KubeletRequestController(plane.client).reconcile(KEY) == 0
        assert await conditions(plane) == []


async def test_a_decision_stays(tmp_path: Path) -> None:
    """Of a person who was faster."""
    async with open_plane(WAYS[0], tmp_path) as plane:
        await allow(plane, NODE, SELF)
        await request(plane, csr())
        client = plane.control_plane.client
        made = await client.get(TEAM, SIGNING_REQUESTS, "", "csr")
        denied = condition("Denied", reason="No", message="no")
        await client.update(TEAM, SIGNING_REQUESTS, {**made, "status": {"conditions": [denied]}}, subresource="approval")
        assert await KubeletRequestController(plane.client).reconcile(KEY) == 0
        assert await conditions(plane) == [("Denied", "No", "no")]
