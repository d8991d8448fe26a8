"""The bare server: an ASGI app that does nothing but what it is compared by.

`GET /fixed/N` answers with N bytes. `POST /commit` parses the body, prints it, and commits it to SQLite in groups. `GET /stream` is
a watch: it stays open and gets what `POST /emit` sends to all streams.
"""

from __future__ import annotations

import argparse
import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

import apsw
import orjson
import uvicorn

Receive = Callable[[], Any]
Send = Callable[[dict[str, Any]], Any]

HEADERS = [(b"content-type", b"application/json")]


class GroupCommit:
    """One writer thread, one transaction per drained queue, durable before the callers receive an answer."""

    def __init__(self, path: str) -> None:
        self._database = apsw.Connection(path)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "locking_mode=NORMAL"):
            self._database.execute(f"PRAGMA {pragma}").fetchall()
        self._database.execute("DROP TABLE IF EXISTS items")
        self._database.execute("CREATE TABLE items (id INTEGER PRIMARY KEY, key TEXT UNIQUE, value BLOB)")
        self._queue: deque[tuple[str, bytes, asyncio.Future[None]]] = deque()
        self._wake = threading.Event()
        self._number = 0
        threading.Thread(target=self._run, daemon=True).start()

    async def put(self, value: bytes) -> None:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[None] = loop.create_future()
        self._number += 1
        self._queue.append((f"key-{self._number}", value, future))
        self._wake.set()
        await future

    def _run(self) -> None:
        while True:
            self._wake.wait()
            self._wake.clear()
            batch = []
            while self._queue:
                batch.append(self._queue.popleft())
            if not batch:
                continue
            with self._database:
                self._database.executemany("INSERT INTO items(key, value) VALUES (?, ?)", ((key, value) for key, value, _ in batch))
            batch[0][2].get_loop().call_soon_threadsafe(self._done, [future for _, _, future in batch])

    @staticmethod
    def _done(futures: list[asyncio.Future[None]]) -> None:
        for future in futures:
            if not future.done():
                future.set_result(None)


class App:
    """The whole application."""

    def __init__(self, database: str) -> None:
        self._commits: GroupCommit | None = None
        self._path = database
        self._fixed: dict[str, bytes] = {}
        self._streams: set[asyncio.Queue[bytes]] = set()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            while True:
                message = await receive()
                await send({"type": f"{message['type']}.complete"})
                if message["type"] == "lifespan.shutdown":
                    return
        path: str = scope["path"]
        if path.startswith("/fixed/"):
            body = self._fixed.get(path)
            if body is None:
                body = self._fixed[path] = b"x" * int(path.rpartition("/")[2])
            await self._answer(send, body)
        elif path == "/commit":
            if self._commits is None:
                self._commits = GroupCommit(self._path)
            body = orjson.dumps(orjson.loads(await self._body(receive)))
            await self._commits.put(body)
            await self._answer(send, body)
        elif path == "/emit":
            body = await self._body(receive)
            for stream in self._streams:
                stream.put_nowait(body)
            await self._answer(send, b"{}")
        else:
            await self._stream(receive, send)

    async def _body(self, receive: Receive) -> bytes:
        body = b""
        while True:
            message: dict[str, bytes] = await receive()
            body += message.get("body", b"")
            if not message.get("more_body"):
                return body

    async def _answer(self, send: Send, body: bytes) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": [*HEADERS, (b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})

    async def _stream(self, receive: Receive, send: Send) -> None:
        queue: asyncio.Queue[bytes] = asyncio.Queue()
        self._streams.add(queue)
        gone = asyncio.create_task(receive_until_gone(receive))
        await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
        await send({"type": "http.response.body", "body": b"", "more_body": True})
        try:
            while True:
                await send({"type": "http.response.body", "body": await queue.get(), "more_body": True})
        finally:
            gone.cancel()
            self._streams.discard(queue)


async def receive_until_gone(receive: Receive) -> None:
    """What every streaming application has to do to notice that its client left."""
    while (await receive())["type"] != "http.disconnect":
        pass


def main() -> None:
    """Serve until killed."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int, required=True)
    parser.add_argument("--database", required=True)
    parser.add_argument("--cert", default=None)
    parser.add_argument("--key", default=None)
    arguments = parser.parse_args()
    uvicorn.run(
        App(arguments.database),
        port=arguments.port,
        loop="uvloop",
        http="httptools",
        ws="none",
        access_log=False,
        log_level="warning",
        server_header=False,
        backlog=8192,
        ssl_certfile=arguments.cert,
        ssl_keyfile=arguments.key,
    )


if __name__ == "__main__":
    main()
