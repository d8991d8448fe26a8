"""An API server whose answers a test decides: on a port, with one resource, over plain HTTP."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

from kcp_py.kubeconfig import KubeconfigContext
from kcp_py.proxy.reads import Place

PLACE = Place("", "", "v1", "configmaps")
PATIENCE = 60


class Scripted:
    """The server.

    Attributes:
        version: of the newest state.
        floor: events up to this version are forgotten.
        asked: `list`, `newest` (a list of one), `watch`, `review`, and other methods.
        refusal: the status of answers to watches; 0 for events. As the first event where it is negative.
        allowed: whether reviews allow.
        statuses: answers to come of a kind, before the usual ones.
    """

    def __init__(self) -> None:
        self.version = 100
        self.floor = 100
        self.asked: Counter[str] = Counter()
        self.refusal = 0
        self.allowed = True
        self.statuses: dict[str, list[int]] = {}
        self.heads: list[str] = []
        self.port = 0
        self._objects: dict[str, dict[str, Any]] = {}
        self._events: list[tuple[int, bytes]] = []
        self._changed = asyncio.Event()
        self._writers: set[asyncio.StreamWriter] = set()
        self._endings = 0
        self._server: asyncio.Server | None = None
        self.waiting = 0
        """Watches that have begun."""

    @property
    def context(self) -> KubeconfigContext:
        return KubeconfigContext(Path("kubeconfig"), {"server": f"http://127.0.0.1:{self.port}"}, {"token": "own"}, "u")

    def put(self, name: str, **data: str) -> None:
        """Write an object."""
        self.version += 1
        kind = "MODIFIED" if name in self._objects else "ADDED"
        self._objects[name] = self._object(name, data)
        self._tell(kind, self._objects[name])

    def delete(self, *names: str, silently: bool = False) -> None:
        """Delete objects; silently without events, which are forgotten then."""
        for name in names:
            self.version += 1
            gone = self._objects.pop(name)
            if silently:
                self.floor = self.version
            else:
                self._tell("DELETED", {**gone, "metadata": {**gone["metadata"], "resourceVersion": str(self.version)}})

    def restore(self, version: int, *names: str) -> None:
        """Go on from another history."""
        self._objects.clear()
        self._events.clear()
        self.version = self.floor = version
        for name in names:
            self._objects[name] = self._object(name, {})

    def bookmark(self) -> None:
        """Send a bookmark to all watches."""
        document = {"kind": "ConfigMap", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.version)}}
        self._tell("BOOKMARK", document)

    def end_watches(self) -> None:
        """End the watches in order."""
        self._endings += 1
        self._wake()

    def cut(self) -> None:
        """Lose all connections."""
        for writer in self._writers:
            writer.transport.abort()
        self._wake()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        self._endings += 1
        self.cut()

    def _object(self, name: str, data: dict[str, str]) -> dict[str, Any]:
        metadata = {"name": name, "namespace": "default", "resourceVersion": str(self.version), "uid": name}
        return {"kind": "ConfigMap", "apiVersion": "v1", "metadata": metadata, "data": data}

    def _tell(self, kind: str, document: Any) -> None:
        self._events.append((self.version, json.dumps({"type": kind, "object": document}).encode() + b"\n"))
        self._wake()

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.add(writer)
        try:
            while True:
                await self._answer(reader, writer)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            self._writers.discard(writer)
            writer.close()

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        self.heads.append(head)
        method, target, _ = head.split(" ", 2)
        length = next((int(line.partition(":")[2]) for line in head.lower().splitlines() if line.startswith("content-length:")), 0)
        await reader.readexactly(length)
        if "transfer-encoding: chunked" in head.lower():
            while size := int(await reader.readuntil(b"\r\n"), 16):
                await reader.readexactly(size + 2)
            await reader.readexactly(2)
        query = {key: values[0] for key, values in parse_qs(urlsplit(target).query).items()}
        kind = "review" if "reviews" in target else method if method != "GET" else "watch" if "watch" in query else "list"
        kind = "newest" if kind == "list" and query.get("limit") == "1" else kind
        self.asked[kind] += 1
        if statuses := self.statuses.get(kind):
            self._write(writer, statuses.pop(0), {"kind": "Status"})
        elif kind == "review":
            self._write(writer, 201, {"status": {"allowed": self.allowed}})
        elif kind == "watch":
            await self._watch(writer, int(query["resourceVersion"]))
        elif kind in {"list", "newest"}:
            document = {"kind": "ConfigMapList", "apiVersion": "v1", "metadata": {"resourceVersion": str(self.version)}}
            self._write(writer, 200, {**document, "items": list(self._objects.values())})
        else:
            self._write(writer, 200, {"kind": "Status", "metadata": {}})
        await writer.drain()

    async def _watch(self, writer: asyncio.StreamWriter, version: int) -> None:
        gone = {"kind": "Status", "code": 410, "reason": "Expired", "message": f"too old resource version: {version} ({self.floor})"}
        if self.refusal > 0 or (version < self.floor and not self.refusal):
            self._write(writer, self.refusal or 410, gone)
            return
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n")
        endings, sent = self._endings, 0
        if self.refusal < 0:
            writer.write(_chunk(json.dumps({"type": "ERROR", "object": gone}).encode() + b"\n") + b"0\r\n\r\n")
            return
        self.waiting += 1
        while endings == self._endings:
            changed = self._changed
            events = self._events
            for number, line in events[sent:]:
                if number > version:
                    writer.write(_chunk(line))
            sent = len(events)
            await writer.drain()
            await changed.wait()
        writer.write(b"0\r\n\r\n")

    def _write(self, writer: asyncio.StreamWriter, status: int, document: Any) -> None:
        body = json.dumps(document).encode()
        head = f"HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        writer.write(head.encode() + body)


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%b\r\n" % (len(data), data)


@asynccontextmanager
async def scripted() -> AsyncIterator[Scripted]:
    """The server runs within it."""
    server = Scripted()
    await server.start()
    try:
        yield server
    finally:
        await server.stop()


async def until(condition: Any) -> None:
    """Wait for a state that other tasks and sockets bring about."""
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await asyncio.sleep(0.01)
