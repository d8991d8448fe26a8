"""Controller `ttl-after-finished-controller`: a job that has ended is deleted after the time that it asks for.

Source: kubernetes `pkg/controller/ttlafterfinished`.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.client import Client, ObjectChange, ObjectFilter
from kcp_py.controllers.names import TTL_AFTER_FINISHED
from kcp_py.controllers.objects import delete_at_end
from kcp_py.controllers.runtime.controller import ControllerSource, Later, own_key
from kcp_py.controllers.runtime.queue import Key

JOBS: Final = GroupVersionResource("batch", "v1", "jobs")
_TTL: Final = b'"ttlSecondsAfterFinished"'


class FinishedJobController:
    """Deletes jobs with `ttlSecondsAfterFinished`, and their dependents before them."""

    name = TTL_AFTER_FINISHED
    per_cluster = 4

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.time) -> None:
        """Make the controller.

        Args:
            client: of all clusters.
            clock: Unix seconds.
        """
        self._client = client
        self._clock = clock

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """Jobs that ask for it."""
        return (ControllerSource(JOBS, self.keys, ObjectFilter(contains=((_TTL,),))),)

    def keys(self, change: ObjectChange) -> Iterable[Key]:
        """The job, if it asks for it."""
        return own_key(change) if change.value is not None and _TTL in change.value else ()

    async def reconcile(self, key: Key) -> int | Later:
        return await delete_at_end(self._client, JOBS, key, ends_at=ends_at, now=self._clock(), propagation="Foreground")


def ends_at(job: Mapping[str, Any]) -> float | None:
    """When a job is deleted, in Unix seconds; None for one that has not ended or does not ask for it."""
    try:
        ttl = job["spec"]["ttlSecondsAfterFinished"]
        for condition in job["status"]["conditions"]:
            if condition["type"] in {"Complete", "Failed"} and condition["status"] == "True":
                return parse_time(condition["lastTransitionTime"]) + float(ttl)
    except (KeyError, TypeError, ValueError):
        # It has no such field yet, or the kind comes from a CRD with another schema.
        return None
    return None
