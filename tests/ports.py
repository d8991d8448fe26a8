"""Ports of servers that tests start, stop and start again."""

from __future__ import annotations

import atexit
import contextlib
import random
import socket
from pathlib import Path

_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_LOWEST = 10_000
_reservations: list[socket.socket] = []


def reserve_port() -> int:
    """A TCP port of 127.0.0.1 for a server in another process, which no other test gets while this process runs.

    A port that the system has chosen may be given to another socket as soon as it is closed, such as to a connection of another test.
    Therefore this one is outside the range from which the system chooses. A UDP socket on it reserves it among the test processes.
    """
    first_of_system = int(_RANGE.read_text().split()[0]) if _RANGE.exists() else 32_768
    chance = random.SystemRandom()
    for _ in range(10_000):
        port = chance.randrange(_LOWEST, first_of_system)
        reservation = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        with contextlib.suppress(OSError), socket.socket() as listener:
            reservation.bind(("127.0.0.1", port))
            listener.bind(("127.0.0.1", port))
            _reservations.append(reservation)
            return port
        reservation.close()
    raise AssertionError("no free port")


@atexit.register
def _close() -> None:
    for reservation in _reservations:
        reservation.close()
