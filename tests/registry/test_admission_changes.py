"""Objects that admission plugins have changed get the form of their kind, and stay the objects that they are."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation
from tests.registry.admissionplugins import MAPS, NAMESPACES, WIDGETS, api_with, define
from tests.server.handlers.conftest import config_map, instance

pytestmark = pytest.mark.anyio


SIZES = {"size": {"type": "integer", "default": 3}, "name": {"type": "string"}}


class Changing(AdmissionPlugin):
    """Changes objects as a careless webhook does."""

    name = "Changing"

    def __init__(self, **fields: Any) -> None:
        self.fields = fields

    async def mutate(self, attributes: Attributes) -> None:
        if attributes.obj is not None and attributes.resource.resource == "widgets":
            attributes.obj.update(self.fields)


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
