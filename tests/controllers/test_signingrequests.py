"""Approved requests get certificates, and old requests are deleted."""

from __future__ import annotations

import base64
import datetime as dt
from collections.abc import Callable
from typing import Any

import pytest
from cryptography import x509

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apis.certificates.binding import binding_of
from kcp_py.apis.certificates.install import SIGNING_REQUESTS
from kcp_py.apis.certificates.signing import AuthorityError, SigningAuthority
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.controllers.signingrequests import AuthorityFiles, SigningController, SigningRequestCleaner
from kcp_py.controllers.starting import start_controllers
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.apis.certificates.making import NOW, condition, new_authority, signing_request
from tests.client.registry import LOGICAL_CLUSTERS, Registry, open_registry

pytestmark = pytest.mark.anyio
TEAM = Name("team-a")
KEY = Key(TEAM, "", "one")
AUTHORITY = new_authority()
HOUR = 3600.0


@pytest.fixture
async def registry():
    async with open_registry(MemoryStorage()) as opened:
        yield opened


def signer(registry: Registry, authority: Callable[[], SigningAuthority] = lambda: AUTHORITY) -> SigningController:
    return SigningController(registry.client, authority, longest=24 * HOUR, clock=NOW.timestamp)


async def requested(registry: Registry, *conditions: str, **spec: Any) -> dict[str, Any]:
    """A request with conditions of approval."""
    made = await registry.client.create(TEAM, SIGNING_REQUESTS, signing_request("one", **spec))
    if conditions:
        made["status"] = {"conditions": [condition(kind) for kind in conditions]}
        made = await registry.client.update(TEAM, SIGNING_REQUESTS, made, subresource="approval")
    return made


async def status_of(registry: Registry) -> dict[str, Any]:
    found = await registry.client.get(TEAM, SIGNING_REQUESTS, "", "one")
    return dict(found["status"])


async def test_an_approved_request_is_signed_for_its_cluster(registry: Registry):
    """The certificate names the cluster with the uid of its LogicalCluster, and keeps the approval."""
    await requested(registry, "Approved", expirationSeconds=7200)
    await signer(registry).reconcile(KEY)
    status = await status_of(registry)
    certificate = x509.load_pem_x509_certificate(base64.b64decode(status["certificate"]))
    binding = binding_of(certificate)
    assert binding is not None
    cluster = await registry.client.get(TEAM, LOGICAL_CLUSTERS, "", "cluster")
    assert (binding.cluster, binding.uid) == (TEAM, cluster["metadata"]["uid"])
    assert certificate.not_valid_after_utc == NOW + dt.timedelta(hours=2)
    assert [one["type"] for one in status["conditions"]] == ["Approved"]


@pytest.mark.parametrize(
    ("conditions", "spec"),
    [((), {}), (("Denied",), {}), (("Approved",), {"signerName": "example.com/signer"})],
    ids=["pending", "denied", "of another signer"],
)
async def test_other_requests_are_left_alone(registry: Registry, conditions, spec):
    """Only approved requests of this signer get an answer."""
    before = await requested(registry, *conditions, **spec)
    await signer(registry).reconcile(KEY)
    assert await registry.client.get(TEAM, SIGNING_REQUESTS, "", "one") == before


async def test_a_request_is_answered_once(registry: Registry):
    """A request with a certificate keeps it."""
    await requested(registry, "Approved")
    await signer(registry).reconcile(KEY)
    status = await status_of(registry)
    await signer(registry).reconcile(KEY)
    assert await status_of(registry) == status


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"usages": ["server auth", "client auth"]}, "invalid usage for client certificate: server auth"),
        ({"usages": ["digital signature"]}, "missing required usage for client certificate: client auth"),
        ({"users": ("alice\nadmin",)}, "names must have 1 to 1024 bytes of printable characters"),
        ({"groups": ["system:masters"]}, "use of kubernetes.io/kube-apiserver-client signer with system:masters group is not allowed"),
    ],
)
async def test_a_request_that_cannot_be_signed_fails(registry: Registry, spec, message):
    """The condition Failed says why. Names are checked again, because admission does not see every way into the store."""
    users = spec.pop("users", ())
    made = await registry.client.create(TEAM, SIGNING_REQUESTS, signing_request("one", *users, **spec))
    made["status"] = {"conditions": [condition("Approved")]}
    await registry.client.update(TEAM, SIGNING_REQUESTS, made, subresource="approval")
    await signer(registry).reconcile(KEY)
    status = await status_of(registry)
    assert "certificate" not in status
    failed = status["conditions"][-1]
    assert (failed["type"], failed["reason"], failed["message"]) == ("Failed", "SignerValidationFailure", message)
    await signer(registry).reconcile(KEY)
    assert await status_of(registry) == status


async def test_without_an_authority_the_request_waits(registry: Registry, tmp_path):
    """A missing file is an error that is tried again, and no failure of the request."""
    await requested(registry, "Approved")
    files = AuthorityFiles(tmp_path / "ca.crt", tmp_path / "ca.key")
    with pytest.raises(AuthorityError, match=r"ca\.crt: No such file"):
        files.load()
    with pytest.raises(StatusError, match=r"ca\.crt"):
        await signer(registry, files.load).reconcile(KEY)
    assert [one["type"] for one in (await status_of(registry))["conditions"]] == ["Approved"]


async def test_the_signer_runs_with_the_other_controllers(registry: Registry):
    """Approval is followed by a certificate without any further call."""
    start_controllers(registry.supervisor, registry.client, registry.tap, signer=signer(registry))
    await requested(registry, "Approved")

    async def is_issued() -> bool:
        return "certificate" in await status_of(registry)

    await registry.until(is_issued)


async def test_old_requests_are_deleted(registry: Registry):
    """A pending request stays for a day, and is looked at again until then."""
    made = await requested(registry)
    created = dt.datetime.fromisoformat(made["metadata"]["creationTimestamp"]).timestamp()
    assert await SigningRequestCleaner(registry.client, clock=lambda: created + HOUR).reconcile(KEY) == Later(600.0)
    assert await SigningRequestCleaner(registry.client, clock=lambda: created + 24 * HOUR - 5).reconcile(KEY) == Later(5.0)
    assert await SigningRequestCleaner(registry.client, clock=lambda: created + 24 * HOUR).reconcile(KEY) == 0
    with pytest.raises(StatusError):
        await status_of(registry)
    assert await SigningRequestCleaner(registry.client).reconcile(KEY) == 0


async def test_denied_requests_are_deleted_after_an_hour(registry: Registry):
    """The time of the denial counts."""
    made = await requested(registry, "Denied")
    denied = dt.datetime.fromisoformat(made["status"]["conditions"][0]["lastUpdateTime"]).timestamp()
    assert await SigningRequestCleaner(registry.client, clock=lambda: denied + HOUR - 1).reconcile(KEY) == Later(1.0)
    assert await SigningRequestCleaner(registry.client, clock=lambda: denied + HOUR).reconcile(KEY) == 0
    with pytest.raises(StatusError):
        await status_of(registry)
