"""A client whose lists and watches follow a script, for informers."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Any, cast

from kcp_py.client.contract import Client, ObjectList, WatchEvent
from kcp_py.client.reflecting import Backoff


def item(name: str, version: int, *, uid: str = "", cluster: str = "team-a", **metadata: Any) -> dict[str, Any]:
    """An object of a list."""
    return {
        "metadata": {
            "name": name,
            "namespace": "default",
            "uid": uid or f"uid-{name}",
            "resourceVersion": str(version),
            "annotations": {"kcp.io/cluster": cluster},
            **metadata,
        }
    }


class Scripted:
    """Answers lists and watches with one entry of the script after the other; at its end a watch hangs.

    An entry is an exception, a list of objects with its revision, or the events of a watch, of which the last may be an exception.
    """

    def __init__(self, *script: Any) -> None:
        self.script = list(script)
        self.calls: list[tuple[str, str]] = []
        self.delays: list[float] = []
        self.done = asyncio.Event()

    @property
    def client(self) -> Client:
        return cast("Client", self)

    @property
    def backoff(self) -> Backoff:
        return Backoff(lambda: 1.0)

    async def sleep(self, seconds: float) -> None:
        self.delays.append(seconds)
        await asyncio.sleep(0)

    async def list(self, *_: Any, continue_token: str = "", **__: Any) -> ObjectList:
        self.calls.append(("list", continue_token))
        entry = self.script.pop(0)
        if isinstance(entry, Exception):
            raise entry
        items, revision, *more = entry
        return ObjectList(items, str(revision), more[0] if more else "")

    async def watch(self, *_: Any, resource_version: str, **__: Any) -> AsyncGenerator[WatchEvent, None]:
        self.calls.append(("watch", resource_version))
        if not self.script:
            self.done.set()
            await asyncio.get_running_loop().create_future()
        for event in cast("Sequence[Any]", self.script.pop(0)):
            if isinstance(event, Exception):
                raise event
            yield WatchEvent(*event)
