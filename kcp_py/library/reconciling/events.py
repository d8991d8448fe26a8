"""`Recorder` and `EventWriter`: events about objects, written in a task of their own, few enough for every store.

Source: k8s.io/client-go `tools/record` (`event.go`, `events_cache.go`), with its numbers: an event that repeats is counted, ten different
messages of one reason within ten minutes become one event "(combined from similar events)", and one object has 25 events at once and one
more each five minutes.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

import structlog

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.timestamps import format_time
from kcp_py.client.contract import Client
from kcp_py.logicalcluster import Name

EVENTS: Final = GroupVersionResource("", "v1", "events")
_KNOWN: Final = 4096
_SIMILAR: Final = 10
_INTERVAL_SECONDS: Final = 600.0
_BURST: Final = 25
_REFILL_SECONDS: Final = 300.0
_WAITING: Final = 1000
"""Events that wait to be written; more are dropped: the work goes on."""
_LONGEST_MESSAGE: Final = 1024
_COMBINED: Final = "(combined from similar events): "

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.controllers")


class Occurrence(NamedTuple):
    """Something to tell about an object."""

    cluster: Name
    obj: Mapping[str, Any]
    """apiVersion, kind and metadata of the object."""
    type: str
    reason: str
    message: str

    @property
    def about(self) -> tuple[str, ...]:
        """What events are similar by, but for their messages."""
        metadata = self.obj["metadata"]
        return (self.cluster, metadata.get("uid", ""), self.type, self.reason)


class Recorder:
    """Records events about one object. Its methods return at once, never raise, and may be called from threads."""

    def __init__(self, cluster: Name, obj: Mapping[str, Any], put: Callable[[Occurrence], None]) -> None:
        self._cluster = cluster
        metadata = obj["metadata"]
        self._obj = {"apiVersion": obj.get("apiVersion"), "kind": obj.get("kind"), "metadata": metadata}
        self._put = put

    def normal(self, reason: str, message: str) -> None:
        """Tell something expected; the reason is one word in CamelCase."""
        self._put(Occurrence(self._cluster, self._obj, "Normal", reason, message[:_LONGEST_MESSAGE]))

    def warning(self, reason: str, message: str) -> None:
        """Tell something unexpected."""
        self._put(Occurrence(self._cluster, self._obj, "Warning", reason, message[:_LONGEST_MESSAGE]))


@dataclass
class _Similar:
    """Events of one object, type and reason."""

    messages: set[str] = field(default_factory=set)
    last: float = 0.0


@dataclass
class _Budget:
    """Events that an object may still have."""

    tokens: float = _BURST
    at: float = 0.0


class EventWriter:
    """Writes the events of one component."""

    def __init__(self, client: Client, component: str, *, clock: Callable[[], float] = time.time) -> None:
        """Write nothing yet: `run` does.

        Args:
            client: of all clusters.
            component: the name of the controller.
            clock: Unix seconds.
        """
        self._client = client
        self._component = component
        self._clock = clock
        self._waiting: asyncio.Queue[Occurrence] = asyncio.Queue(_WAITING)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._written: LRU[tuple[str, ...], Mapping[str, Any]] = LRU(_KNOWN)
        self._similar: LRU[tuple[str, ...], _Similar] = LRU(_KNOWN)
        self._budgets: LRU[tuple[str, ...], _Budget] = LRU(_KNOWN)

    def recorder(self, cluster: Name, obj: Mapping[str, Any]) -> Recorder:
        """The recorder of an object."""
        return Recorder(cluster, obj, self.put)

    def put(self, occurrence: Occurrence) -> None:
        """Have an event written; dropped where too many wait."""
        loop = self._loop
        if loop is None or loop.is_closed():
            return
        loop.call_soon_threadsafe(self._enqueue, occurrence)

    def _enqueue(self, occurrence: Occurrence) -> None:
        if not self._waiting.full():
            self._waiting.put_nowait(occurrence)

    async def run(self) -> None:
        """Write events until cancelled; those that wait then are written, for a second at the most."""
        self._loop = asyncio.get_running_loop()
        try:
            while True:
                await self._write(await self._waiting.get())
        finally:
            self._loop = None
            try:
                async with asyncio.timeout(1):
                    while not self._waiting.empty():
                        await self._write(self._waiting.get_nowait())
            except TimeoutError:
                pass

    async def _write(self, occurrence: Occurrence) -> None:
        about = occurrence.about
        if not self._may_write(about[:2]):
            return
        message = self._message(occurrence)
        identity = (*about, message)
        text = f"{message}{occurrence.message}"[:_LONGEST_MESSAGE] if message is _COMBINED else message
        try:
            known = self._written.get(identity)
            if known is not None and await self._repeat(occurrence.cluster, identity, known, text=text):
                return
            made = await self._client.create(occurrence.cluster, EVENTS, self._event(occurrence, text), field_manager=self._component)
            self._written.set(identity, _short(made))
        except StatusError as error:
            # The object may be in a namespace or a cluster that is going.
            _log.debug("event_not_recorded", controller=self._component, cluster=occurrence.cluster, error=error.message)
        except Exception as error:  # noqa: BLE001 - events are not worth the end of a controller
            _log.error("event_not_recorded", controller=self._component, cluster=occurrence.cluster, exc_info=error)

    def _may_write(self, source: tuple[str, ...]) -> bool:
        now = self._clock()
        budget = self._budgets.get(source)
        if budget is None:
            budget = _Budget(at=now)
            self._budgets.set(source, budget)
        budget.tokens = min(_BURST, budget.tokens + (now - budget.at) / _REFILL_SECONDS)
        budget.at = now
        if budget.tokens < 1:
            return False
        budget.tokens -= 1
        return True

    def _message(self, occurrence: Occurrence) -> str:
        now = self._clock()
        similar = self._similar.get(occurrence.about)
        if similar is None or now - similar.last > _INTERVAL_SECONDS:
            similar = _Similar()
            self._similar.set(occurrence.about, similar)
        similar.last = now
        similar.messages.add(occurrence.message)
        if len(similar.messages) < _SIMILAR:
            return occurrence.message
        similar.messages.pop()
        return _COMBINED

    async def _repeat(self, cluster: Name, identity: tuple[str, ...], known: Mapping[str, Any], *, text: str) -> bool:
        """Count an event once more; whether it is still there."""
        metadata = known["metadata"]
        again = {"count": known.get("count", 1) + 1, "lastTimestamp": format_time(self._clock()), "message": text}
        try:
            patched = await self._client.patch(
                cluster, EVENTS, metadata["namespace"], metadata["name"], document=again, field_manager=self._component
            )
            self._written.set(identity, _short(patched))
        except StatusError as error:
            if error.code != 404:
                raise
            return False
        return True

    def _event(self, occurrence: Occurrence, text: str) -> dict[str, Any]:
        obj, metadata, now = occurrence.obj, occurrence.obj["metadata"], self._clock()
        where = metadata.get("namespace") or "default"
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{metadata['name'][:200]}.{int(now * 1e9):x}", "namespace": where},
            "involvedObject": {
                "apiVersion": obj.get("apiVersion"),
                "kind": obj.get("kind"),
                "name": metadata["name"],
                **({"namespace": metadata["namespace"]} if metadata.get("namespace") else {}),
                "uid": metadata.get("uid", ""),
                "resourceVersion": metadata.get("resourceVersion", ""),
            },
            "type": occurrence.type,
            "reason": occurrence.reason,
            "message": text,
            "count": 1,
            "firstTimestamp": format_time(now),
            "lastTimestamp": format_time(now),
            "source": {"component": self._component},
            "reportingComponent": self._component,
            "reportingInstance": "",
        }


def _short(event: Mapping[str, Any]) -> Mapping[str, Any]:
    """The fields of an event that a repetition needs."""
    metadata = event["metadata"]
    return {"count": event.get("count", 1), "metadata": {"namespace": metadata["namespace"], "name": metadata["name"]}}
