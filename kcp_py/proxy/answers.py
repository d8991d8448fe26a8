"""Answers that are made from a cache, as ASGI messages."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any, Final

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.proxy.cache import ResourceCache
from kcp_py.proxy.items import Event, Item
from kcp_py.proxy.passing import Send
from kcp_py.proxy.reads import Read

INITIAL_END: Final = {"k8s.io/initial-events-end": "true"}
_PIECE_ITEMS: Final = 200
_PIECE_BYTES: Final = 256 * 1024


def selected(cache: ResourceCache, read: Read) -> list[Item]:
    """The objects that a list or a watch is about."""
    items = cache.items(read.namespace, read.name)
    return items if read.labels.empty else [item for item in items if read.labels.matches(item.labels)]


def event_lines(events: Iterable[Event], cache: ResourceCache, read: Read, first: int) -> Iterable[bytes]:
    """The events that a client sees, as they are sent.

    Args:
        events: of the cache.
        cache: has the kind of bookmarks.
        read: of the client.
        first: the version that the client knows.
    """
    for event in events:
        if event.version <= first:
            continue
        item = event.item
        if item is None:
            if read.bookmarks:
                yield line("BOOKMARK", bookmark(cache, read, event.version, {}))
            continue
        if (read.namespace and item.namespace != read.namespace) or (read.name and item.name != read.name):
            continue
        now = event.kind != "DELETED" and read.labels.matches(item.labels)
        before = event.before is not None and read.labels.matches(event.before.labels)
        if now:
            yield line("MODIFIED" if before else "ADDED", document(read, item))
        elif before:
            yield line("DELETED", document(read, item))


def document(read: Read, item: Item) -> bytes:
    """An object in the form that the client wants."""
    return item.metadata if read.form == "metadata" else item.raw


def bookmark(cache: ResourceCache, read: Read, version: int, annotations: dict[str, str]) -> bytes:
    """An object without content but a resource version."""
    kind, api_version = (cache.kind, cache.api_version) if read.form == "object" else ("PartialObjectMetadata", "meta.k8s.io/v1")
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    return orjson.dumps({"kind": kind, "apiVersion": api_version, "metadata": metadata})


def line(kind: str, content: bytes) -> bytes:
    """One event of a watch."""
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), content)


async def send_parts(send: Send, parts: Iterable[bytes], separator: bytes = b"") -> None:
    """Send parts of an answer, many in one piece, which is made when the client has taken the one before."""
    piece: list[bytes] = []
    size, begun = 0, False
    for one in parts:
        piece.append(one)
        size += len(one)
        if len(piece) == _PIECE_ITEMS or size >= _PIECE_BYTES:
            await _send_piece(send, (separator if begun else b"") + separator.join(piece))
            piece, size, begun = [], 0, True
            await asyncio.sleep(0)
    if piece:
        await _send_piece(send, (separator if begun else b"") + separator.join(piece))


async def _send_piece(send: Send, body: bytes) -> None:
    await send({"type": "http.response.body", "body": body, "more_body": True})


async def send_list(send: Send, cache: ResourceCache, read: Read, items: list[Item], warning: str) -> None:
    """Send a list; the objects are those of the present version of the cache."""
    if read.form == "object":
        kind, api_version = f"{cache.kind}List", cache.api_version
    else:
        kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    head = orjson.dumps({"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": str(cache.version)}})
    await send_head(send, 200, warning)
    await _send_piece(send, head[:-1] + b',"items":[')
    await send_parts(send, (document(read, item) for item in items), b",")
    await send({"type": "http.response.body", "body": b"]}\n", "more_body": False})


async def send_head(send: Send, status: int, warning: str, length: int | None = None) -> None:
    """Begin an answer in JSON."""
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    if warning:
        headers.append((b"warning", warning.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def send_json(send: Send, body: bytes, warning: str, status: int = 200) -> None:
    """Send a whole answer."""
    await send_head(send, status, warning, len(body) + 1)
    await send({"type": "http.response.body", "body": body + b"\n", "more_body": False})


async def send_status(send: Send, error: StatusError) -> None:
    """Send a failure."""
    await send_json(send, orjson.dumps(error.to_status()), "", error.code)
