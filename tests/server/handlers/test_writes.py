"""Creates, updates, patches and deletes, as clients see them (facts of the API's sections 3.1 to 3.6)."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from tests.registry.store.conftest import InterleavingStorage
from tests.server.handlers.conftest import Api, config_map

pytestmark = pytest.mark.anyio

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"


async def test_create_fills_in_what_only_the_server_knows(api: Api) -> None:
    """System metadata of the client is overwritten, and the answer is what a read returns."""
    sent = config_map("one", {"k": "v"}, uid="mine", creationTimestamp="2001-01-01T00:00:00Z", generation=7, selfLink="/x")
    sent["metadata"]["annotations"] = {"kcp.io/cluster": "other", "mine": "stays"}
    created = await api.ok("POST", MAPS, sent)
    metadata = created["metadata"]
    assert metadata["uid"] != "mine"
    assert metadata["creationTimestamp"] != "2001-01-01T00:00:00Z"
    assert "generation" not in metadata
    assert "selfLink" not in metadata
    assert metadata["annotations"] == {"kcp.io/cluster": "a", "mine": "stays"}
    assert metadata["namespace"] == "default"
    assert await api.ok("GET", f"{MAPS}/one") == created


async def test_the_cluster_annotation_is_never_stored(api: Api) -> None:
    """The stored object contains neither the cluster nor the revision."""
    await api.ok("POST", MAPS, config_map("one", {"k": "v"}, annotations={"kcp.io/cluster": "other"}))
    stored = await api.control_plane.backend.access.storage.get("/registry/core/configmaps/a/default/one")
    assert stored is not None
    assert b"kcp.io/cluster" not in stored.value
    assert b"resourceVersion" not in stored.value


@pytest.mark.parametrize("version", ["0", "00", "v1", "-1", "1.5", " 1", "18446744073709551616", "9" * 2000])
async def test_a_resource_version_that_none_can_have_is_no_hindrance(api: Api, version: str) -> None:
    """A create drops it."""
    created = await api.ok("POST", MAPS, config_map("one", resourceVersion=version))
    assert created == await api.ok("GET", f"{MAPS}/one")
    assert created["metadata"]["resourceVersion"] != version


@pytest.mark.parametrize("version", ["1", "18446744073709551615", "v1"])
async def test_dry_runs_of_creates_take_any_resource_version(api: Api, version: str) -> None:
    """It is the store that refuses one, and a dry run stores nothing. The answer has it."""
    answer = await api.ok("POST", MAPS, config_map("one", resourceVersion=version), params={"dryRun": "All"})
    assert answer["metadata"]["resourceVersion"] == version
    assert (await api("GET", f"{MAPS}/one")).status_code == 404


async def test_what_is_wrong_with_an_object_is_told_before_its_resource_version(api: Api) -> None:
    """Validation comes first; an object that exists comes after."""
    await api.ok("POST", MAPS, config_map("one"))
    assert (await api.fails(422, "POST", MAPS, config_map("No", resourceVersion="3")))["reason"] == "Invalid"
    assert (await api.fails(404, "POST", MAPS.replace("default", "none"), config_map("one", resourceVersion="3")))["reason"] == "NotFound"
    status = await api.fails(500, "POST", MAPS, config_map("one", resourceVersion="3"))
    assert status["message"] == "resourceVersion should not be set on objects to be created"


async def test_create_refusals(api: Api) -> None:
    """Each has upstream's code, reason and message."""
    await api.ok("POST", MAPS, config_map("one"))
    status = await api.fails(409, "POST", MAPS, config_map("one"))
    assert (status["reason"], status["message"]) == ("AlreadyExists", 'configmaps "one" already exists')
    status = await api.fails(422, "POST", MAPS, config_map(""))
    assert status["details"]["causes"][0]["field"] == "metadata.name"
    assert "name or generateName is required" in status["message"]
    status = await api.fails(500, "POST", MAPS, config_map("two", resourceVersion="3"))
    assert status["message"] == "resourceVersion should not be set on objects to be created"
    status = await api.fails(400, "POST", MAPS, config_map("two", namespace="other"))
    assert status["message"] == "the namespace of the provided object does not match the namespace sent on the request"
    status = await api.fails(400, "POST", MAPS, {**config_map("two"), "apiVersion": "v2"})
    assert status["message"] == "the API version in the data (v2) does not match the expected API version (v1)"
    status = await api.fails(404, "POST", MAPS.replace("default", "absent"), config_map("two"))
    assert status["message"] == 'namespaces "absent" not found'
    status = await api.fails(400, "POST", MAPS, config_map("two", labels={"a": 1}))
    assert "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string" in status["message"]
    status = await api.fails(422, "POST", MAPS, config_map("Upper"))
    assert "a lowercase RFC 1123 subdomain must consist of" in status["message"]
    status = await api.fails(400, "POST", MAPS, content=b"{", headers={"Content-Type": "application/json"})
    assert "couldn't get version/kind; json parse error: unexpected end of JSON input" in status["message"]
    status = await api.fails(415, "POST", MAPS, content=b"x", headers={"Content-Type": "text/csv"})
    assert status["reason"] == "UnsupportedMediaType"
    status = await api.fails(406, "POST", MAPS, config_map("two"), headers={"Accept": "text/csv"})
    assert status["reason"] == "NotAcceptable"
    status = await api.fails(413, "POST", MAPS, config_map("two", {"k": "x" * 3 * 2**20}))
    assert status["message"] == "Request entity too large: limit is 3145728"


async def test_generate_name(api: Api) -> None:
    """A name is made from the base, and names differ."""
    names = set()
    for _ in range(3):
        created = await api.ok("POST", MAPS, {"metadata": {"generateName": "job-"}})
        assert created["metadata"]["generateName"] == "job-"
        names.add(created["metadata"]["name"])
    assert len(names) == 3
    assert all(name.startswith("job-") and len(name) == 9 for name in names)


async def test_dry_run_changes_nothing(api: Api) -> None:
    """Creates, updates, patches and deletes answer as if they had been done."""
    created = await api.ok("POST", MAPS, config_map("one"), params={"dryRun": "All"})
    assert created["metadata"]["uid"]
    assert "resourceVersion" not in created["metadata"]
    await api.fails(404, "GET", f"{MAPS}/one")
    created = await api.ok("POST", MAPS, config_map("one", {"a": "1"}))
    patched = await api.ok("PATCH", f"{MAPS}/one", {"data": {"a": "2"}}, headers=merge(), params={"dryRun": "All"})
    assert patched["data"] == {"a": "2"}
    await api.ok("DELETE", f"{MAPS}/one", params={"dryRun": "All"})
    assert await api.ok("GET", f"{MAPS}/one") == created
    status = await api.fails(422, "POST", MAPS, config_map("two"), params={"dryRun": "Some"})
    assert status["details"]["causes"][0]["field"] == "dryRun"


def merge() -> dict[str, str]:
    return {"Content-Type": "application/merge-patch+json"}


async def test_update_needs_the_latest_version(api: Api) -> None:
    """A stale resourceVersion is a conflict; none at all takes the latest for kinds that allow it."""
    created = await api.ok("POST", MAPS, config_map("one", {"a": "1"}))
    changed = await api.ok("PUT", f"{MAPS}/one", {**created, "data": {"a": "2"}})
    assert int(changed["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    status = await api.fails(409, "PUT", f"{MAPS}/one", {**created, "data": {"a": "3"}})
    assert status["message"] == (
        'Operation cannot be fulfilled on configmaps "one": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    unlocked = await api.ok("PUT", f"{MAPS}/one", config_map("one", {"a": "4"}))
    assert unlocked["data"] == {"a": "4"}
    assert unlocked["metadata"]["uid"] == created["metadata"]["uid"]
    status = await api.fails(409, "PUT", f"{MAPS}/one", config_map("one", uid="other"))
    assert "Precondition failed: UID in precondition: other" in status["message"]
    status = await api.fails(400, "PUT", f"{MAPS}/one", config_map("two"))
    assert status["message"] == "the name of the object (two) does not match the name on the URL (one)"
    await api.fails(404, "PUT", f"{MAPS}/absent", config_map("absent"))
    await api.fails(400, "PUT", f"{MAPS}/absent", config_map("other"))


async def test_an_update_that_changes_nothing_keeps_the_version(api: Api) -> None:
    """Whatever the order of members, no write and no event follow."""
    created = await api.ok("POST", MAPS, config_map("one", {"a": "1", "b": "2"}))
    again = {key: created[key] for key in reversed(created)}
    again["data"] = {"b": "2", "a": "1"}
    assert (await api.ok("PUT", f"{MAPS}/one", again))["metadata"] == created["metadata"]
    assert (await api.ok("PATCH", f"{MAPS}/one", {}, headers=merge()))["metadata"] == created["metadata"]


async def test_put_creates_leases_only(api: Api) -> None:
    """Kinds that allow it are created by PUT, with 201."""
    leases = "/clusters/a/apis/coordination.k8s.io/v1/namespaces/default/leases/lock"
    response = await api("PUT", leases, {"metadata": {"name": "lock"}, "spec": {"holderIdentity": "me"}})
    assert response.status_code == 201
    assert response.json()["spec"] == {"holderIdentity": "me"}


async def test_patches(api: Api) -> None:
    """Merge and JSON patches change what they name, an unknown type is refused."""
    await api.ok("POST", MAPS, config_map("one", {"a": "1", "b": "2"}))
    patched = await api.ok("PATCH", f"{MAPS}/one", {"data": {"a": None, "c": "3"}}, headers=merge())
    assert patched["data"] == {"b": "2", "c": "3"}
    operations = [{"op": "test", "path": "/data/b", "value": "2"}, {"op": "move", "from": "/data/b", "path": "/data/d"}]
    json_patch = {"Content-Type": "application/json-patch+json"}
    assert (await api.ok("PATCH", f"{MAPS}/one", operations, headers=json_patch))["data"] == {"c": "3", "d": "2"}
    status = await api.fails(422, "PATCH", f"{MAPS}/one", operations, headers=json_patch)
    assert status["reason"] == "Invalid"
    status = await api.fails(415, "PATCH", f"{MAPS}/one", {}, headers={"Content-Type": "application/json"})
    assert status["message"] == "415: Unsupported Media Type"
    await api.fails(404, "PATCH", f"{MAPS}/absent", {}, headers=merge())
    stale = {"metadata": {"resourceVersion": "1"}, "data": {"x": "y"}}
    assert (await api.fails(409, "PATCH", f"{MAPS}/one", stale, headers=merge()))["reason"] == "Conflict"
    status = await api.fails(400, "PATCH", f"{MAPS}/one", {"metadata": {"name": "two"}}, headers=merge())
    assert "does not match the name on the URL" in status["message"]


async def test_strategic_merge_patch_of_a_typed_kind(api: Api) -> None:
    """kubectl's three-way patches of built-in kinds are understood."""
    accounts = "/clusters/a/api/v1/namespaces/default/serviceaccounts"
    await api.ok("POST", accounts, {"metadata": {"name": "bot"}, "secrets": [{"name": "a"}, {"name": "b"}]})
    patch = {"secrets": [{"$patch": "delete", "name": "a"}, {"name": "c"}]}
    headers = {"Content-Type": "application/strategic-merge-patch+json"}
    patched = await api.ok("PATCH", f"{accounts}/bot", patch, headers=headers)
    assert {secret["name"] for secret in patched["secrets"]} == {"b", "c"}


async def test_delete_answers_and_preconditions(api: Api) -> None:
    """A Status with the uid; a wrong precondition is a conflict and deletes nothing."""
    created = await api.ok("POST", MAPS, config_map("one"))
    uid = created["metadata"]["uid"]
    status = await api.fails(409, "DELETE", f"{MAPS}/one", {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {"uid": "other"}})
    assert f"the UID in the precondition (other) does not match the UID in record ({uid})" in status["message"]
    status = await api.ok("DELETE", f"{MAPS}/one", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": "Background"})
    assert (status["status"], status["details"]) == ("Success", {"name": "one", "kind": "configmaps", "uid": uid})
    await api.fails(404, "DELETE", f"{MAPS}/one")
    await api.ok("POST", MAPS, config_map("two"))
    status = await api.fails(422, "DELETE", f"{MAPS}/two", params={"propagationPolicy": "Sideways"})
    assert "Unsupported value" in status["message"]


async def test_finalizers_hold_an_object_until_they_are_gone(api: Api) -> None:
    """A delete marks the object, a second one changes nothing, and the update without finalizers removes it."""
    await api.ok("POST", MAPS, config_map("one", finalizers=["example.com/hold"]))
    marked = await api.ok("DELETE", f"{MAPS}/one")
    assert marked["metadata"]["deletionTimestamp"]
    assert marked["metadata"]["deletionGracePeriodSeconds"] == 0
    assert (await api.ok("DELETE", f"{MAPS}/one"))["metadata"] == marked["metadata"]
    status = await api.fails(422, "PATCH", f"{MAPS}/one", {"metadata": {"finalizers": ["a.b/c", "example.com/hold"]}}, headers=merge())
    assert "no new finalizers can be added if the object is being deleted" in status["message"]
    status = await api.fails(409, "POST", MAPS, config_map("one"))
    assert status["message"].startswith("object is being deleted: ")
    final = await api.ok("PATCH", f"{MAPS}/one", {"metadata": {"finalizers": None}}, headers=merge())
    assert final["metadata"]["deletionTimestamp"]
    await api.fails(404, "GET", f"{MAPS}/one")


async def test_delete_collection_takes_what_is_selected(api: Api) -> None:
    """The list of the deleted objects is returned; the others stay."""
    for name, tier in (("one", "x"), ("two", "x"), ("three", "y")):
        await api.ok("POST", MAPS, config_map(name, labels={"tier": tier}))
    deleted = await api.ok("DELETE", MAPS, params={"labelSelector": "tier=x"})
    assert deleted["kind"] == "ConfigMapList"
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["one", "two"]
    left = await api.ok("GET", MAPS)
    assert [item["metadata"]["name"] for item in left["items"]] == ["three"]


async def test_delete_collection_takes_what_was_there_when_it_began(api: Api) -> None:
    """What comes while it runs stays, what goes meanwhile is passed over, and what gets a finalizer waits for it."""
    access = api.control_plane.backend.access
    access.storage = storage = InterleavingStorage(access.storage)
    for name in ("one", "two", "three"):
        await api.ok("POST", MAPS, config_map(name))

    async def meanwhile() -> None:
        await api.ok("POST", MAPS, config_map("four"))
        await api.ok("DELETE", f"{MAPS}/two")
        await api.ok("PATCH", f"{MAPS}/three", {"metadata": {"finalizers": ["example.com/hold"]}}, headers=merge())

    storage.before_write(meanwhile, touching="/configmaps/a/default/")
    deleted = await api.ok("DELETE", MAPS)
    assert not storage.pending
    assert [item["metadata"]["name"] for item in deleted["items"]] == ["one", "three"]
    left = {item["metadata"]["name"]: "deletionTimestamp" in item["metadata"] for item in (await api.ok("GET", MAPS))["items"]}
    assert left == {"four": False, "three": True}


async def test_a_uid_is_a_precondition_of_put_and_immutable_for_patch(api: Api) -> None:
    """A PUT that means another object is a conflict, even where there is none; a patch that changes the uid is invalid."""
    await api.ok("POST", MAPS, config_map("one"))
    for name in ("one", "absent"):
        status = await api.fails(409, "PUT", f"{MAPS}/{name}", config_map(name, uid="other"))
        assert "Precondition failed: UID in precondition: other, UID in object meta: " in status["message"]
    status = await api.fails(422, "PATCH", f"{MAPS}/one", {"metadata": {"uid": "other"}}, headers=merge())
    assert status["message"] == 'ConfigMap "one" is invalid: metadata.uid: Invalid value: "other": field is immutable'


async def test_field_validation(api: Api) -> None:
    """Strict refuses unknown and duplicate fields in one message, Warn tells, Ignore is silent; unknown fields are never stored."""
    body = b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"one"},"data":{"a":"1","a":"2"},"extra":{}}'
    json_type = {"Content-Type": "application/json"}
    status = await api.fails(400, "POST", MAPS, content=body, headers=json_type, params={"fieldValidation": "Strict"})
    assert status["message"].endswith('strict decoding error: duplicate field "data.a", unknown field "extra"')
    response = await api("POST", MAPS, content=body, headers=json_type, params={"fieldValidation": "Warn", "dryRun": "All"})
    warnings = response.headers.get_list("warning")
    assert warnings == ['299 - "duplicate field \\"data.a\\""', '299 - "unknown field \\"extra\\""']
    response = await api("POST", MAPS, content=body, headers=json_type, params={"fieldValidation": "Ignore"})
    assert "warning" not in response.headers
    assert "extra" not in response.json()


async def test_typed_kinds_refuse_wrong_types_when_they_are_decoded(api: Api) -> None:
    """A number where text belongs is a bad request, not an invalid object."""
    status = await api.fails(400, "POST", MAPS, {**config_map("one"), "data": {"a": 1}})
    assert (
        status["message"]
        == (
            'ConfigMap in version "v1" cannot be handled as a ConfigMap: '
            "json: cannot unmarshal number into Go struct field ConfigMap.data.a of type string"
        )
        or "cannot unmarshal number into Go struct field ConfigMap.data" in status["message"]
    )


async def test_yaml_goes_in_and_comes_out(api: Api) -> None:
    """YAML bodies are understood, and Accept: application/yaml is answered in YAML, errors included."""
    body = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: one\ndata:\n  a: 'yes'\n"
    response = await api("POST", MAPS, content=body, headers={"Content-Type": "application/yaml", "Accept": "application/yaml"})
    assert response.status_code == 201
    assert response.headers["content-type"] == "application/yaml"
    assert 'a: "yes"' in response.text or "a: 'yes'" in response.text
    response = await api("GET", f"{MAPS}/absent", headers={"Accept": "application/yaml"})
    assert (response.status_code, response.headers["content-type"]) == (404, "application/yaml")
    assert "reason: NotFound" in response.text


async def test_reads_and_writes_of_default_namespaces(api: Api) -> None:
    """They are there without being stored, can be labelled, and cannot be deleted."""
    before: Any = await api.ok("GET", "/clusters/a/api/v1/namespaces/default")
    assert before["status"] == {"phase": "Active"}
    await api.ok("POST", MAPS, config_map("one"))
    before = await api.ok("GET", "/clusters/a/api/v1/namespaces/default")
    patched = await api.ok("PATCH", "/clusters/a/api/v1/namespaces/default", {"metadata": {"labels": {"x": "y"}}}, headers=merge())
    assert patched["metadata"]["uid"] == before["metadata"]["uid"]
    assert patched["metadata"]["labels"] == {"kubernetes.io/metadata.name": "default", "x": "y"}
    names = [item["metadata"]["name"] for item in (await api.ok("GET", "/clusters/a/api/v1/namespaces"))["items"]]
    assert names == ["default", "kube-node-lease", "kube-public", "kube-system"]
    status = await api.fails(403, "DELETE", "/clusters/a/api/v1/namespaces/default")
    assert status["message"] == 'namespaces "default" is forbidden: this namespace may not be deleted'
    assert json.dumps(await api.ok("GET", "/clusters/b/api/v1/namespaces/default")).find('"x"') == -1


async def test_concurrent_first_writes_bring_a_cluster_into_being_once(api: Api) -> None:
    """All of them succeed, with bodies that are read once and worked out as often as it takes, in one and the same cluster."""
    maps = MAPS.replace("/a/", "/fresh/")
    await asyncio.wait_for(asyncio.gather(*(api.ok("POST", maps, config_map(f"m{number}")) for number in range(20))), 60)
    assert len((await api.ok("GET", maps))["items"]) == 20
    clusters = await api.ok("GET", "/clusters/*/apis/core.kcp.io/v1alpha1/logicalclusters")
    assert [item["metadata"]["clusterName"] for item in clusters["items"]] == ["fresh", "root"]
