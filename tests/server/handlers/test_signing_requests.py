"""CertificateSigningRequests over HTTP: who sets which fields, approval and status. Answers are those of kube-apiserver 1.37.2."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from tests.apis.certificates.making import condition, signing_request
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio
REQUESTS = "/clusters/a/apis/certificates.k8s.io/v1/certificatesigningrequests"
MERGE = {"Content-Type": "application/merge-patch+json"}
APPLY = {"Content-Type": "application/apply-patch+yaml"}
OTHER = "example.com/signer"


def with_conditions(obj: dict[str, Any], *conditions: dict[str, Any]) -> dict[str, Any]:
    return {**obj, "status": {**obj["status"], "conditions": list(conditions)}}


@pytest.fixture
async def created(api: Api) -> dict[str, Any]:
    """A request of a signer that this server does not have."""
    made: dict[str, Any] = await api.ok("POST", REQUESTS, signing_request("one", signerName=OTHER))
    return made


async def test_requests_say_who_made_them(api: Api):
    """User, groups and extra are what authentication says, whatever the object says, and the specification never changes."""
    forged = {"username": "root", "uid": "0", "groups": ["system:masters"], "extra": {"a": ["b"]}}
    wanted = signing_request("one", signerName=OTHER)
    bob = {"Impersonate-User": "bob", "Impersonate-Group": "system:masters", "Impersonate-Extra-Scopes": "x"}
    body = {**wanted, "spec": {**wanted["spec"], **forged}, "status": {"certificate": "YQ=="}}
    created = await api.ok("POST", REQUESTS, body, headers=bob)
    mine = {"username": "bob", "groups": ["system:masters", "system:authenticated"], "extra": {"scopes": ["x"]}}
    assert created["spec"] == {**wanted["spec"], **mine}
    assert created["status"] == {}
    changed = await api.ok("PUT", f"{REQUESTS}/one", {**created, "spec": {**created["spec"], **forged, "usages": ["any"]}})
    assert changed["spec"] == created["spec"]
    patched = await api.ok("PATCH", f"{REQUESTS}/one", {"spec": forged}, headers=MERGE)
    assert patched["spec"] == created["spec"]
    config = {**signing_request("two", signerName=OTHER), "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest"}
    config["spec"].update(forged)
    applied = await api.ok("PATCH", f"{REQUESTS}/two?fieldManager=x", config, headers={**APPLY, **bob})
    assert applied["spec"]["username"] == "bob"


async def test_approval_changes_conditions_alone(api: Api, created: dict[str, Any]):
    """An update of `/approval` sets conditions with their times and metadata, and drops everything else."""
    sent = with_conditions(created, condition("Approved", reason="r"))
    sent["metadata"]["labels"] = {"a": "b"}
    sent["spec"]["username"] = "z"
    sent["status"]["certificate"] = "AAAA"
    approved = await api.ok("PUT", f"{REQUESTS}/one/approval", sent)
    assert approved["metadata"]["labels"] == {"a": "b"}
    assert approved["spec"]["username"] != "z"
    (found,) = approved["status"]["conditions"]
    assert (found["type"], found["reason"], found["lastUpdateTime"]) == ("Approved", "r", found["lastTransitionTime"])
    assert "certificate" not in approved["status"]
    changed = await api.ok("PUT", f"{REQUESTS}/one/approval", with_conditions(approved, condition("Approved", reason="changed")))
    assert changed["status"]["conditions"][0]["reason"] == "changed"
    assert changed["status"]["conditions"][0]["lastTransitionTime"] == found["lastTransitionTime"]
    refused = await api.fails(422, "PUT", f"{REQUESTS}/one/approval", with_conditions(changed))
    assert refused["message"].endswith('status.conditions: Forbidden: updates may not remove a condition of type "Approved"')
    both = with_conditions(changed, condition("Approved"), condition("Denied"))
    assert "must specify at most one of" in (await api.fails(422, "PUT", f"{REQUESTS}/one/approval", both))["message"]


async def test_the_main_resource_does_not_approve(api: Api, created: dict[str, Any]):
    """An update of the object itself keeps the status, and one of `/status` cannot add an approval."""
    sent = with_conditions(created, condition("Approved"))
    assert (await api.ok("PUT", f"{REQUESTS}/one", sent))["status"] == {}
    refused = await api.fails(422, "PUT", f"{REQUESTS}/one/status", sent)
    assert refused["message"].endswith('status.conditions: Forbidden: updates may not add a condition of type "Approved"')
    patch = {"status": {"conditions": [condition("Approved")]}}
    await api.fails(422, "PATCH", f"{REQUESTS}/one/status", patch, headers=MERGE)
    assert (await api.ok("PATCH", f"{REQUESTS}/one", patch, headers=MERGE))["status"] == {}


async def test_status_keeps_approvals_as_they_were(api: Api, created: dict[str, Any]):
    """An update of `/status` that changes an approval gets the stored one back; other conditions and the certificate are its own."""
    approved = await api.ok("PUT", f"{REQUESTS}/one/approval", with_conditions(created, condition("Approved", reason="r")))
    sent = with_conditions(approved, condition("Approved", reason="forged"), condition("Failed"), condition("Other", "False"))
    failed = await api.ok("PUT", f"{REQUESTS}/one/status", sent)
    assert [(one["type"], one.get("reason")) for one in failed["status"]["conditions"]] == [
        ("Approved", "r"), ("Failed", None), ("Other", None),
    ]  # fmt: skip
    junk = {**failed, "status": {**failed["status"], "certificate": base64.b64encode(b"junk").decode()}}
    refused = await api.fails(422, "PUT", f"{REQUESTS}/one/status", junk)
    assert refused["message"].endswith("must contain at least one CERTIFICATE PEM block")


async def test_fields_that_a_view_does_not_set_have_no_owner(api: Api):
    """Neither the specification nor the other part of the status belongs to the writer of a view."""
    made = signing_request("one", signerName=OTHER)
    made["metadata"]["labels"] = {"q": "r"}
    created = await api.ok("POST", f"{REQUESTS}?fieldManager=maker", made)
    assert [list(entry["fieldsV1"]) for entry in created["metadata"]["managedFields"]] == [["f:metadata"]]
    patch = {"metadata": {"labels": {"a": "b"}}, "status": {"conditions": [condition("Denied")]}}
    denied = await api.ok("PATCH", f"{REQUESTS}/one/approval?fieldManager=boss", patch, headers=MERGE)
    owners = {entry["manager"]: entry for entry in denied["metadata"]["managedFields"]}
    assert (owners["boss"]["subresource"], sorted(owners["boss"]["fieldsV1"])) == ("approval", ["f:metadata", "f:status"])
    assert list(owners["boss"]["fieldsV1"]["f:status"]) == ["f:conditions"]
    failed = with_conditions(denied, *denied["status"]["conditions"], condition("Failed"))
    changed = await api.ok("PUT", f"{REQUESTS}/one/status?fieldManager=signer", failed)
    assert sorted(entry["manager"] for entry in changed["metadata"]["managedFields"]) == ["boss", "maker"]


async def test_requests_are_selected_by_signer_and_shown_as_tables(api: Api, created: dict[str, Any]):
    """`kubectl get csr --field-selector spec.signerName=…` and its columns."""
    await api.ok("POST", REQUESTS, signing_request("two", signerName="example.com/b", expirationSeconds=7200))
    found = await api.ok("GET", REQUESTS, params={"fieldSelector": f"spec.signerName={OTHER}"})
    assert [item["metadata"]["name"] for item in found["items"]] == [created["metadata"]["name"]]
    refused = await api.fails(400, "GET", REQUESTS, params={"fieldSelector": "spec.username=x"})
    assert refused["message"] == "field label not supported: spec.username"
    table = await api.ok("GET", REQUESTS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert [column["name"] for column in table["columnDefinitions"]] == [
        "Name", "Age", "SignerName", "Requestor", "RequestedDuration", "Condition",
    ]  # fmt: skip
    assert [[row["cells"][0], *row["cells"][2:]] for row in table["rows"]] == [
        ["one", OTHER, "shard-admin", "<none>", "Pending"], ["two", "example.com/b", "shard-admin", "120m", "Pending"],
    ]  # fmt: skip


async def test_discovery(api: Api):
    """The resource with its two views."""
    found = await api.ok("GET", "/clusters/a/apis/certificates.k8s.io/v1")
    assert [(one["name"], one["verbs"]) for one in found["resources"]][1:] == [
        ("certificatesigningrequests/approval", ["get", "patch", "update"]),
        ("certificatesigningrequests/status", ["get", "patch", "update"]),
    ]
    assert (found["resources"][0]["shortNames"], found["resources"][0]["storageVersionHash"]) == (["csr"], "95fRKMXA+00=")
