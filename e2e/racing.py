"""Writers that race for the last units of a quota or a limit, and writers whose server is killed."""

from __future__ import annotations

import signal
import threading
from collections import Counter
from collections.abc import Sequence

from e2e.conftest import ServerProcess
from e2e.informer import CONNECTION_ERRORS, Session, configmap

WRITERS = 64
_WRITERS_OF_A_KILLED_SERVER = 8


def stored(server: ServerProcess, namespace: str) -> int:
    """How many config maps a namespace has, which is given by its path."""
    return len(server.request("GET", f"{namespace}/configmaps").json["items"])


def create_with(servers: Sequence[ServerProcess], namespace: str, prefix: str) -> Counter[int]:
    """Let as many writers as there are create an object each at the same time, spread over the servers; count the answers by code."""
    begin = threading.Barrier(WRITERS)
    codes: list[int] = []

    def run(number: int) -> None:
        with Session(servers[number % len(servers)]) as session:
            session.request("GET", f"{namespace}/configmaps/none")
            begin.wait(60)
            codes.append(session.request("POST", f"{namespace}/configmaps", configmap(f"{prefix}-{number}", {}))[0])

    threads = [threading.Thread(target=run, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(120)
    return Counter(codes)


def kill_under_load(server: ServerProcess, namespace: str) -> None:
    """Create and delete config maps from several connections, kill the server amid a hundred of them, and start it again."""
    progress = threading.Semaphore(0)

    def run(worker: int) -> None:
        number = 0
        with Session(server) as session:
            while True:
                number += 1
                path = f"{namespace}/configmaps"
                try:
                    session.request("POST", path, configmap(f"w-{worker}-{number % 5}", {}))
                    session.request("DELETE", f"{path}/w-{worker}-{number * 3 % 5}")
                except CONNECTION_ERRORS:
                    return
                progress.release()

    threads = [threading.Thread(target=run, args=(worker,), daemon=True) for worker in range(_WRITERS_OF_A_KILLED_SERVER)]
    for thread in threads:
        thread.start()
    for _ in range(100):
        assert progress.acquire(timeout=60)
    assert server.stop(signal.SIGKILL) == -signal.SIGKILL
    for thread in threads:
        thread.join(60)
    server.start()
