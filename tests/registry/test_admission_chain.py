"""A chain calls the plugins that a write concerns, in order."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.registry.admission import AdmissionChain, AdmissionPlugin, Attributes, Operation
from tests.registry.admissionplugins import CLUSTER, CONFIG_MAPS, MAPS, Recorder, api_with
from tests.server.handlers.conftest import config_map

pytestmark = pytest.mark.anyio


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
