"""Passing requests on: whole requests with their answers as they come, and connections that are upgraded to another protocol."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import suppress
from typing import Any, Final

from kcp_py.proxy.access import Caller
from kcp_py.proxy.upstream import Header, UnreachableError, Upstream
from kcp_py.serving.tunnel import Tunnel

_HOP_BY_HOP: Final = frozenset((
    b"connection", b"host", b"keep-alive", b"proxy-authenticate", b"proxy-authorization", b"proxy-connection", b"te", b"trailer",
    b"transfer-encoding", b"upgrade",
))  # fmt: skip
"""RFC 9110, 7.6.1, and the host of the proxy."""
_IDENTITY: Final = (b"x-remote-", b"impersonate-", b"x-kubernetes-cluster")
_NOTED_BYTES: Final = 1024 * 1024
"""Answers to writes that are looked at."""
_PIECE: Final = 64 * 1024
_LINGER_SECONDS: Final = 30.0
_ANSWER_SECONDS: Final = 90.0
_REFUSAL_BYTES: Final = 1024 * 1024
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding", b"connection", b"keep-alive"))

Send = Callable[[dict[str, Any]], Any]
Receive = Callable[[], Any]


def passed_headers(headers: Sequence[Header], caller: Caller, *, keep: frozenset[bytes] = frozenset()) -> list[Header]:
    """The headers of a request for the API server: those of the client without those of the connection, and those of the caller.

    Args:
        headers: of the client; names in lower case.
        caller: in whose name the request is made.
        keep: names of headers of the connection that are needed.
    """
    named = {token.strip() for name, value in headers if name == b"connection" for token in value.lower().split(b",")}
    dropped = (_HOP_BY_HOP | named | {b"authorization"}) - keep
    kept = [(name, value) for name, value in headers if name not in dropped and not name.startswith(_IDENTITY)]
    return [*kept, *caller.headers]


async def pass_on(
    upstream: Upstream,
    scope: dict[str, Any],
    receive: Receive,
    send: Send,
    *,
    caller: Caller,
    target: bytes,
    before_answer: Callable[[int, bytes], None] | None = None,
) -> None:
    """Pass a request on, and its answer back.

    Args:
        upstream: the API server.
        scope: of ASGI.
        receive: of ASGI.
        send: of ASGI.
        caller: in whose name the request is made.
        target: path and query as they are sent.
        before_answer: of a write: is called with the status and the body before the client gets any of it; with an empty body where that
            is too large. Such a request goes on when its client leaves, so that its answer is known.

    Raises:
        UnreachableError: the server does not answer. Nothing has been sent to the client.
        StatusError: 400; the headers do not fit the body.
    """
    headers = passed_headers(scope["headers"], caller)
    has_body = any(name == b"transfer-encoding" or (name == b"content-length" and value != b"0") for name, value in scope["headers"])
    # A watch, and logs that are followed, may be silent for long. The client ends them.
    body = _body(receive) if has_body else None
    started = False
    loop = asyncio.get_running_loop()
    task = asyncio.current_task()
    is_left = has_body or before_answer is not None
    take_back = on_disconnect(scope, lambda: loop.call_soon(task.cancel) if task is not None and not is_left else None)
    try:
        async with upstream.stream(scope["method"], target, headers=headers, own=caller.own, body=body, silence=None) as response:
            parts = response.aiter_stream()
            first = b"" if before_answer is None else await _begun(parts)
            if before_answer is not None:
                before_answer(response.status, first if len(first) <= _NOTED_BYTES else b"")
            answered = [(name.lower(), value) for name, value in response.headers if name.lower() not in _HOP_BY_HOP]
            started = True
            await send({"type": "http.response.start", "status": response.status, "headers": answered})
            if first:
                await send({"type": "http.response.body", "body": first, "more_body": True})
            async for part in parts:
                await send({"type": "http.response.body", "body": part, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
    except UnreachableError as error:
        if started:
            # The client sees that the answer is not complete.
            raise ConnectionResetError(str(error)) from error
        raise
    finally:
        take_back()


async def _begun(parts: AsyncIterator[bytes]) -> bytes:
    """The whole answer, or what has come when it is too large to be noted."""
    found: list[bytes] = []
    size = 0
    async for part in parts:
        found.append(part)
        size += len(part)
        if size > _NOTED_BYTES:
            break
    return b"".join(found)


def on_disconnect(scope: Any, callback: Callable[[], object]) -> Callable[[], None]:
    """Have a function called when the client leaves; returns what takes that back. Other ASGI servers do not tell it."""
    register = (scope.get("state") or {}).get("on_disconnect")
    if register is None:
        return lambda: None
    found: Callable[[], None] = register(callback)
    return found


async def _body(receive: Receive) -> AsyncGenerator[bytes, None]:
    while True:
        message = await receive()
        if message["type"] != "http.request":
            raise ConnectionResetError
        if part := message.get("body", b""):
            yield part
        if not message.get("more_body", False):
            return


async def pass_tunnel(upstream: Upstream, tunnel: Tunnel, *, caller: Caller, target: bytes) -> None:
    """Pass a request on that upgrades its connection (exec, attach, port-forward, watches over WebSocket), and then bytes both ways.

    Raises:
        UnreachableError: the server cannot be reached. Nothing has been sent to the client.
    """
    scope = tunnel.scope
    reader, writer, own = await upstream.connect(own=caller.own)
    try:
        headers = passed_headers(scope["headers"], caller, keep=frozenset((b"upgrade",)))
        lines = [scope["method"].encode() + b" " + upstream.target(target) + b" HTTP/1.1", b"host: " + upstream.authority]
        lines += [name + b": " + value for name, value in (*own, *headers, (b"connection", b"Upgrade"))]
        writer.write(b"\r\n".join(lines) + b"\r\n\r\n")
        await writer.drain()
        # Bytes of the client before the upgrade would be further requests, on a connection that may have the certificate of the proxy.
        if not await _is_upgraded(reader, tunnel):
            return
        tasks = [asyncio.create_task(one) for one in (_to_server(tunnel, writer), _to_client(reader, tunnel))]
        # A client that has ended its side still reads.
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if not tasks[1].done():
            await asyncio.wait(tasks, timeout=_LINGER_SECONDS)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    finally:
        writer.close()


async def _is_upgraded(reader: asyncio.StreamReader, tunnel: Tunnel) -> bool:
    """Pass the answer to the upgrade back. Returns whether the server has changed the protocol; if not, its answer was passed as a whole.

    Raises:
        UnreachableError: there is no answer.
    """
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            head = await reader.readuntil(b"\r\n\r\n")
    except (OSError, TimeoutError, asyncio.IncompleteReadError, asyncio.LimitOverrunError) as error:
        raise UnreachableError(str(error) or type(error).__name__) from error
    status, *lines = head.split(b"\r\n")
    if status.split(b" ", 2)[1:2] == [b"101"]:
        await tunnel.write(head)
        return True
    fields = {name.strip().lower(): value.strip() for name, _, value in (line.partition(b":") for line in lines)}
    # The connection ends behind this answer.
    kept = [line for line in lines if line and line.partition(b":")[0].strip().lower() not in _FRAMING]
    length = fields.get(b"content-length", b"")
    body = b""
    with suppress(OSError, TimeoutError, ValueError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
        async with asyncio.timeout(_LINGER_SECONDS):
            if fields.get(b"transfer-encoding", b"").lower() == b"chunked":
                body = await _chunks(reader)
            elif length.isdigit():
                body = await reader.readexactly(min(int(length), _REFUSAL_BYTES))
    framing = [b"content-length: %d" % len(body), b"connection: close"]
    await tunnel.write(b"\r\n".join([status, *kept, *framing]) + b"\r\n\r\n" + body)
    return False


async def _chunks(reader: asyncio.StreamReader) -> bytes:
    found: list[bytes] = []
    while sum(map(len, found)) < _REFUSAL_BYTES:
        line = (await reader.readuntil(b"\r\n")).partition(b";")[0].strip()
        size = int(line, 16) if line else 0
        if not size:
            break
        found.append(await reader.readexactly(min(size, _REFUSAL_BYTES)))
        await reader.readexactly(2)
    return b"".join(found)


async def _to_server(tunnel: Tunnel, writer: asyncio.StreamWriter) -> None:
    while data := await tunnel.read():
        writer.write(data)
        await writer.drain()
    with suppress(OSError):
        if writer.can_write_eof():
            writer.write_eof()


async def _to_client(reader: asyncio.StreamReader, tunnel: Tunnel) -> None:
    while data := await reader.read(_PIECE):
        await tunnel.write(data)
