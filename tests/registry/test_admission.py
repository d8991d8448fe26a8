"""Admission plugins see every write with its user, and what they make of an object gets the form of its kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.controlplane import ControlPlane
from kcp_py.registry.admission import AdmissionChain, AdmissionPlugin, Attributes, Operation
from tests.server.handlers.conftest import Api, config_map, definition, established, instance, options

pytestmark = pytest.mark.anyio

CONFIG_MAPS = GroupResource("", "configmaps")
MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
NAMESPACES = "/clusters/a/api/v1/namespaces"
WIDGETS = "/clusters/a/apis/example.com/v1/namespaces/default/widgets"
NAMESPACE_CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"


class Recorder(AdmissionPlugin):
    """Notes what it sees, and refuses what is named `refused`."""

    name = "Recorder"
    conforming = True

    def __init__(self) -> None:
        self.seen: list[tuple[str, str, str, str]] = []
        self.attributes: list[Attributes] = []

    async def validate(self, attributes: Attributes) -> None:
        resource = attributes.resource.resource
        self.seen.append((attributes.operation, resource, attributes.name, attributes.user.name))
        self.attributes.append(attributes)
        attributes.audit_annotations["recorder.test/seen"] = attributes.operation
        if attributes.name == "refused" and attributes.operation == "DELETE":
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, "not this one")

    def of(self, operation: Operation, resource: str) -> list[tuple[str, str]]:
        """Name and user of each write."""
        return [(name, user) for seen, kind, name, user in self.seen if (seen, kind) == (operation, resource)]


class Changing(AdmissionPlugin):
    """Changes objects as a careless webhook does."""

    name = "Changing"

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.obj is not None and attributes.resource.resource == "widgets":
            attributes.obj.update(self.fields)


@asynccontextmanager
async def api_with(tmp_path: Path, *plugins: AdmissionPlugin) -> AsyncIterator[Api]:
    control_plane = ControlPlane(options(tmp_path, namespace_deletion_grace=0), admission=plugins)
    async with control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


async def define(api: Api, properties: Mapping[str, Any] | None = None) -> None:
    """Establish widgets whose `spec` has these properties."""
    spec = {"type": "object", "properties": dict(properties or {})}
    crd = definition(schema={"type": "object", "properties": {"spec": spec}})
    await api.ok("POST", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    await established(api, "a")


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


SIZES = {"size": {"type": "integer", "default": 3}, "name": {"type": "string"}}


async def test_what_a_plugin_makes_is_pruned_and_defaulted(tmp_path: Path) -> None:
    """As upstream does with the output of webhooks, on create and on update."""
    async with api_with(tmp_path, Changing(spec={"name": "x", "unknown": 1}, other={})) as api:
        await define(api, SIZES)
        made = await api.ok("POST", WIDGETS, instance("w", spec={"size": 1}))
        assert made["spec"] == {"name": "x", "size": 3}
        assert "other" not in made
        patch = {"Content-Type": "application/merge-patch+json"}
        assert (await api.ok("PATCH", f"{WIDGETS}/w", {"spec": {"size": 9}}, headers=patch))["spec"] == {"name": "x", "size": 3}


async def test_what_a_plugin_makes_is_validated(tmp_path: Path) -> None:
    """A value of the wrong type is refused as one that a client sends."""
    async with api_with(tmp_path, Changing(spec={"size": "large"})) as api:
        await define(api, SIZES)
        refused = await api.fails(422, "POST", WIDGETS, instance("w"))
        assert 'spec.size: Invalid value: "string"' in refused["message"]
        assert (await api("GET", f"{WIDGETS}/w")).status_code == 404


@pytest.mark.parametrize("fields", [{"kind": "Gadget"}, {"apiVersion": "v1"}, {"metadata": None}, {"metadata": {"labels": 1}}])
async def test_a_plugin_cannot_change_what_an_object_is(tmp_path: Path, fields: Mapping[str, Any]) -> None:
    """The fault is the plugin's, which the answer names."""
    async with api_with(tmp_path, Changing(**fields)) as api:
        await define(api)
        assert "admission plugin Changing" in (await api.fails(500, "POST", WIDGETS, instance("w")))["message"]
        assert (await api.ok("GET", WIDGETS))["items"] == []


class Narrow(Recorder):
    """Asks for deletions of config maps alone."""

    operations = frozenset[Operation]({"DELETE"})
    resources = frozenset({CONFIG_MAPS})


async def test_a_plugin_sees_what_it_asks_for(tmp_path: Path) -> None:
    """Other writes do not reach it."""
    narrow = Narrow()
    async with api_with(tmp_path, narrow) as api:
        await api.ok("POST", MAPS, config_map("one"))
        await api.ok("POST", "/clusters/a/api/v1/namespaces/default/secrets", {"metadata": {"name": "s"}})
        await api.ok("DELETE", "/clusters/a/api/v1/namespaces/default/secrets/s")
        await api.ok("DELETE", f"{MAPS}/one")
        assert [(operation, resource, name) for operation, resource, name, _ in narrow.seen] == [("DELETE", "configmaps", "one")]


def test_a_chain_knows_whether_anybody_asks() -> None:
    """Deletions of many objects need not be decoded for a chain that does not ask for them."""
    chain = AdmissionChain((Narrow(),))
    assert chain.sees("DELETE", CONFIG_MAPS)
    assert not chain.sees("UPDATE", CONFIG_MAPS)
    assert not chain.sees("DELETE", GroupResource("", "secrets"))
    assert not AdmissionChain().sees("DELETE", CONFIG_MAPS)


async def test_plugins_come_in_order_and_the_first_refusal_counts(tmp_path: Path) -> None:
    """All mutate before any validates; those of the server come first."""
    order: list[str] = []

    class Noting(AdmissionPlugin):
        conforming = True

        def __init__(self, name: str) -> None:
            self.own = name

        async def mutate(self, attributes: Attributes) -> None:
            del attributes
            order.append(f"mutate {self.own}")

        async def validate(self, attributes: Attributes) -> None:
            order.append(f"validate {self.own}")
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, f"{self.own} says no")

    async with api_with(tmp_path, Noting("one"), Noting("two")) as api:
        await api.fails(404, "POST", "/clusters/a/api/v1/namespaces/nosuch/configmaps", config_map("one"))
        assert order == []
        assert "one says no" in (await api.fails(403, "POST", MAPS, config_map("one")))["message"]
        assert order == ["mutate one", "mutate two", "validate one"]
