"""Watches that lose no events.

A watch is one stream to one member. After the end of a stream, the next one starts directly after the last *delivered* event, and not after
the revision in the header of an answer, which is the revision of the store.

A watch is complete up to a revision under these conditions:

* Members from 3.4.31, 3.5.13 and 3.6.0 on answer a progress request (`progress`) in order with the events.
* Older members may answer while events wait in another queue (`maintenance.Status.ordered_progress`). With these members a watch covers
  all keys, and events outside of the prefix are dropped here. As every revision has an event of some key, the events themselves show the
  progress. This requires permission to read all keys, and every watch receives all events, so it suits only small installations.

A restored or emptied store assigns revisions a second time. A watch that resumes after its last delivered event would wait for this
revision and miss all writes before it. Therefore it ends as a watch whose history was compacted, and its reader starts again.

etcd refuses a watch that starts before the compact revision. It accepts a watch that starts at the compact revision, although deletes of
that revision may be lost (etcd's issue 19179), and silently omits compacted previous values. Therefore a watch that reads the past checks
that the preceding revision is not compacted, and an event without its previous value counts as compacted.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from typing import Any, Final

import grpc
import structlog

from kcp_py.storage.contract import CompactedError, Event, KeyValue, UnavailableError, WatchBatch
from kcp_py.storage.etcd.channel import Connection, Connections
from kcp_py.storage.etcd.failures import details, is_stale_token
from kcp_py.storage.etcd.kv import KeyValues, key_range, key_value
from kcp_py.storage.etcd.maintenance import status
from kcp_py.storage.etcd.messages import DELETE, WATCH, WatchCreateRequest, WatchProgressRequest, WatchRequest
from kcp_py.storage.etcd.progress import ProgressRequester

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.storage")
_SHORTEST_PAUSE: Final = 0.05
_LONGEST_PAUSE: Final = 0.5
"""Short, because a watch must resume within a second of etcd's return. Without a reachable member no requests are sent."""
_FIRST_REVISION: Final = 2
"""The revision of the first write; the empty store is at revision 1."""


class Interrupted(Exception):  # noqa: N818  # internal to this module
    """The stream ended; the watch continues with another one."""


class Stream:
    """One watch on one member, from creation to the first fault."""

    def __init__(self, connections: Connections, connection: Connection, metadata: tuple[tuple[str, str], ...], call: Any) -> None:
        self._connections = connections
        self.connection = connection
        self.metadata = metadata
        self._call = call
        self.wanted = 0
        self.delivered = 0
        self.unanswered = 0

    async def send(self, request: Any) -> None:
        """Send a request.

        Raises:
            Interrupted: the stream has ended.
        """
        try:
            await self._call.write(request)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            raise Interrupted(str(error)) from error
        except asyncio.CancelledError:
            self._connections.raise_if_closing()
            raise

    async def read(self) -> Any:
        """The next response.

        Raises:
            Interrupted: the stream has ended.
            UnavailableError: the store is closing.
        """
        try:
            response = await self._call.read()
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError) as error:
            raise Interrupted(details(error) if isinstance(error, grpc.aio.AioRpcError) else str(error)) from error
        except asyncio.CancelledError:
            self._connections.raise_if_closing()
            raise
        if response is grpc.aio.EOF:
            raise Interrupted("the member ended the stream")
        self.unanswered = 0
        return response

    async def request_progress(self) -> None:
        self.unanswered += 1
        try:
            await self.send(WatchRequest(progress_request=WatchProgressRequest()))
        except (Interrupted, UnavailableError):
            return

    def close(self) -> None:
        self._connections.end_stream(self._call)


class Watches:
    """etcd's Watch service with the contract's types."""

    def __init__(
        self,
        connections: Connections,
        key_values: KeyValues,
        requester: ProgressRequester,
        *,
        sleep: Callable[[float], Awaitable[None]],
    ) -> None:
        self._connections = connections
        self._key_values = key_values
        self._requester = requester
        self._sleep = sleep
        self._warned = False

    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        following = max(start_revision, _FIRST_REVISION)
        announced = 0
        told = False
        failures = newest = 0
        clock = asyncio.get_running_loop().time
        interrupted: float | None = None
        while True:
            stream = None
            try:
                stream, everything = await self._open(prefix, following)
                joint = _Joint(prefix if everything else "")
                catching_up = True
                while True:
                    response = await stream.read()
                    revision = response.header.revision
                    if response.canceled:
                        await self._raise_cancelled(stream, response, following)
                    if response.created:
                        if revision < newest:
                            await self._require_reached(newest, following)
                        stream.wanted = revision
                        if not everything:
                            self._requester.add(stream)
                        events: Sequence[Event] = ()
                        if following > revision:
                            reached = revision  # no event lies in between: the watch is complete from the start
                        else:
                            reached = 0
                            await self._require_kept(following)
                    elif response.events:
                        if catching_up or response.events[-1].kv.mod_revision < revision:
                            await self._require_kept(following)
                        events, reached = await self._decode(joint, response, following)
                    else:
                        if catching_up and following <= revision:
                            await self._require_kept(following)
                        events, reached = (), (0 if everything else revision)
                    failures = 0
                    newest = max(newest, revision)
                    if interrupted is not None:
                        _log.info("etcd_watch_resumed", prefix=prefix, revision=following - 1, seconds=round(clock() - interrupted, 3))
                        interrupted = None
                    catching_up = catching_up and reached < stream.wanted
                    following = max(following, reached + 1)
                    stream.delivered = max(stream.delivered, reached)
                    if events or (reached > announced and not catching_up):
                        announced = max(announced, reached)
                        yield WatchBatch(events, reached)
                        told = told or not events
                    if not told and not catching_up:
                        # The reader needs a batch without events to know that it has received all earlier events.
                        told = True
                        yield WatchBatch((), announced)
            except (Interrupted, UnavailableError) as error:
                if interrupted is None and not self._connections.closing.is_set():
                    interrupted = clock()
                    _log.warning("etcd_watch_interrupted", prefix=prefix, revision=following - 1, error=str(error))
                if stream is not None and isinstance(error, Interrupted):
                    self._connections.avoid(stream.connection)
            finally:
                if stream is not None:
                    self._requester.remove(stream)
                    stream.close()
            await self._connections.pause(_pause(failures), self._sleep)
            failures += 1

    async def _open(self, prefix: str, following: int) -> tuple[Stream, bool]:
        connection = await self._connections.ready()
        everything = not (await status(self._connections, connection)).ordered_progress
        if everything and not self._warned:
            self._warned = True
            _log.warning("etcd_outdated")
        metadata = await self._connections.metadata(connection)
        stream = Stream(self._connections, connection, metadata, self._connections.open_stream(WATCH, connection, metadata))
        key, end = key_range("" if everything else prefix)
        try:
            await stream.send(
                WatchRequest(
                    create_request=WatchCreateRequest(
                        key=key, range_end=end, start_revision=following, prev_kv=True, fragment=True, progress_notify=not everything
                    )
                )
            )
        except BaseException:
            stream.close()
            raise
        return stream, everything

    async def _raise_cancelled(self, stream: Stream, response: Any, following: int) -> None:
        if response.compact_revision:
            raise CompactedError(following, response.compact_revision)
        reason = response.cancel_reason
        if is_stale_token(reason) or "permission denied" in reason:
            # An expired token causes the same error as missing permissions. A new token shows the difference.
            self._connections.forget_token(stream.metadata)
        raise Interrupted(reason or "the member cancelled the watch")

    async def _require_kept(self, following: int) -> None:
        try:
            await self._key_values.require_kept(following - 1)
        except CompactedError as error:
            raise CompactedError(following, error.compact_revision) from None

    async def _require_reached(self, newest: int, following: int) -> None:
        """Check that the store has not gone back to an earlier revision. A single member may be behind the others."""
        current = await self._key_values.revision()
        if current < newest:
            _log.error("etcd_went_back", revision=current, seen=newest)
            raise CompactedError(following, current)

    async def _decode(self, joint: _Joint, response: Any, following: int) -> tuple[list[Event], int]:
        try:
            return joint.take(response, following)
        except _PreviousLostError as lost:
            try:
                await self._key_values.require_kept(lost.revision - 1)
            except CompactedError as error:
                raise CompactedError(following, error.compact_revision) from None
            raise Interrupted("an event came without its previous value") from None


class _PreviousLostError(Exception):
    def __init__(self, revision: int) -> None:
        super().__init__(revision)
        self.revision = revision


class _Joint:
    """Joins the parts of a revision that the member split. The events of a revision are passed on together."""

    def __init__(self, prefix: str) -> None:
        """`prefix` selects the events to keep; empty for all."""
        self._prefix = prefix.encode()
        self._held: list[Event] = []
        self._held_revision = 0

    def take(self, response: Any, following: int) -> tuple[list[Event], int]:
        """The events of the revisions that this response completes, and the last of these revisions (0: none)."""
        last = response.events[-1].kv.mod_revision
        prefix = self._prefix
        events = [
            _event(message)
            for message in response.events
            # A member that is behind may repeat delivered events.
            if message.kv.mod_revision >= following and message.kv.key.startswith(prefix)
        ]
        if self._held:
            events = self._held + events
            self._held = []
        if not response.fragment:
            return events, last
        self._held = [event for event in events if event.mod_revision == last]
        if self._held:
            del events[-len(self._held) :]
        before = max(self._held_revision, events[-1].mod_revision if events else 0)
        self._held_revision = last
        return events, before if before < last else 0


def _event(message: Any) -> Event:
    kv = message.kv
    previous: KeyValue | None = key_value(message.prev_kv) if message.HasField("prev_kv") else None
    if message.type == DELETE:
        if previous is None:
            raise _PreviousLostError(kv.mod_revision)
        return Event(kv.key.decode(), None, kv.mod_revision, previous.create_revision, previous)
    if previous is None and kv.create_revision != kv.mod_revision:
        raise _PreviousLostError(kv.mod_revision)
    return Event(kv.key.decode(), kv.value, kv.mod_revision, kv.create_revision, previous)


def _pause(failures: int) -> float:
    """Seconds before the next attempt: exponential with full jitter, so that many watches do not resume at the same time."""
    return random.uniform(0.2, 1.0) * min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2.0 ** min(failures, 10))
