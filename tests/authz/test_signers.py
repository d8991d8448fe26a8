"""Who may approve requests of a signer, and answer them."""

from __future__ import annotations

from typing import Any

import pytest
from cryptography.hazmat.primitives.serialization import Encoding

from kcp_py.apis.upstream.crds import crds_named
from tests.apis.certificates.making import condition, new_authority, signing_request
from tests.authz.conftest import ALICE, BOB, RBAC, binding, let_in, role, rule
from tests.server.handlers.conftest import Api
from tests.server.handlers.widgets import install

pytestmark = pytest.mark.anyio
GROUP = "certificates.k8s.io"
REQUESTS = f"/clusters/team-a/apis/{GROUP}/v1/certificatesigningrequests"
SIGNER = "example.com/signer"
VIEWS = "certificatesigningrequests/approval certificatesigningrequests/status"


async def granted(api: Api, *rules: dict[str, Any]) -> None:
    """Let bob enter, read and update requests, with further rules."""
    await let_in(api, "User:alice", "User:bob")
    own = rule("create get update", f"certificatesigningrequests {VIEWS}", groups=GROUP)
    await api.ok("POST", f"{RBAC}/clusterroles", role("requests", own))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("requests", "requests", "User:alice", "User:bob"))
    await api.ok("POST", f"{RBAC}/clusterroles", role("further", *rules))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("further", "further", "User:bob"))


async def created(api: Api, **spec: Any) -> dict[str, Any]:
    """A request of alice."""
    made = await api.ok("POST", REQUESTS, signing_request("one", **{"signerName": SIGNER, **spec}), token=ALICE)
    return {**made, "status": {"conditions": [condition("Approved")]}}


@pytest.mark.parametrize(
    ("names", "allowed"),
    [
        (SIGNER, True),
        ("example.com/*", True),
        ("example.com/other", False),
        ("example.com", False),
        ("kubernetes.io/kube-apiserver-client", False),
    ],
)
async def test_approval(api: Api, names, *, allowed):
    """To approve needs the verb `approve` on the signer or on all signers of its domain, together with the update of the view."""
    await granted(api, rule("approve", "signers", groups=GROUP, names=names))
    request = await created(api)
    refused = await api.fails(403, "PUT", f"{REQUESTS}/one/approval", request, token=ALICE)
    message = f'certificatesigningrequests.{GROUP} "one" is forbidden: user not permitted to approve requests with signerName "{SIGNER}"'
    assert refused["message"] == message
    if allowed:
        await api.ok("PUT", f"{REQUESTS}/one/approval", request, token=BOB)
    else:
        assert (await api.fails(403, "PUT", f"{REQUESTS}/one/approval", request, token=BOB))["message"] == message


async def test_the_inherited_role_of_approvers(api: Api):
    """Every cluster inherits Kubernetes' role for those who approve requests for client certificates."""
    await granted(api)
    approver = "system:certificates.k8s.io:kube-apiserver-client-approver"
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("approvers", approver, "User:bob"))
    request = await created(api, signerName="kubernetes.io/kube-apiserver-client")
    await api.fails(403, "PUT", f"{REQUESTS}/one/approval", request, token=ALICE)
    await api.ok("PUT", f"{REQUESTS}/one/approval", request, token=BOB)


async def test_the_signer_of_the_stored_request_counts(api: Api):
    """Another signer in the update of an approver changes nothing."""
    await granted(api, rule("approve", "signers", groups=GROUP, names="example.com/mine"))
    request = await created(api)
    request["spec"]["signerName"] = "example.com/mine"
    await api.fails(403, "PUT", f"{REQUESTS}/one/approval", request, token=BOB)


async def test_signing(api: Api):
    """To set certificate and conditions needs the verb `sign`; an approver does not have it."""
    await granted(api, rule("approve", "signers", groups=GROUP, names=SIGNER))
    request = await created(api)
    failed = {**request, "status": {"conditions": [condition("Failed")]}}
    refused = await api.fails(403, "PUT", f"{REQUESTS}/one/status", failed, token=BOB)
    assert refused["message"].endswith(f'user not permitted to sign requests with signerName "{SIGNER}"')
    unchanged = {**request, "status": {}, "metadata": {**request["metadata"], "labels": {"a": "b"}}}
    labelled = await api.ok("PUT", f"{REQUESTS}/one/status", unchanged, token=BOB)
    assert labelled["metadata"]["labels"] == {"a": "b"}
    await api.ok("POST", f"{RBAC}/clusterroles", role("sign", rule("sign", "signers", groups=GROUP, names=SIGNER)))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("sign", "sign", "User:bob"))
    await api.ok("PUT", f"{REQUESTS}/one/status", {**failed, "metadata": labelled["metadata"]}, token=BOB)


async def test_permissions_of_another_cluster_do_not_count(api: Api):
    """Who may approve in one cluster may not in another."""
    await granted(api, rule("*", "*", groups="*"))
    other = REQUESTS.replace("team-a", "team-b")
    made = await api.ok("POST", other, signing_request("one", signerName=SIGNER))
    await let_in(api, "User:bob", cluster="team-b")
    approved = {**made, "status": {"conditions": [condition("Approved")]}}
    assert "user not permitted" not in (await api.fails(403, "PUT", f"{other}/one/approval", approved, token=BOB))["message"]


BUNDLES = f"/clusters/team-a/apis/{GROUP}/v1/clustertrustbundles"


@pytest.mark.parametrize(
    ("names", "allowed"), [(SIGNER, True), ("example.com/*", True), ("example.com/other", False), ("example.com", False), ("*", False)]
)
async def test_attestation(api: Api, names, *, allowed):
    """Who writes a bundle for a signer needs the verb `attest` on it, except for what garbage collection changes."""
    for crd in crds_named(["clustertrustbundles.certificates.k8s.io"]):
        await install(api, crd, "team-a")
    await granted(api, rule("*", "clustertrustbundles", groups=GROUP), rule("attest", "signers", groups=GROUP, names=names))
    pem = new_authority().certificate.public_bytes(Encoding.PEM).decode()
    bundle = {"metadata": {"name": "example.com:signer:one"}, "spec": {"signerName": SIGNER, "trustBundle": pem}}
    message = f'clustertrustbundles.{GROUP} "example.com:signer:one" is forbidden: user not permitted to attest for signerName "{SIGNER}"'
    if not allowed:
        assert (await api.fails(403, "POST", BUNDLES, bundle, token=BOB))["message"] == message
        made = await api.ok("POST", BUNDLES, bundle)
    else:
        made = await api.ok("POST", BUNDLES, bundle, token=BOB)
    collected = {**made, "metadata": {**made["metadata"], "finalizers": ["example.com/f"]}}
    made = await api.ok("PUT", f"{BUNDLES}/example.com:signer:one", collected, token=BOB)
    labelled = {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}}
    if allowed:
        await api.ok("PUT", f"{BUNDLES}/example.com:signer:one", labelled, token=BOB)
    else:
        assert (await api.fails(403, "PUT", f"{BUNDLES}/example.com:signer:one", labelled, token=BOB))["message"] == message
    free = {"metadata": {"name": "free"}, "spec": {"trustBundle": pem}}
    await api.ok("POST", BUNDLES, free, token=BOB)
