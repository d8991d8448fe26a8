"""Admission plugins see every write with its user, and what they make of an object gets the form of its kind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.options import CreateOptions
from kcp_py.client import StoredResource
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionChain, AdmissionPlugin, Attributes, Operation
from kcp_py.storage.contract import Compare
from tests.server.handlers.conftest import Api, config_map, established, instance, make_crd, options

pytestmark = pytest.mark.anyio

CLUSTER = Name("a")
CONFIG_MAPS = GroupResource("", "configmaps")
MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
NAMESPACES = "/clusters/a/api/v1/namespaces"
WIDGETS = "/clusters/a/apis/example.com/v1/namespaces/default/widgets"
NAMESPACE_CONTROLLER = "system:serviceaccount:kube-system:namespace-controller"
COLLECTOR = "system:serviceaccount:kube-system:generic-garbage-collector"


class Recorder(AdmissionPlugin):
    """Notes its writes, and refuses objects named `refused`."""

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
    crd = make_crd(schema={"type": "object", "properties": {"spec": spec}})
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


class Meddling(AdmissionPlugin):
    """Changes fields that plugins must not change."""

    name = "Meddling"

    def __init__(self, meddle: Callable[[dict[str, Any]], object], *, operation: Operation = "CREATE") -> None:
        self.meddle = meddle
        self.operations = frozenset({operation})

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.obj is not None and attributes.resource.resource in {"configmaps", "namespaces", "widgets"}:
            self.meddle(attributes.obj)


@pytest.mark.parametrize("operation", ["CREATE", "UPDATE"])
@pytest.mark.parametrize("field", ["name", "namespace"])
async def test_a_plugin_cannot_move_an_object(tmp_path: Path, operation: Operation, field: str) -> None:
    """Nothing is stored below a key of another name or namespace than the object has."""
    meddling = Meddling(lambda obj: obj["metadata"].update({field: "other"}), operation=operation)
    async with api_with(tmp_path, meddling) as api:
        method, path = "POST", MAPS
        if operation == "UPDATE":
            await api.ok("POST", MAPS, config_map("one"))
            method, path = "PUT", f"{MAPS}/one"
        assert "changed the name" in (await api.fails(500, method, path, config_map("one", {"a": "b"})))["message"]
        assert [one["metadata"]["name"] for one in (await api.ok("GET", MAPS))["items"]] == ["one"] * (operation == "UPDATE")


SERVER_FIELDS = {"uid": "mine", "creationTimestamp": None, "deletionTimestamp": "2020-01-01T00:00:00Z", "generation": 77}


async def test_a_plugin_cannot_set_what_only_the_server_sets(tmp_path: Path) -> None:
    """On create: uid, timestamps and generation are the server's."""
    async with api_with(tmp_path, Meddling(lambda obj: obj["metadata"].update(SERVER_FIELDS, labels={"a": "b"}))) as api:
        await define(api)
        metadata = (await api.ok("POST", WIDGETS, instance("w")))["metadata"]
        assert metadata["labels"] == {"a": "b"}
        assert metadata["uid"] != "mine"
        assert metadata["creationTimestamp"]
        assert "deletionTimestamp" not in metadata
        assert metadata["generation"] == 1


async def test_the_generation_counts_what_a_plugin_changes(tmp_path: Path) -> None:
    """An update whose request changes labels alone has another generation where a plugin changes the spec."""
    async with api_with(tmp_path, Meddling(lambda obj: obj["spec"].update(size=9), operation="UPDATE")) as api:
        await define(api, SIZES)
        await api.ok("POST", WIDGETS, instance("w", spec={"size": 1}))
        patch = {"Content-Type": "application/merge-patch+json"}
        changed = await api.ok("PATCH", f"{WIDGETS}/w", {"metadata": {"labels": {"a": "b"}}}, headers=patch)
        assert (changed["spec"]["size"], changed["metadata"]["generation"]) == (9, 2)


async def test_a_plugin_cannot_change_the_status_in_a_write_of_the_object(tmp_path: Path) -> None:
    """Nor the stored object through the parts that the new one has of it."""

    def meddle(obj: dict[str, Any]) -> None:
        obj["status"]["phase"] = "Meddled"

    async with api_with(tmp_path, Meddling(meddle, operation="UPDATE")) as api:
        body = {"metadata": {"name": "n", "labels": {"a": "b"}}}
        await api.ok("POST", NAMESPACES, body)
        patch = {"Content-Type": "application/merge-patch+json"}
        changed = await api.ok("PATCH", f"{NAMESPACES}/n", {"metadata": {"labels": {"a": "c"}}}, headers=patch)
        assert (changed["metadata"]["labels"]["a"], changed["status"]["phase"]) == ("c", "Active")


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


def test_a_chain_knows_whether_a_plugin_asks() -> None:
    """Deletions of many objects need not be decoded for a chain that does not ask for them."""
    chain = AdmissionChain((Narrow(),))
    assert chain.sees("DELETE", CLUSTER, CONFIG_MAPS)
    assert not chain.sees("UPDATE", CLUSTER, CONFIG_MAPS)
    assert not chain.sees("DELETE", CLUSTER, GroupResource("", "secrets"))
    assert not AdmissionChain().sees("DELETE", CLUSTER, CONFIG_MAPS)


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


class Plain(AdmissionPlugin):
    """Changes and refuses without waiting for anything."""

    name = "Plain"
    resources = frozenset({CONFIG_MAPS})

    def mutate(self, attributes: Attributes) -> None:
        if attributes.obj is not None:
            attributes.obj["data"] = {**attributes.obj.get("data", {}), "seen": attributes.kind.kind, "cluster": attributes.cluster}

    def validate(self, attributes: Attributes) -> None:
        if attributes.name == "refused":
            raise errors.forbidden(attributes.resource.group_resource, attributes.name, "not this one")


async def test_a_plain_function_changes_and_refuses(tmp_path: Path) -> None:
    """A plugin need not be asynchronous."""
    async with api_with(tmp_path, Plain()) as api:
        created = await api.ok("POST", MAPS, config_map("one"))
        assert (created["data"]["seen"], created["data"]["cluster"]) == ("ConfigMap", "a")
        refused = await api("POST", MAPS, config_map("refused"))
        assert (refused.status_code, refused.json()["message"]) == (403, 'configmaps "refused" is forbidden: not this one')


class Selective(Recorder):
    """Has nothing to do in most clusters."""

    name = "Selective"

    def __init__(self, cluster: str) -> None:
        super().__init__()
        self._cluster = cluster

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:
        return cluster != self._cluster or resource != CONFIG_MAPS

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.obj is not None:
            attributes.obj["data"] = {"changed": "here"}


async def test_a_plugin_without_rules_for_a_cluster_is_not_called(tmp_path: Path) -> None:
    """Neither in creates, nor in updates and deletions, whose objects need not be copied for it."""
    selective = Selective("a")
    async with api_with(tmp_path, selective) as api:
        chain = AdmissionChain((selective,))
        assert chain.steps("UPDATE", CLUSTER, CONFIG_MAPS, dry_run=False).mutating == (selective,)
        # A write shows that the cluster has no webhooks.
        await api.ok("POST", MAPS.replace("/a/", "/b/"), config_map("first"))
        assert chain.steps("UPDATE", Name("b"), CONFIG_MAPS, dry_run=False) == ((), ())
        for cluster, data in (("b", {"k": "v"}), ("a", {"changed": "here"})):
            path = MAPS.replace("/a/", f"/{cluster}/")
            created = await api.ok("POST", path, {**config_map("one"), "data": {"k": "v"}})
            assert created["data"] == data
            updated = await api.ok("PUT", f"{path}/one", {**created, "data": {"k": "w"}})
            assert updated["data"] == ({"k": "w"} if cluster == "b" else data)
            await api.ok("DELETE", f"{path}/one")
        assert [(operation, user != "") for operation, _, _, user in selective.seen] == [
            ("CREATE", True),
            ("UPDATE", True),
            ("DELETE", True),
        ]


class Switched(Recorder):
    """Has rules when it is told so."""

    name = "Switched"

    def __init__(self, *, announces: bool) -> None:
        super().__init__()
        self.rules = False
        self.asked = 0
        self.changed: Callable[[], None] = lambda: None
        self._announces = announces

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:  # noqa: ARG002 - the same for all
        self.asked += 1
        return not self.rules

    def follow(self, changed: Callable[[], None]) -> bool:
        self.changed = changed
        return self._announces


def test_answers_of_a_plugin_that_announces_changes_are_kept_until_then() -> None:
    """The second write of a kind costs one look-up, and the first one after an announcement sees the rules."""
    plugin = Switched(announces=True)
    chain = AdmissionChain((plugin,))
    for _ in range(3):
        assert chain.steps("CREATE", CLUSTER, CONFIG_MAPS, dry_run=False) == ((), ())
    assert plugin.asked == 1
    plugin.rules = True
    plugin.changed()
    assert chain.steps("CREATE", CLUSTER, CONFIG_MAPS, dry_run=False).validating == (plugin,)
    assert chain.steps("CREATE", Name("b"), CONFIG_MAPS, dry_run=False).validating == (plugin,)


def test_a_plugin_that_announces_nothing_is_asked_for_each_write() -> None:
    """The rules of a plugin of a library user count at once, whatever the others have announced."""
    plugin, other = Switched(announces=False), Switched(announces=True)
    chain = AdmissionChain((other, plugin))
    assert not chain.sees("CREATE", CLUSTER, CONFIG_MAPS)
    plugin.rules = True
    assert chain.steps("CREATE", CLUSTER, CONFIG_MAPS, dry_run=False).validating == (plugin,)


def test_kept_steps_are_bounded() -> None:
    """Writes in any number of clusters keep a bounded number of answers."""
    plugin = Switched(announces=True)
    chain = AdmissionChain((plugin,))
    for number in range(5000):
        chain.steps("CREATE", Name(f"c{number}"), CONFIG_MAPS, dry_run=False)
    known = chain._known
    assert 0 < len(known) <= 2048
    assert len({id(steps) for steps in known.values()}) == 1, "equal ones are one object"


class Counting(Recorder):
    """Judges dry runs alone."""

    name = "Counting"
    only_dry_runs = True


def test_a_plugin_for_dry_runs_is_not_asked_about_other_writes() -> None:
    """Quotas, for example, are charged by the transaction of a write that is stored."""
    plugin = Counting()
    chain = AdmissionChain((plugin,))
    assert chain.steps("CREATE", CLUSTER, CONFIG_MAPS, dry_run=False).validating == ()
    assert chain.steps("CREATE", CLUSTER, CONFIG_MAPS, dry_run=True).validating == (plugin,)


class Late(Switched):
    """Gets rules while a write is on its way."""

    name = "Late"
    resources = frozenset({CONFIG_MAPS})

    def ignores(self, cluster: Name, resource: GroupResource) -> bool:
        ignored = super().ignores(cluster, resource)
        self.rules = True
        return ignored

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.obj is not None:
            attributes.obj["data"]["late"] = "yes"


async def test_a_write_has_the_plugins_of_its_begin(tmp_path: Path) -> None:
    """A plugin whose rules appear during an update does not see that update, whose new object shares parts with the stored one."""
    late = Late(announces=False)
    async with api_with(tmp_path, late) as api:
        created = await api.ok("POST", MAPS, config_map("one"))
        late.rules = False
        late.seen.clear()
        updated = await api.ok("PUT", f"{MAPS}/one", {**created, "data": {"k": "w"}})
        assert (updated["data"], late.seen) == ({"k": "w"}, [])
        updated = await api.ok("PUT", f"{MAPS}/one", {**created, "metadata": {"name": "one"}, "data": {"k": "x"}})
        assert updated["data"] == {"k": "x", "late": "yes"}
