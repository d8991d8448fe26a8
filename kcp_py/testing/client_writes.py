"""Tests of create, update, patch, apply and the deletions, for `kcp_py.testing.client_suite`."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import NAMESPACES
from kcp_py.client.contract import Client
from kcp_py.registry.rest.patch import JSON_PATCH, STRATEGIC_MERGE_PATCH
from kcp_py.request.user import SYSTEM_MASTERS, UserInfo
from kcp_py.testing.client_objects import CONFIG_MAPS, OTHER, TEAM, WIDGETS, config_map, serve_widgets, widget

HOLD = "example.com/hold"


def _managers(obj: dict[str, Any]) -> set[str]:
    return {entry["manager"] for entry in obj["metadata"]["managedFields"]}


class ClientWriteTests:
    """Writes of a client."""

    async def test_a_create_fills_in_the_kind(self, client: Client) -> None:
        """ApiVersion and kind may be omitted, and the field manager owns the fields of the object."""
        made = await client.create(TEAM, CONFIG_MAPS, {"metadata": {"name": "one", "namespace": "default"}, "data": {"a": "b"}})
        assert (made["apiVersion"], made["kind"], _managers(made)) == ("v1", "ConfigMap", {"kcp-py"})
        other = await client.create(TEAM, CONFIG_MAPS, config_map("two"), field_manager="me")
        assert _managers(other) == {"me"}

    async def test_a_name_is_taken_once(self, client: Client) -> None:
        """The error has the reason and the details of the API."""
        await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        with pytest.raises(StatusError) as caught:
            await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        assert (caught.value.code, caught.value.reason, caught.value.message) == (409, "AlreadyExists", 'configmaps "one" already exists')
        assert caught.value.details == {"name": "one", "kind": "configmaps"}

    async def test_invalid_objects_are_refused_field_by_field(self, client: Client) -> None:
        """The causes of the error name the fields."""
        with pytest.raises(StatusError) as caught:
            await client.create(TEAM, CONFIG_MAPS, config_map("One"))
        assert (caught.value.code, caught.value.reason) == (422, "Invalid")
        assert [cause["field"] for cause in (caught.value.details or {})["causes"]] == ["metadata.name"]

    async def test_strict_validation_refuses_unknown_fields(self, client: Client) -> None:
        """Unknown fields are dropped silently unless the caller requests validation."""
        await serve_widgets(client, TEAM)
        made = await client.create(TEAM, WIDGETS, widget("one", size=1, unknown=True))
        assert made["spec"] == {"size": 1, "color": "red"}
        with pytest.raises(StatusError) as caught:
            await client.create(TEAM, WIDGETS, widget("two", unknown=True), field_validation="Strict")
        assert caught.value.code == 400
        assert 'unknown field "spec.unknown"' in caught.value.message

    async def test_a_dry_run_stores_nothing(self, client: Client) -> None:
        """A dry run of any verb changes nothing."""
        made = await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        await client.create(TEAM, CONFIG_MAPS, config_map("two"), dry_run=True)
        changed = await client.update(TEAM, CONFIG_MAPS, {**made, "data": {"a": "c"}}, dry_run=True)
        patched = await client.patch(TEAM, CONFIG_MAPS, "default", "one", document={"data": {"a": "d"}}, dry_run=True)
        applied = await client.apply(TEAM, CONFIG_MAPS, config_map("one", data="e"), force=True, dry_run=True)
        assert [one["data"]["a"] for one in (changed, patched, applied)] == ["c", "d", "e"]
        await client.delete(TEAM, CONFIG_MAPS, "default", "one", dry_run=True)
        await client.delete_collection(TEAM, CONFIG_MAPS, "default", dry_run=True)
        assert (await client.list(TEAM, CONFIG_MAPS, "default")).items == [made]

    async def test_an_update_holds_to_the_optimistic_lock(self, client: Client) -> None:
        """A resourceVersion that is not the latest one is a conflict; without one the last write wins."""
        made = await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        updated = await client.update(TEAM, CONFIG_MAPS, {**made, "data": {"a": "c"}})
        assert int(updated["metadata"]["resourceVersion"]) > int(made["metadata"]["resourceVersion"])
        with pytest.raises(StatusError) as caught:
            await client.update(TEAM, CONFIG_MAPS, {**made, "data": {"a": "d"}})
        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        assert caught.value.details == {"name": "one", "kind": "configmaps"}
        assert (await client.update(TEAM, CONFIG_MAPS, config_map("one", data="e")))["data"] == {"a": "e"}

    async def test_a_status_is_a_part_of_its_own(self, client: Client) -> None:
        """An update of the object keeps the status, and an update of the status keeps the rest."""
        await serve_widgets(client, TEAM)
        made = await client.create(TEAM, WIDGETS, {**widget("one", size=1), "status": {"size": 9}})
        assert "status" not in made
        changed = await client.update(TEAM, WIDGETS, {**made, "spec": {"size": 5}, "status": {"size": 2}}, subresource="status")
        assert (changed["spec"]["size"], changed["status"]) == (1, {"size": 2})
        changed = await client.patch(TEAM, WIDGETS, "default", "one", document={"status": {"size": 3}}, subresource="status")
        assert changed["status"] == {"size": 3}

    async def test_a_scale_changes_the_object(self, client: Client) -> None:
        """An update and a patch of the scale change the replicas."""
        await serve_widgets(client, TEAM)
        await client.create(TEAM, WIDGETS, widget("one", size=1))
        scale = await client.get(TEAM, WIDGETS, "default", "one", subresource="scale")
        assert (await client.update(TEAM, WIDGETS, {**scale, "spec": {"replicas": 4}}, subresource="scale"))["spec"] == {"replicas": 4}
        patched = await client.patch(TEAM, WIDGETS, "default", "one", document={"spec": {"replicas": 6}}, subresource="scale")
        assert patched["spec"] == {"replicas": 6}
        assert (await client.get(TEAM, WIDGETS, "default", "one"))["spec"]["size"] == 6

    async def test_a_patch_changes_what_it_names(self, client: Client) -> None:
        """Objects accept a merge patch, a JSON patch and, for typed kinds, a strategic merge patch."""
        await client.create(TEAM, CONFIG_MAPS, config_map("one"))
        merged = await client.patch(TEAM, CONFIG_MAPS, "default", "one", document={"data": {"b": "c"}})
        assert merged["data"] == {"a": "b", "b": "c"}
        removal = [{"op": "remove", "path": "/data/a"}]
        assert (await client.patch(TEAM, CONFIG_MAPS, "default", "one", document=removal, patch_type=JSON_PATCH))["data"] == {"b": "c"}
        finalizers = {"metadata": {"finalizers": [HOLD]}}
        for _ in range(2):
            patched = await client.patch(TEAM, CONFIG_MAPS, "default", "one", document=finalizers, patch_type=STRATEGIC_MERGE_PATCH)
        assert patched["metadata"]["finalizers"] == [HOLD]

    async def test_a_patch_is_refused(self, client: Client) -> None:
        """Patches of a missing object, of an unsupported type, and with a value of the wrong type are refused."""
        await serve_widgets(client, TEAM)
        await client.create(TEAM, WIDGETS, widget("one", size=1))
        refused: list[tuple[int, str, dict[str, Any]]] = [
            (404, "two", {}),
            (415, "one", {"patch_type": STRATEGIC_MERGE_PATCH}),
            (422, "one", {"document": {"spec": {"size": "large"}}}),
        ]
        for code, name, more in refused:
            with pytest.raises(StatusError) as caught:
                await client.patch(TEAM, WIDGETS, "default", name, **{"document": {}, **more})
            assert caught.value.code == code

    async def test_an_apply_owns_its_fields(self, client: Client) -> None:
        """An apply creates the object, conflicts with fields of another manager, takes them by force, and removes fields that it omits."""
        made = await client.apply(TEAM, CONFIG_MAPS, config_map("one"), field_manager="first")
        assert made["data"] == {"a": "b"}
        other = config_map("one", data="z")
        with pytest.raises(StatusError) as caught:
            await client.apply(TEAM, CONFIG_MAPS, other, field_manager="second")
        assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        assert [cause["field"] for cause in (caught.value.details or {})["causes"]] == [".data.a"]
        taken = await client.apply(TEAM, CONFIG_MAPS, other, field_manager="second", force=True)
        assert taken["data"] == {"a": "z"}
        emptied = {key: value for key, value in other.items() if key != "data"}
        assert "data" not in await client.apply(TEAM, CONFIG_MAPS, emptied, field_manager="second")

    async def test_delete_checks_its_preconditions(self, client: Client) -> None:
        """A deletion with the uid or the resourceVersion of another object is refused."""
        made = (await client.create(TEAM, CONFIG_MAPS, config_map("one")))["metadata"]
        for uid, version in (("other", ""), ("", "1")):
            with pytest.raises(StatusError) as caught:
                await client.delete(TEAM, CONFIG_MAPS, "default", "one", uid=uid, resource_version=version)
            assert (caught.value.code, caught.value.reason) == (409, "Conflict")
        await client.delete(TEAM, CONFIG_MAPS, "default", "one", uid=made["uid"], resource_version=made["resourceVersion"])
        with pytest.raises(StatusError) as caught:
            await client.delete(TEAM, CONFIG_MAPS, "default", "one")
        assert caught.value.code == 404

    async def test_an_object_with_finalizers_is_marked(self, client: Client) -> None:
        """An object with finalizers is marked, and removed with its last finalizer."""
        await client.create(TEAM, CONFIG_MAPS, config_map("one", finalizers=[HOLD]))
        await client.delete(TEAM, CONFIG_MAPS, "default", "one")
        held = await client.get(TEAM, CONFIG_MAPS, "default", "one")
        assert held["metadata"]["deletionTimestamp"]
        held["metadata"]["finalizers"] = []
        await client.update(TEAM, CONFIG_MAPS, held)
        with pytest.raises(StatusError) as caught:
            await client.get(TEAM, CONFIG_MAPS, "default", "one")
        assert caught.value.code == 404

    async def test_propagation_is_carried_out(self, client: Client) -> None:
        """A foreground deletion marks the object with its finalizer."""
        await client.create(TEAM, CONFIG_MAPS, config_map("one", finalizers=[HOLD]))
        await client.delete(TEAM, CONFIG_MAPS, "default", "one", propagation="Foreground")
        held = await client.get(TEAM, CONFIG_MAPS, "default", "one")
        assert HOLD in held["metadata"]["finalizers"]
        assert held["metadata"]["deletionTimestamp"]

    async def test_a_collection_is_deleted(self, client: Client) -> None:
        """The selected objects in one namespace of one cluster are deleted."""
        for name, labels in (("one", {"a": "b"}), ("two", {"a": "b"}), ("three", None)):
            await client.create(TEAM, CONFIG_MAPS, config_map(name, labels=labels))
        await client.create(OTHER, CONFIG_MAPS, config_map("foreign", labels={"a": "b"}))
        await client.delete_collection(TEAM, CONFIG_MAPS, "default", label_selector="a=b")
        assert [one["metadata"]["name"] for one in (await client.list(TEAM, CONFIG_MAPS, "default")).items] == ["three"]
        assert [one["metadata"]["name"] for one in (await client.list(OTHER, CONFIG_MAPS, "default")).items] == ["foreign"]

    async def test_another_user_is_known_to_the_server(self, client: Client) -> None:
        """A client that acts as a privileged user has the permissions of that user."""
        other = client.acting_as(UserInfo("jane", "u-1", (SYSTEM_MASTERS,), {"example.com/team": ("blue",)}))
        made = await other.create(TEAM, NAMESPACES, {"metadata": {"name": "shop"}})
        assert await client.get(TEAM, NAMESPACES, "", "shop") == made
