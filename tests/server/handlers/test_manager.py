"""The field manager of a request: the one that it names, else its client."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kcp_py.apimachinery.meta.options import CreateOptions
from kcp_py.server.handlers.manager import manager_of


@pytest.mark.parametrize(
    ("agent", "given", "name"),
    [
        (b"kubectl/v1.30 (linux)", "", "kubectl"),
        (b"kubectl/v1.30 (linux)", "bench", "bench"),
        (b"", "", "unknown"),
        (None, "", "unknown"),
        (b"/x", "", "unknown"),
        (b"a" * 1000, "", "a" * 128),
        (b"caf\xe9/1", "", "caf\xe9"),
        (b"a\tb/1", "", "ab"),
    ],
)
def test_names(agent: bytes | None, given: str, name: str) -> None:
    """The name is the same for each request of a client, at the time of the request."""
    headers: dict[bytes, bytes] = {} if agent is None else {b"user-agent": agent}
    exchange: Any = SimpleNamespace(headers=headers)
    for time in ("1", "2"):
        backend: Any = SimpleNamespace(access=SimpleNamespace(now=lambda time=time: time))
        manager = manager_of(backend, exchange, CreateOptions(field_manager=given))
        assert (manager.name, manager.time) == (name, time)
