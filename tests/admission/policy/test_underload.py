"""Policies change while others write: each write that begins after the answer to a change sees the change."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tests.admission.policy.making import CLUSTER, CONFIG_MAPS, GROUP, binding, config_map, configure, policy
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

WRITERS = 8
JUDGED = 12
"""How many writes of each state have to be seen before the next change."""
MERGE = {"Content-Type": "application/merge-patch+json"}
POLICY = f"{CLUSTER}/{GROUP}/validatingadmissionpolicies/p"
BINDINGS = f"{CLUSTER}/{GROUP}/validatingadmissionpolicybindings"
PARAMS = {"apiVersion": "v1", "kind": "ConfigMap"}

Change = Callable[[Api, bool], Awaitable[Any]]


class Load:
    """Writers that create config maps without a pause, and compare each answer with the state that was in force all the time."""

    def __init__(self, api: Api) -> None:
        self._api = api
        self._count = 0
        self.state: list[bool] | None = None
        """Whether writes are refused; another object after each change, and None while a change is under way."""
        self.wrong: list[tuple[bool, int, str]] = []
        self.judged = 0
        self._enough = asyncio.Event()

    async def write(self) -> None:
        """Write until cancelled."""
        while True:
            # In memory a request may come to its end without a pause.
            await asyncio.sleep(0)
            self._count += 1
            before = self.state
            response = await self._api("POST", CONFIG_MAPS, config_map(f"x{self._count}", a="1"))
            if before is None or before is not self.state:
                continue
            if response.status_code != (422 if before[0] else 201):
                self.wrong.append((before[0], response.status_code, response.text))
            self.judged += 1
            if self.judged >= JUDGED:
                self._enough.set()

    async def hold(self, refused: bool) -> None:  # noqa: FBT001 - the state itself
        """Declare a state, and wait until enough writes have seen it."""
        self.judged = 0
        self._enough.clear()
        self.state = [refused]
        await asyncio.wait_for(self._enough.wait(), 60)
        self.state = None


async def expression(api: Api, refused: bool) -> None:  # noqa: FBT001 - the state itself
    """Change the policy."""
    await api.ok("PATCH", POLICY, {"spec": {"validations": [{"expression": "false" if refused else "true"}]}}, headers=MERGE)


async def bound(api: Api, refused: bool) -> None:  # noqa: FBT001 - the state itself
    """Create or delete the binding."""
    await (configure(api, binding()) if refused else api.ok("DELETE", f"{BINDINGS}/b"))


async def actions(api: Api, refused: bool) -> None:  # noqa: FBT001 - the state itself
    """Change the actions of the binding."""
    await api.ok("PATCH", f"{BINDINGS}/b", {"spec": {"validationActions": ["Deny" if refused else "Audit"]}}, headers=MERGE)


async def parameter(api: Api, refused: bool) -> None:  # noqa: FBT001 - the state itself
    """Change the parameter."""
    await api.ok("PATCH", f"{CONFIG_MAPS}/limit", {"data": {"open": "no" if refused else "yes"}}, headers=MERGE)


@pytest.mark.parametrize(("change", "starts_refused"), [(expression, True), (bound, False), (actions, True), (parameter, True)])
async def test_changes(api: Api, change: Change, starts_refused: bool) -> None:  # noqa: FBT001 - a case
    """On one server a change is in force for each write that begins after its answer."""
    await api.ok("POST", CONFIG_MAPS, config_map("limit", open="no"))
    if change is parameter:
        given = policy("p", "params.data.open == 'yes' || object.metadata.name == 'limit'", paramKind=PARAMS)
        await configure(api, given, binding(paramRef={"name": "limit", "parameterNotFoundAction": "Deny"}))
    else:
        await configure(api, policy("p", "false"), *(() if change is bound else (binding(),)))
    load = Load(api)
    async with asyncio.TaskGroup() as tasks:
        writers = [tasks.create_task(load.write()) for _ in range(WRITERS)]
        refused = starts_refused
        for _ in range(6):
            await load.hold(refused)
            refused = not refused
            await change(api, refused)
        await load.hold(refused)
        for writer in writers:
            writer.cancel()
    assert load.wrong == []
