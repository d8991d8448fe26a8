"""Reading and writing past the messages of ASGI, where the server offers it: whole bodies and responses, and chunks of streams.

A server offers it with methods of the object that `receive` and `send` are methods of. Where it does not, and where a middleware stands
between the application and the server, there are none, and `receive` and `send` are used.
"""

from __future__ import annotations

from collections.abc import Callable

from starlette.types import Receive, Send


def body_taker(receive: Receive) -> Callable[[], bytes | None] | None:
    """Takes the whole body of a request at once. It returns None where `receive` has to be used."""
    taker: Callable[[], bytes | None] | None = getattr(getattr(receive, "__self__", None), "take_body", None)
    return taker


def response_writer(send: Send) -> Callable[[int, bytes, bytes], bool] | None:
    """Writes a whole response at once: status, lines of the header fields, body. It returns False where `send` has to be used."""
    writer: Callable[[int, bytes, bytes], bool] | None = getattr(getattr(send, "__self__", None), "write_response", None)
    return writer


def chunk(data: bytes) -> bytes:
    """Data as a chunk of a body (RFC 9112, 7.1), for `chunk_writer`."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def chunk_writer(send: Send) -> Callable[[bytes], bool] | None:
    """Writes chunks of a stream at once, see `chunk`. It returns False where `send` has to be used."""
    writer: Callable[[bytes], bool] | None = getattr(getattr(send, "__self__", None), "write_chunk", None)
    return writer
