"""The processes of a server, as its log and the kernel show them."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from e2e.conftest import ServerProcess
from e2e.informer import TIMEOUT, Session

PROCESSES = ("owner", "worker-1", "worker-2")
MOST_CONNECTIONS = 200


def events(server: ServerProcess, name: str) -> list[dict[str, object]]:
    """The lines of the log about an event."""
    lines = [json.loads(line) for line in server.log_file.read_text().splitlines() if line.startswith("{")]
    return [line for line in lines if line["event"] == name]


def pids(server: ServerProcess) -> dict[str, int]:
    """The latest process of each name."""
    return {str(line["process"]): int(str(line["child_pid"])) for line in events(server, "process_started")}


def is_running(pid: int) -> bool:
    """Whether a process exists and has not ended."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def until(condition: Callable[[], bool]) -> None:
    """Wait for a condition of other processes."""
    deadline = time.monotonic() + TIMEOUT
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


def served_by(server: ServerProcess, session: Session) -> str:
    """The name of the process at the other end of the connection of a session."""
    assert session.request("GET", "/version")[0] == 200
    assert session._connection is not None
    port = session._connection.sock.getsockname()[1]
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        fields = line.split()
        if int(fields[1].partition(":")[2], 16) == server.port and int(fields[2].partition(":")[2], 16) == port:
            for name, pid in pids(server).items():
                if f"socket:[{fields[9]}]" in _open_files(pid):
                    return name
    raise AssertionError("no process has the connection")


def _open_files(pid: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            found.add(str(descriptor.readlink()))
        except FileNotFoundError:
            continue
    return found


def one_of_each(server: ServerProcess, stack: ExitStack) -> dict[str, Session]:
    """A session with each process."""
    found: dict[str, Session] = {}
    for _ in range(MOST_CONNECTIONS):
        session = stack.enter_context(Session(server))
        found.setdefault(served_by(server, session), session)
        if len(found) == len(PROCESSES):
            return found
    raise AssertionError(f"{MOST_CONNECTIONS} connections have reached {sorted(found)} alone")
