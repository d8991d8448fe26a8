"""`Connection`: uvicorn's HTTP/1.1 protocol with what the application needs to know of the connection, and with limits on request heads.

Every request's `scope["state"]` has:

* `peer_certificate`: `bytes | None`, the client certificate in DER, already verified against the accepted authorities;
* `on_disconnect`: `Callable[[Callable[[], None]], Callable[[], None]]`. Registers a function that is called once when the connection is
  lost (soon, where it already is), and returns a function that takes the registration back. With it a watch needs no task that waits in
  `receive()`. Connections are kept alive over many requests: whoever registers takes it back when the request ends.
"""

from __future__ import annotations

import asyncio
from asyncio import TimerHandle
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, Final

from uvicorn.config import Config
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol
from uvicorn.server import ServerState

Callback = Callable[[], None]

LINGER: Final = 0.5
"""Seconds that a client has to answer the end of TLS when the server stops: idle ones may not answer, and asyncio waits for 30."""

_HEAD_TOO_LARGE: Final = b"HTTP/1.1 431 Request Header Fields Too Large\r\ncontent-length: 0\r\nconnection: close\r\n\r\n"


class Connection(HttpToolsProtocol):
    """One client connection. Use a subclass made by `connection_class`, which sets the limits."""

    max_head_bytes: ClassVar[int]
    head_timeout: ClassVar[float]

    def __init__(
        self, config: Config, server_state: ServerState, app_state: dict[str, Any], _loop: asyncio.AbstractEventLoop | None = None
    ) -> None:
        super().__init__(config, server_state, app_state, _loop)
        self._callbacks: dict[object, Callback] | None = {}
        self._reading_head = False
        self._head_bytes = 0
        self._head_timer: TimerHandle | None = None
        self._linger_timer: TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn does
        super().connection_made(transport)
        tls = transport.get_extra_info("ssl_object")
        self.app_state = {
            **self.app_state,
            "peer_certificate": None if tls is None else tls.getpeercert(binary_form=True),
            "on_disconnect": self._on_disconnect,
        }
        self._head_timer = self.loop.call_later(self.head_timeout, transport.abort)

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._stop_head_timer()
        if self._linger_timer is not None:
            self._linger_timer.cancel()
        callbacks, self._callbacks = self._callbacks, None
        # The state holds a method of this object: without this, only the cycle collector would free the connection.
        self.app_state = {}
        for callback in (callbacks or {}).values():
            callback()

    def shutdown(self) -> None:
        super().shutdown()
        self._linger_timer = self.loop.call_later(LINGER, self._abort_when_flushed)

    def data_received(self, data: bytes) -> None:
        if self._reading_head:
            self._head_bytes += len(data)
            if self._head_bytes > self.max_head_bytes:
                self.transport.write(_HEAD_TOO_LARGE)
                self.transport.close()
                return
        super().data_received(data)
        if self._reading_head and self._head_timer is None and self.transport is not None:
            self._head_timer = self.loop.call_later(self.head_timeout, self.transport.abort)

    def on_message_begin(self) -> None:
        self._reading_head = True
        self._head_bytes = 0
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        self._reading_head = False
        if self._head_timer is not None:
            self._stop_head_timer()
        if b"#" in self.url:
            # RFC 9112, 3.2: a target has no fragment. uvicorn would cut it off where a proxy in front may not, and they would disagree.
            raise ValueError("the request target has a fragment")
        super().on_headers_complete()

    def _on_disconnect(self, callback: Callback) -> Callback:
        if self._callbacks is None:
            self.loop.call_soon(callback)
            return _nothing
        registration = object()
        self._callbacks[registration] = callback
        return partial(self._forget, registration)

    def _forget(self, registration: object) -> None:
        if self._callbacks is not None:
            self._callbacks.pop(registration, None)

    def _abort_when_flushed(self) -> None:
        if self.transport.is_closing() and not self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self._linger_timer = self.loop.call_later(LINGER, self._abort_when_flushed)

    def _stop_head_timer(self) -> None:
        if self._head_timer is not None:
            self._head_timer.cancel()
            self._head_timer = None


def connection_class(*, max_head_bytes: int, head_timeout: float) -> type[Connection]:
    """A `Connection` with these limits: bytes of request line and headers together, seconds until they are complete.

    The size is checked between reads, so up to one read (256 KiB) more may be buffered.
    """
    return type("LimitedConnection", (Connection,), {"max_head_bytes": max_head_bytes, "head_timeout": head_timeout})


def _nothing() -> None:
    """Taking back a registration of a connection that is gone."""
