"""Writes of one cluster that wait at the same time are carried out together, each once."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.apimachinery.errors import StatusError
from tests.client.registry import CONFIG_MAPS, config_map
from tests.registry.quota.conftest import TEAM

pytestmark = pytest.mark.anyio


async def test_many_writers_race_for_the_last_unit(charged):
    """Exactly one of 64 gets it."""
    await charged.quota(hard={"configmaps": "3"})
    for name in ("a", "b"):
        await charged.client.create(TEAM, CONFIG_MAPS, config_map(name))
    names = [f"racer-{number}" for number in range(64)]
    answers = await asyncio.gather(*(charged.client.create(TEAM, CONFIG_MAPS, config_map(one)) for one in names), return_exceptions=True)
    assert sum(isinstance(answer, dict) for answer in answers) == 1
    assert {str(answer.code) for answer in answers if isinstance(answer, StatusError)} == {"403"}
    assert await charged.used() == {"configmaps": "3"}
    assert len((await charged.client.list(TEAM, CONFIG_MAPS)).items) == 3


async def test_writers_of_the_same_object_are_charged_once(charged):
    """All but one are told that it exists."""
    await charged.quota(hard={"configmaps": "100"})
    answers = await asyncio.gather(*(charged.client.create(TEAM, CONFIG_MAPS, config_map("a")) for _ in range(20)), return_exceptions=True)
    assert sorted(answer.reason for answer in answers if isinstance(answer, StatusError)) == ["AlreadyExists"] * 19
    assert await charged.used() == {"configmaps": "1"}


async def test_many_deletions_at_once(charged):
    """Each gives back one unit, on every path."""
    await charged.quota(hard={"configmaps": "200"})
    await asyncio.gather(*(charged.client.create(TEAM, CONFIG_MAPS, config_map(f"m-{number}")) for number in range(150)))
    assert await charged.used() == {"configmaps": "150"}
    await asyncio.gather(*(charged.client.delete(TEAM, CONFIG_MAPS, "default", f"m-{number}") for number in range(50)))
    assert await charged.used() == {"configmaps": "100"}
    await charged.client.delete_collection(TEAM, CONFIG_MAPS, "default")
    assert await charged.used() == {"configmaps": "0"}


async def test_a_write_that_is_given_up_is_not_charged_twice(charged):
    """A caller that leaves holds no unit without an object."""
    await charged.quota(hard={"configmaps": "50"})
    tasks = [asyncio.create_task(charged.client.create(TEAM, CONFIG_MAPS, config_map(f"m-{number}"))) for number in range(20)]
    await asyncio.sleep(0)
    for task in tasks[::2]:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("last"))
    stored = len((await charged.client.list(TEAM, CONFIG_MAPS)).items)
    assert await charged.used() == {"configmaps": str(stored)}
