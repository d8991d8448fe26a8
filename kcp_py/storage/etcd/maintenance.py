"""The state of a member."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

import grpc

from kcp_py.storage.etcd.channel import Connection, Connections
from kcp_py.storage.etcd.failures import translate
from kcp_py.storage.etcd.messages import STATUS, StatusRequest

_VERSION: Final = re.compile(r"(\d{1,6})\.(\d{1,6})\.(\d{1,6})")


class Status(NamedTuple):
    """The state of one member."""

    version: tuple[int, int, int]
    """`(0, 0, 0)` if it cannot be parsed."""
    revision: int
    member: int
    """The member's id."""
    leader: int
    """The member id of the leader; 0 without a leader."""
    size: int
    """Bytes of the database file."""
    size_in_use: int
    """Bytes of it that contain data."""
    errors: tuple[str, ...]
    """Such as `memberID:… alarm:NOSPACE`."""

    @property
    def ordered_progress(self) -> bool:
        """Whether a requested progress notification arrives after the events that it covers.

        Older members answer at once, before events that wait in another queue, and some versions leave requests unanswered (etcd's issues
        15220 and 17507; upstream Kubernetes requires the same versions before it uses progress requests).
        """
        major, minor, patch = self.version
        return (major, minor) >= (3, 6) or ((major, minor) == (3, 5) and patch >= 13) or ((major, minor) == (3, 4) and patch >= 31)


async def status(connections: Connections, connection: Connection | None = None) -> Status:
    """Request the state of a member (None: any).

    Raises:
        UnavailableError: the member does not answer.
    """
    try:
        response = await connections.call(STATUS, StatusRequest(), repeatable=True, connection=connection)
    except grpc.aio.AioRpcError as error:
        raise translate(error) from error
    match = _VERSION.match(response.version)
    version = (int(match[1]), int(match[2]), int(match[3])) if match else (0, 0, 0)
    return Status(
        version,
        response.header.revision,
        response.header.member_id,
        response.leader,
        response.db_size,
        response.db_size_in_use,
        tuple(response.errors),
    )
