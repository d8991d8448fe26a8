"""Jobs that have ended are deleted after the time that they ask for."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.controllers import start_controllers
from kcp_py.controllers.finishedjobs import JOBS, FinishedJobController, ends_at
from kcp_py.controllers.objects import LONGEST_WAIT_SECONDS
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.queue import Key
from tests.client.registry import CONFIG_MAPS
from tests.controllers.planes import TEAM, WAYS, Plane, open_plane

pytestmark = pytest.mark.anyio

FINISHED = "2026-01-01T00:00:00Z"
KEY = Key(TEAM, "default", "one")


def job(name: str, ttl: int | None) -> dict[str, Any]:
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}}
    spec = {"template": template} if ttl is None else {"template": template, "ttlSecondsAfterFinished": ttl}
    return {"metadata": {"name": name, "namespace": "default"}, "spec": spec}


def condition(kind: str, status: str = "True", at: str = FINISHED) -> dict[str, str]:
    return {"type": kind, "status": status, "lastTransitionTime": at}


async def create(plane: Plane, name: str, ttl: int | None, outcome: str = "") -> None:
    """A job that ended, or runs, with the status that job controllers write."""
    client = plane.control_plane.client
    made = await client.create(TEAM, JOBS, job(name, ttl))
    if outcome:
        reached = condition("SuccessCriteriaMet" if outcome == "Complete" else "FailureTarget")
        status = {**(made.get("status") or {}), "startTime": FINISHED, "conditions": [reached, condition(outcome)]}
        if outcome == "Complete":
            status["completionTime"] = FINISHED
        await client.update(TEAM, JOBS, {**made, "status": status}, subresource="status")


@pytest.mark.parametrize("way", WAYS)
async def test_a_job_is_deleted_after_its_time(way: str, tmp_path: Path) -> None:
    """With its dependents before it. Others stay."""
    async with open_plane(way, tmp_path, "jobs.batch") as plane:
        await create(plane, "complete", 0, "Complete")
        await create(plane, "kept", None, "Complete")
        selection = ("ttl-after-finished", "garbage-collector-controller")
        start_controllers(plane.supervisor, plane.client, plane.tap, selection)

        async def two_remain() -> bool:
            return await plane.names(TEAM, JOBS) == {"kept", "running"}

        owner = await plane.find(TEAM, JOBS, "complete")
        await create(plane, "running", 0)
        await create(plane, "failed", 1, "Failed")
        if owner is not None:
            reference = {"apiVersion": "batch/v1", "kind": "Job", "name": "complete", "uid": owner["metadata"]["uid"]}
            metadata = {"name": "dependent", "namespace": "default", "ownerReferences": [reference]}
            await plane.control_plane.client.create(TEAM, CONFIG_MAPS, {"metadata": metadata})

        async def no_dependent() -> bool:
            return await plane.find(TEAM, CONFIG_MAPS, "dependent") is None

        await plane.until(two_remain)
        await plane.until(no_dependent)


async def test_a_job_waits_for_its_time(tmp_path: Path) -> None:
    """By a timer that is never long, as the time of day can be set."""
    async with open_plane(WAYS[0], tmp_path, "jobs.batch") as plane:
        await create(plane, "one", 60, "Complete")
        end = parse_time(FINISHED) + 60
        client = plane.client
        assert await FinishedJobController(client, clock=lambda: end - 7).reconcile(KEY) == Later(7)
        assert await FinishedJobController(client, clock=lambda: end - 86_400).reconcile(KEY) == Later(LONGEST_WAIT_SECONDS)
        assert await plane.find(TEAM, JOBS, "one") is not None
        assert await FinishedJobController(client, clock=lambda: end).reconcile(KEY) == 0
        deleted = await plane.find(TEAM, JOBS, "one")
        assert deleted is not None
        assert deleted["metadata"]["finalizers"] == ["foregroundDeletion"]
        assert await FinishedJobController(client).reconcile(KEY) == 0
        assert await FinishedJobController(client).reconcile(KEY._replace(name="other")) == 0


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        ({"spec": {"ttlSecondsAfterFinished": 5}, "status": {"conditions": [condition("Complete")]}}, 5),
        ({"spec": {"ttlSecondsAfterFinished": 0}, "status": {"conditions": [condition("Suspended"), condition("Failed")]}}, 0),
        ({"spec": {"ttlSecondsAfterFinished": 5}, "status": {"conditions": [condition("Complete", "False")]}}, None),
        ({"spec": {"ttlSecondsAfterFinished": 5}, "status": {}}, None),
        ({"spec": {}, "status": {"conditions": [condition("Complete")]}}, None),
        ({"spec": {"ttlSecondsAfterFinished": "soon"}, "status": {"conditions": [condition("Complete")]}}, None),
        ({"spec": {"ttlSecondsAfterFinished": 5}, "status": {"conditions": [condition("Complete", at="today")]}}, None),
        ({"spec": None, "status": {"conditions": "none"}}, None),
    ],
    ids=["complete", "failed", "not true", "running", "not asked", "no number", "no time", "another schema"],
)
def test_when_a_job_is_deleted(job: dict[str, Any], expected: int | None) -> None:
    """The time of the condition that says that the job has ended, and the time that the job asks for."""
    assert ends_at(job) == (None if expected is None else parse_time(FINISHED) + expected)
