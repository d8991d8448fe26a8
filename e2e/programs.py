"""Programs that run while tests run, and that end in any case."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from tests.ports import reserve_port


@contextmanager
def running(command: Sequence[str], **settings: Any) -> Iterator[subprocess.Popen[str]]:
    """A process that is terminated at the end of the block, whether or not a test has failed in it."""
    with subprocess.Popen(command, text=True, **settings) as process:
        try:
            yield process
        finally:
            process.terminate()


@contextmanager
def serving(program: Path, directory: Path, *, scheme: str = "http", ready: str = "/readyz") -> Iterator[str]:
    """The URL of a server that a program runs, whose argument is the port. The block begins when the server is ready."""
    url = f"{scheme}://127.0.0.1:{reserve_port()}"
    with running([sys.executable, str(program), url.rpartition(":")[2]], cwd=directory):
        with httpx.Client(transport=httpx.HTTPTransport(retries=200, verify=False), timeout=60) as client:
            assert client.get(f"{url}{ready}").text == "ok"
        yield url
