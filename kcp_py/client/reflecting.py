"""`follow`: the objects of a resource and every change of them, through failures of watches and of the server.

Source: k8s.io/client-go `tools/cache/reflector.go`, with its delays: the first after 0.8 seconds, twice as long each time, 30 seconds at
the most.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, NamedTuple

import structlog

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client.contract import Client
from kcp_py.logicalcluster import ClusterSelection, Wildcard

PAGE: Final = 500
FIRST_DELAY_SECONDS: Final = 0.8
LONGEST_DELAY_SECONDS: Final = 30.0
UNSERVED_SECONDS: Final = 2.0
"""How often a resource that no cluster serves is asked for, at the least: its CRD may come at any time."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.client")


class Selection(NamedTuple):
    """Which objects are followed."""

    cluster: ClusterSelection
    resource: GroupVersionResource
    namespace: str = ""
    """Empty for all."""
    label_selector: str = ""
    field_selector: str = ""
    metadata_only: bool = False

    def __str__(self) -> str:
        """For logs."""
        cluster = "*" if isinstance(self.cluster, Wildcard) else self.cluster
        return f"{cluster}/{self.resource.resource}.{self.resource.group}".rstrip(".")


class Step(NamedTuple):
    """One thing that `follow` shows."""

    type: str
    """LISTING begins a list, LISTED shows an object of it, SYNCED ends it: whatever was not listed since LISTING is gone. The others are
    changes after it."""
    obj: dict[str, Any]


class Backoff:
    """Growing delays."""

    def __init__(self, jitter: Callable[[], float] = random.random) -> None:
        self._jitter = jitter
        self._next = FIRST_DELAY_SECONDS

    def reset(self) -> None:
        """Begin with the shortest delay again."""
        self._next = FIRST_DELAY_SECONDS

    def delay(self, longest: float = LONGEST_DELAY_SECONDS) -> float:
        """The next delay in seconds, spread over its second half."""
        delay, self._next = min(self._next, longest), min(self._next * 2, LONGEST_DELAY_SECONDS)
        return delay * (0.5 + self._jitter() / 2)


async def follow(
    client: Client, selection: Selection, *, sleep: Callable[[float], Awaitable[Any]] = asyncio.sleep, backoff: Backoff | None = None
) -> AsyncGenerator[Step, None]:
    """List objects in pages, then watch them from there; never ends by itself.

    A watch that ends is continued behind its last event or bookmark. When the server no longer knows what came after it (410), or answers
    with something that cannot be read, all is listed again. Other failures, such as a lost permission, are logged and tried again after a
    growing delay; the objects that were shown before stay. A resource that is not served has no objects: its list is empty.

    Args:
        client: whose API is followed.
        selection: which objects.
        sleep: for tests.
        backoff: for tests.
    """
    delays = backoff if backoff is not None else Backoff()
    told = ""

    def tell(error: Exception) -> None:
        """Log a failure, once for as long as it lasts. A lost place in the history is not one."""
        nonlocal told
        text = error.message if isinstance(error, StatusError) else f"the answer cannot be read: {error!r}"
        if text != told and not (isinstance(error, StatusError) and error.code == 410):
            told = text
            _log.warning("follow_failed", objects=str(selection), error=text)

    while True:
        revision = ""
        try:
            async with aclosing(_listed(client, selection)) as steps:
                async for step in steps:
                    if step.type == "SYNCED":
                        revision = step.obj["metadata"]["resourceVersion"]
                    yield step
        except Exception as error:  # noqa: BLE001 - whatever fails, those who follow must not be left with old objects
            unserved = isinstance(error, StatusError) and error.code == 404
            if unserved:
                yield Step("LISTING", {})
                yield Step("SYNCED", {})
            tell(error)
            await sleep(delays.delay(UNSERVED_SECONDS if unserved else LONGEST_DELAY_SECONDS))
            continue
        while revision:
            shown = False
            failure: Exception | None = None
            try:
                async with aclosing(_watched(client, selection, revision)) as events:
                    async for event in events:
                        revision = event.obj["metadata"]["resourceVersion"]
                        shown = True
                        if event.type != "BOOKMARK":
                            yield Step(event.type, event.obj)
            except Exception as error:  # noqa: BLE001 - as above
                failure = error
                lost = not isinstance(error, StatusError) or error.code in {404, 410}
                if lost:
                    revision = ""
                tell(error)
            if shown:
                told = ""
                delays.reset()
            if failure is not None or not shown:
                # A server that ends every watch at once is not asked in a loop.
                await sleep(delays.delay())


async def _listed(client: Client, selection: Selection) -> AsyncGenerator[Step, None]:
    yield Step("LISTING", {})
    token = ""
    while True:
        page = await client.list(
            selection.cluster,
            selection.resource,
            selection.namespace,
            label_selector=selection.label_selector,
            field_selector=selection.field_selector,
            limit=PAGE,
            continue_token=token,
            metadata_only=selection.metadata_only,
        )
        for obj in page.items:
            yield Step("LISTED", obj)
        token = page.continue_token
        if not token:
            yield Step("SYNCED", {"metadata": {"resourceVersion": page.resource_version}})
            return


def _watched(client: Client, selection: Selection, revision: str) -> AsyncGenerator[Any, None]:
    return client.watch(
        selection.cluster,
        selection.resource,
        selection.namespace,
        resource_version=revision,
        label_selector=selection.label_selector,
        field_selector=selection.field_selector,
        bookmarks=True,
        metadata_only=selection.metadata_only,
    )
