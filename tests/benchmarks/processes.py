"""Server processes under measurement, pinned to one core, with the figures of the kernel about them."""

from __future__ import annotations

import os
import re
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from tests.benchmarks.load import Target

CORES = sorted(os.sched_getaffinity(0))
SERVER_CORE = CORES[0]
LOAD_CORE = CORES[-1]


class Process:
    """A running server."""

    def __init__(self, process: subprocess.Popen[str], target: Target, seconds_to_ready: float) -> None:
        self.process = process
        self.target = target
        self.seconds_to_ready = seconds_to_ready

    @property
    def resident(self) -> int:
        """Bytes of resident memory."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        match = re.search(r"VmRSS:\s+(\d+) kB", status)
        assert match is not None
        return int(match[1]) * 1024

    @property
    def cpu_seconds(self) -> float:
        """User and system time so far."""
        # The clock of another process (clock_getcpuclockid(3)) counts nanoseconds, and `/proc` steps of 10 ms.
        return time.clock_gettime((~self.process.pid << 3) | 2)


def compiled(directory: Path) -> dict[str, str]:
    """The environment of a program that runs with compiled modules, as one that is installed."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**environment, "PYTHONPYCACHEPREFIX": str(directory / "bytecode")}


def _pin() -> None:
    os.sched_setaffinity(0, {SERVER_CORE})


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def listening(
    command: list[str], log: Path, environment: Mapping[str, str] | None = None
) -> Iterator[tuple[subprocess.Popen[str], int, float]]:
    """A command of `kcp-py` that serves: the process, its port, and the seconds until it was ready."""
    start = time.perf_counter()
    with log.open("a") as errors:
        process = subprocess.Popen(
            [sys.executable, "-m", "kcp_py", *command],
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            preexec_fn=_pin,
            env={**compiled(log.parent), "KCP_PY_LOG_LEVEL": "warning", **(environment or {})},
        )
    try:
        port = 0
        assert process.stdout is not None
        for line in process.stdout:
            if match := re.search(r"https?://[^ ]*:(\d+)", line):
                port = int(match[1])
            if "Ctrl-C" in line:
                break
        else:
            raise RuntimeError(log.read_text()[-2000:])
        yield process, port, time.perf_counter() - start
    finally:
        process.terminate()
        process.wait(60)


@contextmanager
def kcp(root: Path, *arguments: str, plain: bool = True) -> Iterator[Process]:
    """A kcp-py server. On an existing root directory it serves the stored objects."""
    command = ["start", "--root-directory", str(root), "--secure-port", "0", *arguments]
    environment = {"KCP_PY_PLAIN_HTTP": "true"} if plain else {}
    with listening(command, root.parent / f"{root.name}.log", environment) as (process, port, seconds):
        token = (root / "admin-tokens.csv").read_text().partition(",")[0]
        tls = None if plain else trusting(root / "pki")
        yield Process(process, Target(port, tls=tls, token=token), seconds)


def trusting(pki: Path, certificate: Path | None = None) -> ssl.SSLContext:
    """TLS to a server with the authority in a folder, with a client certificate (PEM, with its key) where one is given."""
    context = ssl.create_default_context(cafile=str(pki / "ca.crt"))
    context.check_hostname = False
    if certificate is not None:
        context.load_cert_chain(certificate)
    return context


@contextmanager
def bare(directory: Path, pki: Path | None = None) -> Iterator[Process]:
    """The bare server, on TLS with the certificate of `pki` where that is given."""
    port = free_port()
    command = [sys.executable, "-m", "tests.benchmarks.bare", "--port", str(port), "--database", str(directory / "bare.db")]
    tls = None
    if pki is not None:
        command += ["--cert", str(pki / "apiserver.crt"), "--key", str(pki / "apiserver.key")]
        tls = trusting(pki)
    process = subprocess.Popen(command, preexec_fn=_pin, text=True)
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)
    try:
        yield Process(process, Target(port, tls=tls), 0)
    finally:
        process.kill()
        process.wait(10)
