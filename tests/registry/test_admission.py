"""Admission plugins see every write with its user."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.meta.options import CreateOptions
from kcp_py.client import StoredResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from kcp_py.storage.contract import Compare
from tests.registry.admissionplugins import CONFIG_MAPS, MAPS, NAMESPACES, WIDGETS, Recorder, api_with, define
from tests.server.handlers.conftest import Api, config_map, instance

pytestmark = pytest.mark.anyio

NAMESPACE_CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"


async def gone(api: Api, path: str) -> None:
    """Wait, without a clock, until there is nothing at a path."""
    async with asyncio.timeout(30):
        while (await api("GET", path)).status_code != 404:
            await asyncio.sleep(0)


async def condition(api: Api, path: str, name: str) -> dict[str, Any]:
    """Wait, without a clock, until an object has a condition that is True."""
    async with asyncio.timeout(30):
        while True:
            for found in (await api.ok("GET", path))["status"].get("conditions", ()):
                if (found["type"], found["status"]) == (name, "True"):
                    return dict(found)
            await asyncio.sleep(0)


async def test_a_write_over_http_shows_its_user_options_and_objects(tmp_path: Path) -> None:
    """On create, update, patch and deletion; a dry run says that it is one."""
    recorder = Recorder()
    async with api_with(tmp_path, recorder) as api:
        await api.ok("POST", MAPS, config_map("one"), params={"fieldManager": "me"})
        created = recorder.attributes[-1]
        assert (created.operation, created.namespace, created.name, created.subresource) == ("CREATE", "default", "one", "")
        assert "system:masters" in created.user.groups
        assert created.old is None
        assert getattr(created.options, "field_manager", "") == "me"
        assert not created.dry_run
        assert created.request.context.audit_annotations == {"recorder.test/seen": "CREATE"}
        patch = {"Content-Type": "application/merge-patch+json"}
        await api.ok("PATCH", f"{MAPS}/one", {"data": {"b": "c"}}, headers=patch, params={"dryRun": "All"})
        patched = recorder.attributes[-1]
        assert patched.dry_run
        assert patched.old is not None
        assert patched.obj is not None
        assert "data" not in patched.old
        assert patched.obj["data"]["b"] == "c"
        await api.ok("DELETE", f"{MAPS}/one")
        deleted = recorder.attributes[-1]
        assert (deleted.operation, deleted.obj) == ("DELETE", None)
        assert deleted.old is not None
        assert deleted.old["metadata"]["name"] == "one"


async def test_a_put_that_creates_is_a_create_with_its_options(tmp_path: Path) -> None:
    """Of a kind that PUT may create, and by server-side apply."""
    recorder = Recorder()
    lease = {"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "one"}, "spec": {}}
    async with api_with(tmp_path, recorder) as api:
        path = "/clusters/a/apis/coordination.k8s.io/v1/namespaces/default/leases/one"
        assert (await api("PUT", path, lease, params={"fieldManager": "me"})).status_code == 201
        created = recorder.attributes[-1]
        assert (created.operation, created.options) == ("CREATE", CreateOptions(field_manager="me"))
        apply = {"Content-Type": "application/apply-patch+yaml"}
        params = {"fieldManager": "other", "force": "true"}
        assert (await api("PATCH", f"{MAPS}/applied", config_map("applied"), headers=apply, params=params)).status_code == 201
        applied = recorder.attributes[-1]
        assert (applied.operation, applied.options) == ("CREATE", CreateOptions(field_manager="other"))


async def test_the_namespace_of_a_namespace_is_its_name(tmp_path: Path) -> None:
    """In creates, updates and deletions; other cluster-scoped objects have none."""
    recorder = Recorder()
    async with api_with(tmp_path, recorder) as api:
        await api.ok("POST", NAMESPACES, {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}})
        merge = {"Content-Type": "application/merge-patch+json"}
        await api.ok("PATCH", f"{NAMESPACES}/n", {"metadata": {"labels": {"a": "b"}}}, headers=merge)
        await api.ok("DELETE", f"{NAMESPACES}/n")
        await gone(api, f"{NAMESPACES}/n")
        seen = [one for one in recorder.attributes if one.resource.resource == "namespaces"]
        assert {one.operation for one in seen} == {"CREATE", "UPDATE", "DELETE"}
        assert {(one.namespace, one.name) for one in seen} == {("n", "n")}
        await define(api)
        seen = [one for one in recorder.attributes if one.resource.resource == "customresourcedefinitions"]
        assert {one.namespace for one in seen} == {""}


async def test_a_warning_reaches_the_client(tmp_path: Path) -> None:
    """Of a validating plugin, too, and of a deletion."""

    class Warner(AdmissionPlugin):
        async def validate(self, attributes: Attributes) -> None:
            attributes.warnings.append(f"{attributes.operation} noted")

    async with api_with(tmp_path, Warner()) as api:
        assert (await api("POST", MAPS, config_map("one"))).headers["warning"] == '299 - "CREATE noted"'
        assert (await api("DELETE", f"{MAPS}/one")).headers["warning"] == '299 - "DELETE noted"'


async def test_a_generated_name_is_seen(tmp_path: Path) -> None:
    """Admission runs when the name is known."""
    recorder = Recorder()
    async with api_with(tmp_path, recorder) as api:
        body = config_map("x")
        body["metadata"] = {"generateName": "some-"}
        name = (await api.ok("POST", MAPS, body))["metadata"]["name"]
        assert recorder.of("CREATE", "configmaps") == [(name, recorder.attributes[-1].user.name)]
        assert name.startswith("some-")


async def test_what_a_namespace_held_is_deleted_before_its_eyes(tmp_path: Path) -> None:
    """The namespace controller deletes the content under its own name, finalizers of namespaces included."""
    recorder = Recorder()
    async with api_with(tmp_path, recorder) as api:
        await api.ok("POST", NAMESPACES, {"metadata": {"name": "shop"}})
        await api.ok("POST", f"{NAMESPACES}/shop/configmaps", config_map("one"))
        await api.ok("DELETE", f"{NAMESPACES}/shop")
        await gone(api, f"{NAMESPACES}/shop")
        assert recorder.of("DELETE", "configmaps") == [("one", NAMESPACE_CONTROLLER)]
        assert ("shop", NAMESPACE_CONTROLLER) in recorder.of("UPDATE", "namespaces")


async def test_a_refused_object_keeps_its_namespace(tmp_path: Path) -> None:
    """All else goes; the namespace says why it stays."""
    recorder = Recorder()
    async with api_with(tmp_path, recorder) as api:
        await api.ok("POST", NAMESPACES, {"metadata": {"name": "shop"}})
        for name in ("one", "refused", "two"):
            await api.ok("POST", f"{NAMESPACES}/shop/configmaps", config_map(name))
        await api.ok("DELETE", f"{NAMESPACES}/shop")
        await gone(api, f"{NAMESPACES}/shop/configmaps/two")
        failure = await condition(api, f"{NAMESPACES}/shop", "NamespaceDeletionContentFailure")
        assert "not this one" in failure["message"]
        assert [one["metadata"]["name"] for one in (await api.ok("GET", f"{NAMESPACES}/shop/configmaps"))["items"]] == ["refused"]


async def test_garbage_is_collected_before_its_eyes(tmp_path: Path) -> None:
    """The collector writes under its own name."""
    recorder = Recorder()
    async with api_with(tmp_path, recorder) as api:
        owner = await api.ok("POST", MAPS, config_map("owner"))
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}
        dependent = config_map("dependent")
        dependent["metadata"]["ownerReferences"] = [reference]
        await api.ok("POST", MAPS, dependent)
        await api.ok("DELETE", f"{MAPS}/owner", {"propagationPolicy": "Foreground"})
        await gone(api, f"{MAPS}/owner")
        await gone(api, f"{MAPS}/dependent")
        assert ("dependent", COLLECTOR) in recorder.of("DELETE", "configmaps")


async def test_what_a_cluster_held_is_deleted_before_its_eyes(tmp_path: Path) -> None:
    """Objects of every kind, custom resources among them."""
    recorder = Recorder()
    async with api_with(tmp_path, recorder) as api:
        await api.ok("POST", MAPS, config_map("one"))
        await define(api)
        await api.ok("POST", WIDGETS, instance("w"))
        await api.ok("DELETE", "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        await gone(api, "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")
        assert [name for name, _ in recorder.of("DELETE", "configmaps")] == ["one"]
        assert [name for name, _ in recorder.of("DELETE", "widgets")] == ["w"]


async def test_a_warning_is_shown_once_where_a_deletion_is_tried_again(tmp_path: Path) -> None:
    """The object changes while admission looks at its deletion, which is asked about twice."""

    class Slow(AdmissionPlugin):
        operations = frozenset[Operation]({"DELETE"})

        def __init__(self) -> None:
            self.calls = 0

        async def validate(self, attributes: Attributes) -> None:
            self.calls += 1
            attributes.warnings.append("noted")
            if self.calls == 1:
                patch = {"Content-Type": "application/merge-patch+json"}
                await api.ok("PATCH", f"{MAPS}/one", {"data": {"b": "c"}}, headers=patch)

    slow = Slow()
    async with api_with(tmp_path, slow) as api:
        await api.ok("POST", MAPS, config_map("one"))
        answer = await api("DELETE", f"{MAPS}/one")
        assert (answer.status_code, slow.calls) == (200, 2)
        assert answer.headers.get_list("warning") == ['299 - "noted"']


async def test_a_condition_that_does_not_hold_keeps_the_object_and_its_namespace(tmp_path: Path) -> None:
    """A namespace is not removed while an object is left whose deletion a plugin's condition stopped; the next pass asks again."""

    class Conditional(AdmissionPlugin):
        name = "Conditional"
        operations = frozenset[Operation]({"DELETE"})
        resources = frozenset({CONFIG_MAPS})

        def __init__(self) -> None:
            self.holds = False

        async def validate(self, attributes: Attributes) -> None:
            attributes.compares.append(Compare("/registry/no/such/key", mod_revision=0 if self.holds else 7))

    conditional = Conditional()
    async with api_with(tmp_path, conditional) as api:
        await api.ok("POST", NAMESPACES, {"metadata": {"name": "n"}})
        await api.ok("POST", f"{NAMESPACES}/n/configmaps", config_map("one"))
        tap = api.control_plane.tap
        left = await tap.delete_stored(Name("a"), StoredResource(CONFIG_MAPS, custom=False, namespaced=True), "n")
        assert left.objects == 1
        conditional.holds = True
        left = await tap.delete_stored(Name("a"), StoredResource(CONFIG_MAPS, custom=False, namespaced=True), "n")
        assert left.objects == 0
        assert (await api("GET", f"{NAMESPACES}/n/configmaps/one")).status_code == 404
