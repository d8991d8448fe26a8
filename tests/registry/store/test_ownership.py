"""Owners of fields around admission."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.registry.admission import AdmissionChain, AdmissionPlugin, Attributes
from kcp_py.registry.store import FieldManager
from tests.client.registry import config_map
from tests.registry.store.conftest import World

pytestmark = pytest.mark.anyio

ONE = "/registry/core/configmaps/team-a/default/one"
MANAGER = FieldManager("m", "2024-01-01T00:00:00Z")


def entry(**more: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {"f:data": {"f:a": {}}}
    return {"manager": "webhook", "operation": "Update", "apiVersion": "v1", "fieldsType": "FieldsV1", "fieldsV1": fields, **more}


def admitting(world: World, **metadata: Any) -> None:
    class Adding(AdmissionPlugin):
        async def mutate(self, attributes: Attributes) -> None:
            assert attributes.obj is not None
            attributes.obj["data"] = {**attributes.obj["data"], "added": "by admission"}
            attributes.obj["metadata"].update(metadata)

    world.registry.access.admission = AdmissionChain((Adding(),))


async def test_fields_that_admission_adds_have_no_owner(world: World) -> None:
    """As upstream: owners are noted before admission, of a create and of an update."""
    admitting(world)
    created = (await world.create(config_map("one"), manager=MANAGER)).obj
    assert created["data"] == {"a": "b", "added": "by admission"}
    assert [entry["fieldsV1"] for entry in created["metadata"]["managedFields"]] == [{"f:data": {".": {}, "f:a": {}}}]
    assert world.warnings == []


async def test_owners_that_admission_sets_are_kept(world: World) -> None:
    """It may say whose a field is."""
    admitting(world, managedFields=[entry()])
    created = (await world.create(config_map("one"), manager=MANAGER)).obj
    assert [entry["manager"] for entry in created["metadata"]["managedFields"]] == ["webhook"]


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"operation": "x"}, "operation must be `Apply` or `Update`"),
        ({"apiVersion": ""}, "apiVersion must not be empty"),
        ({"fieldsType": ""}, "missing fieldsType in managed fields entry 0"),
        ({"fieldsType": "x"}, 'invalid fieldsType "x" in managed fields entry 0'),
    ],
)
async def test_owners_that_admission_breaks_are_put_back(world: World, change: dict[str, str], problem: str) -> None:
    """With upstream's warning; the write goes through."""
    admitting(world, managedFields=[entry(**change)])
    await world.create(config_map("one"), manager=MANAGER)
    stored = await world.stored(ONE) or {}
    assert [entry["manager"] for entry in stored["metadata"]["managedFields"]] == ["m"]
    (warning,) = world.warnings
    assert warning.startswith(".metadata.managedFields was in an invalid state after admission; this could be caused by")
    assert warning.endswith(f"please fix your requests: {problem}")
