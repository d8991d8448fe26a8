"""Connections to the members: the choice of a member, credentials, and repetition of calls."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import grpc

from kcp_py.storage.contract import StorageError, UnavailableError, UnknownOutcomeError
from kcp_py.storage.etcd.failures import describe, details, is_passing, is_stale_token, translate
from kcp_py.storage.etcd.messages import AUTHENTICATE, STATUS, AuthenticateRequest, Method, StatusRequest
from kcp_py.storage.etcd.options import Endpoint, EtcdOptions

# Without a leader the member refuses calls that need one, instead of delaying them, so that another member is tried.
_NEEDS_LEADER: Final = ("hasleader", "true")
_POLL: Final = 0.005
_MOST_REPEATS: Final = 4
RECONNECTION: Final = (
    ("grpc.initial_reconnect_backoff_ms", 100),
    # The maximum interval between attempts (plus a fifth), so that a returning member is found within a second ...
    ("grpc.max_reconnect_backoff_ms", 500),
    # ... also after an attempt that does not succeed: despite its name this is the duration of an attempt with its handshakes
    # (gRPC's connection-backoff.md, MIN_CONNECT_TIMEOUT).
    ("grpc.min_reconnect_backoff_ms", 1000),
)
"""The channel arguments for reconnecting."""
_READY: Final = grpc.ChannelConnectivity.READY


class Connection:
    """One member."""

    def __init__(self, endpoint: Endpoint, options: EtcdOptions) -> None:
        arguments: list[tuple[str, Any]] = [
            ("grpc.max_receive_message_length", -1),
            ("grpc.max_send_message_length", -1),
            ("grpc.keepalive_time_ms", int(options.keepalive_time * 1000)),
            ("grpc.keepalive_timeout_ms", int(options.keepalive_timeout * 1000)),
            # A pending ping of gRPC's flow control delays that of the keepalive; without this option for a minute.
            ("grpc.http2.ping_timeout_ms", int(options.keepalive_timeout * 1000)),
            # Members close idle connections that send pings.
            ("grpc.keepalive_permit_without_calls", 0),
            ("grpc.http2.max_pings_without_data", 0),
            *RECONNECTION,
            ("grpc.enable_retries", 0),
            ("grpc.enable_http_proxy", 0),
            ("grpc.service_config_disable_resolution", 1),
            # Stores in one process must not share a connection, because a failure or the end of one would affect the other.
            ("grpc.use_local_subchannel_pool", 1),
        ]
        self.endpoint = endpoint
        if endpoint.secure:
            if options.server_name:
                arguments.append(("grpc.ssl_target_name_override", options.server_name))
            self._channel = grpc.aio.secure_channel(endpoint.target, _credentials(options), options=arguments)
        else:
            self._channel = grpc.aio.insecure_channel(endpoint.target, options=arguments)
        self._unary: dict[str, Any] = {}

    @property
    def ready(self) -> bool:
        """Whether a call would be sent at once."""
        return bool(self._channel.get_state() is _READY)

    def connect(self) -> bool:
        """Whether a call would be sent at once. Otherwise a connection is started."""
        return bool(self._channel.get_state(try_to_connect=True) is _READY)

    def unary(self, method: Method) -> Any:
        """The callable for a call with one request and one answer."""
        call = self._unary.get(method.path)
        if call is None:
            call = self._unary[method.path] = self._channel.unary_unary(
                method.path, request_serializer=method.serialize, response_deserializer=method.deserialize
            )
        return call

    def stream(self, method: Method) -> Any:
        """The callable for a call with two streams. Open it with `Connections.open_stream`."""
        return self._channel.stream_stream(method.path, request_serializer=method.serialize, response_deserializer=method.deserialize)

    async def settle(self) -> None:
        """Let gRPC deliver the remaining events of cancelled calls.

        A thread delivers them in order: after the event of a call that fails at once, none remains. Otherwise they would reach a closed
        event loop.
        """
        with suppress(grpc.aio.AioRpcError):
            await self.unary(STATUS)(StatusRequest(), timeout=0)

    async def close(self) -> None:
        await self._channel.close()


class Connections:
    """The connections to all members. One member is used until it fails, then another one that answers."""

    def __init__(self, options: EtcdOptions) -> None:
        self._options = options
        self._connections = [Connection(endpoint, options) for endpoint in options.parsed_endpoints()]
        self._current = self._connections[0]
        self._metadata: tuple[tuple[str, str], ...] = (_NEEDS_LEADER,)
        self._authenticated = not options.username
        self._authenticating = asyncio.Lock()
        self.closing = asyncio.Event()
        self._calls: set[Any] = set()
        self._search: asyncio.Task[Connection | None] | None = None
        self._searching = 0
        self.request_timeout = options.request_timeout

    async def call(self, method: Method, request: Any, *, repeatable: bool, connection: Connection | None = None) -> Any:
        """Make a call.

        Args:
            method: the method.
            request: the message.
            repeatable: whether it may be sent to another member if its outcome is unknown; for reads only.
            connection: the member; None for any.

        Raises:
            grpc.aio.AioRpcError: the request is invalid.
            UnknownOutcomeError: a call that is not repeatable was sent and not answered.
            UnavailableError: no member answers.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + self.request_timeout
        failures = 0
        renewed = False
        while True:
            chosen = connection or await self.ready()
            metadata = await self.metadata(chosen)
            try:
                return await self._send(chosen.unary(method), request, metadata)
            except grpc.aio.AioRpcError as error:
                if is_stale_token(details(error)) and self._options.username and not renewed:
                    renewed = True
                    self.forget_token(metadata)
                    continue
                if not is_passing(error):
                    raise
                self.avoid(chosen)
                failures += 1
                untried = failures < len(self._connections)
                if not repeatable or connection is not None or (not untried and (failures > _MOST_REPEATS or clock() > deadline)):
                    raise translate(error) if repeatable else UnknownOutcomeError(describe(error)) from error
            # A broken connection counts as ready for a short time.
            await self.pause(_POLL * failures, asyncio.sleep)

    async def ready(self) -> Connection:
        """A member to which calls are sent at once.

        Raises:
            UnavailableError: no member can be reached in time; nothing was sent.
        """
        if self._current.ready:
            return self._current
        if self._search is None or self._search.done():
            self._search = asyncio.create_task(self._find(), name="etcd-connect")
        search = self._search
        self._searching += 1
        try:
            await asyncio.wait({search}, timeout=self._options.connect_timeout)
        finally:
            self._searching -= 1
        found = search.result() if search.done() else None
        if self.closing.is_set():
            raise UnavailableError("the store is closing")
        if found is None:
            raise UnavailableError(f"no etcd member can be reached: {', '.join(self._options.endpoints)}")
        return found

    async def _find(self) -> Connection | None:
        """Search a member for all waiting calls, until no call waits. Thousands of watches may have lost their member together."""
        while self._searching and not self.closing.is_set():
            for connection in (self._current, *self._connections):
                if connection.connect():
                    self._current = connection
                    return connection
            # gRPC's wait for a change of state must not be cancelled, because it then frees memory that the core still uses.
            await asyncio.sleep(_POLL)
        return None

    def avoid(self, connection: Connection) -> None:
        """Record that a member failed, and start with the next one."""
        if connection is self._current and len(self._connections) > 1:
            index = self._connections.index(connection)
            following = self._connections[index + 1 :] + self._connections[:index]
            self._current = next((other for other in following if other.connect()), following[0])

    async def metadata(self, connection: Connection) -> tuple[tuple[str, str], ...]:
        """The metadata of a call.

        Raises:
            UnavailableError: the member does not return a token.
        """
        if not self._authenticated:
            async with self._authenticating:
                if not self._authenticated:
                    request = AuthenticateRequest(name=self._options.username, password=self._options.password)
                    try:
                        response = await self._send(connection.unary(AUTHENTICATE), request, (_NEEDS_LEADER,))
                    except grpc.aio.AioRpcError as error:
                        self.avoid(connection)
                        raise UnavailableError(f"etcd authentication: {details(error)}") from error
                    self._metadata = (_NEEDS_LEADER, ("token", response.token))
                    self._authenticated = True
        return self._metadata

    def forget_token(self, metadata: tuple[tuple[str, str], ...]) -> None:
        """Record that the token in `metadata` was refused, so that the next call uses a new one."""
        if metadata is self._metadata and self._options.username:
            self._authenticated = False

    async def _send(self, call: Any, request: Any, metadata: tuple[tuple[str, str], ...]) -> Any:
        if self.closing.is_set():
            raise UnavailableError("the store is closing")
        running = call(request, timeout=self.request_timeout, metadata=metadata)
        self._calls.add(running)
        try:
            return await running
        except asyncio.CancelledError:
            self.raise_if_closing()
            raise
        finally:
            self._calls.discard(running)

    def open_stream(
        self, method: Method, connection: Connection, metadata: tuple[tuple[str, str], ...], *, timeout: float | None = None
    ) -> Any:
        """Open a call with two streams. End it with `end_stream`.

        Raises:
            UnavailableError: the store is closing.
        """
        if self.closing.is_set():
            raise UnavailableError("the store is closing")
        call = connection.stream(method)(metadata=metadata, timeout=timeout)
        self._calls.add(call)
        return call

    def end_stream(self, call: Any) -> None:
        """Cancel a call that was opened with `open_stream`."""
        self._calls.discard(call)
        call.cancel()

    def raise_if_closing(self) -> None:
        """Distinguish a call that ended because the channel was closed from one whose task was cancelled.

        Raises:
            UnavailableError: the channel was closed.
        """
        task = asyncio.current_task()
        if self.closing.is_set() and not (task and task.cancelling()):
            raise UnavailableError("the store is closing") from None

    async def pause(self, seconds: float, sleep: Any) -> None:
        """Sleep until the end of the time or of the store.

        Raises:
            UnavailableError: the store is closing.
        """
        waits = {asyncio.ensure_future(sleep(seconds)), asyncio.ensure_future(self.closing.wait())}
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for wait in waits:
                wait.cancel()
                with suppress(asyncio.CancelledError):
                    await wait
        if self.closing.is_set():
            raise UnavailableError("the store is closing")

    async def close(self) -> None:
        """End all calls and connections. It may be called more than once."""
        if self.closing.is_set():
            return
        self.closing.set()
        for call in list(self._calls):
            call.cancel()
        if self._search is not None:
            await asyncio.wait({self._search})
        for connection in self._connections:
            await connection.settle()
            await connection.close()


def _credentials(options: EtcdOptions) -> Any:
    def read(path: str) -> bytes | None:
        if not path:
            return None
        try:
            return Path(path).read_bytes()
        except OSError as error:
            raise StorageError(f"cannot read {path}: {error.strerror}") from error

    return grpc.ssl_channel_credentials(
        root_certificates=read(options.ca_file), private_key=read(options.key_file), certificate_chain=read(options.cert_file)
    )
