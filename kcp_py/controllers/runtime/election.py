"""`LeaderElection`: of all processes that could run the controllers of one store, one does.

Source: k8s.io/client-go `tools/leaderelection` (`leaderelection.go`, `resourcelock/leaselock.go`), with its times: the lease lasts 15
seconds, the leader renews it every 2 seconds and gives up after 10, and a candidate looks every 2 seconds. A candidate does not compare
clocks of machines: it counts the 15 seconds from when it saw the record change.
"""

from __future__ import annotations

import asyncio
import math
import random
import socket
import uuid
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Final, NamedTuple

import structlog

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.apimachinery.meta.timestamps import format_micro_time
from kcp_py.client import Client
from kcp_py.client.keys import Key
from kcp_py.logicalcluster import Name

LEASES: Final = GroupVersionResource("coordination.k8s.io", "v1", "leases")
CLUSTER: Final = Name("system:admin")
NAMESPACE: Final = "kube-system"
NAME: Final = "kcp-py-controllers"
LEASE: Final = Key(CLUSTER, NAMESPACE, NAME)

LEASE_SECONDS: Final = 15.0
RENEW_DEADLINE_SECONDS: Final = 10.0
RETRY_SECONDS: Final = 2.0
_JITTER: Final = 1.2
"""Candidates wait up to so many times as long again as the retry period, so that they do not all look at once."""

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.controllers")


def own_identity() -> str:
    """The name of this process among the candidates: the host name, and an id that no other process has."""
    return f"{socket.gethostname()}_{uuid.uuid4()}"


class Record(NamedTuple):
    """The election, as the spec of a Lease holds it."""

    holder: str
    """Empty where the last leader has stepped down."""
    duration: float
    """Seconds."""
    acquired: str
    renewed: str
    transitions: int

    @classmethod
    def of(cls, lease: Mapping[str, Any]) -> Record:
        """Read a Lease."""
        spec = lease.get("spec") or {}
        return cls(
            spec.get("holderIdentity") or "",
            float(spec.get("leaseDurationSeconds") or 0),
            spec.get("acquireTime") or "",
            spec.get("renewTime") or "",
            spec.get("leaseTransitions") or 0,
        )

    def spec(self) -> dict[str, Any]:
        """The spec of a Lease."""
        return {
            "holderIdentity": self.holder,
            "leaseDurationSeconds": int(self.duration),
            "acquireTime": self.acquired,
            "renewTime": self.renewed,
            "leaseTransitions": self.transitions,
        }


def next_record(current: Record | None, identity: str, now: str) -> Record:
    """The record with which a process becomes or stays the leader (client-go: `tryAcquireOrRenew`).

    Args:
        current: the record that stands; None where there is none.
        identity: of the process.
        now: RFC 3339 with microseconds.
    """
    if current is None:
        return Record(identity, LEASE_SECONDS, now, now, 0)
    if current.holder == identity:
        return Record(identity, LEASE_SECONDS, current.acquired, now, current.transitions)
    return Record(identity, LEASE_SECONDS, now, now, current.transitions + 1)


class LeaderElection:
    """One candidate. It competes for the lease, runs what only the leader may run, and competes again when it has lost."""

    def __init__(self, client: Client, *, identity: str = "", lease: Key = LEASE, clock: Clock = SYSTEM_CLOCK) -> None:
        """Prepare.

        Args:
            client: of the cluster that holds the Lease.
            identity: of this process; empty for `own_identity`.
            lease: the logical cluster, the namespace and the name of the Lease.
            clock: when the lease ends.
        """
        self._client = client
        self._place = lease
        self.identity = identity or own_identity()
        self._clock = clock
        self._lease: dict[str, Any] | None = None
        self._observed: Record | None = None
        self._observed_at = 0.0
        self._answered_at: float | None = None
        self.leads = False
        """Whether this process leads."""

    @property
    def silence(self) -> float:
        """Seconds since the Lease was last read or written; infinite before that."""
        return math.inf if self._answered_at is None else self._clock.monotonic() - self._answered_at

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Compete until cancelled; then step down, so that the next leader need not wait.

        Args:
            lead: runs while this process leads. It is cancelled when the lease is lost.

        Raises:
            Exception: what `lead` raises. The process has stepped down by then.
        """
        while True:
            await self._acquire()
            _log.info("leader_elected", identity=self.identity)
            self.leads = True
            leading = asyncio.ensure_future(lead())
            renewing = asyncio.ensure_future(self._keep())
            try:
                await asyncio.wait((leading, renewing), return_when=asyncio.FIRST_COMPLETED)
                if leading.done():
                    leading.result()
                _log.warning("leader_lost", identity=self.identity)
            finally:
                # The work ends before the lease does: no other process begins while this one is at work.
                await _cancelled(leading)
                await _cancelled(renewing)
                self.leads = False
                await self._release()

    async def _acquire(self) -> None:
        while not await self._try():
            await self._clock.sleep(RETRY_SECONDS * (1 + random.random() * _JITTER))

    async def _keep(self) -> None:
        """Renew until that has failed for `RENEW_DEADLINE_SECONDS`."""
        renewed = self._clock.monotonic()
        while self._clock.monotonic() - renewed < RENEW_DEADLINE_SECONDS:
            await self._clock.sleep(RETRY_SECONDS)
            left = RENEW_DEADLINE_SECONDS - (self._clock.monotonic() - renewed)
            try:
                async with asyncio.timeout(max(left, 0)):
                    if await self._try():
                        renewed = self._clock.monotonic()
                    elif self._observed is not None and self._observed.holder != self.identity:
                        return
            except TimeoutError:
                return

    async def _try(self) -> bool:
        """Acquire or renew the lease; whether this process holds it then."""
        try:
            lease = await self._find()
            self._answered_at = self._clock.monotonic()
            record = None if lease is None else Record.of(lease)
            if record is not None and record != self._observed:
                self._observed, self._observed_at = record, self._clock.monotonic()
            if record is not None and record.holder not in {"", self.identity} and not self._is_expired(record):
                return False
            wanted = next_record(record, self.identity, format_micro_time(self._clock.time()))
            self._lease = await self._write(lease, wanted)
        except StatusError as error:
            if error.reason not in {"Conflict", "AlreadyExists"}:
                _log.warning("leader_election_failed", identity=self.identity, error=error.message)
            return False
        self._observed, self._observed_at = wanted, self._clock.monotonic()
        return True

    def _is_expired(self, record: Record) -> bool:
        return self._clock.monotonic() - self._observed_at >= record.duration

    async def _find(self) -> dict[str, Any] | None:
        try:
            return await self._client.get(self._place.cluster, LEASES, self._place.namespace, self._place.name)
        except StatusError as error:
            if error.code != 404:
                raise
            return None

    async def _write(self, lease: Mapping[str, Any] | None, record: Record) -> dict[str, Any]:
        """Store a record over the one that was read: the optimistic lock refuses the second of two candidates."""
        if lease is None:
            metadata = {"name": self._place.name, "namespace": self._place.namespace}
            return await self._client.create(self._place.cluster, LEASES, {"metadata": metadata, "spec": record.spec()})
        return await self._client.update(self._place.cluster, LEASES, {**lease, "spec": {**(lease.get("spec") or {}), **record.spec()}})

    async def _release(self) -> None:
        """Step down, if this process still holds the lease."""
        record, lease = self._observed, self._lease
        if record is None or lease is None or record.holder != self.identity:
            return
        now = format_micro_time(self._clock.time())
        released = Record("", 1.0, now, now, record.transitions)
        self._lease = None
        try:
            async with asyncio.timeout(RETRY_SECONDS):
                await self._write(lease, released)
        except (StatusError, TimeoutError):
            return  # the lease ends by itself
        self._observed = None


async def _cancelled(task: asyncio.Future[None]) -> None:
    """Cancel a task and wait for its end. Its failure was read by then, or does not count any more."""
    task.cancel()
    await asyncio.wait((task,))
    if not task.cancelled():
        task.exception()
