"""A webhook that knows tokens."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.egress.https import http, issue
from tests.egress.webhook import Hook


def reviewed(status: dict[str, Any], version: str = "v1") -> bytes:
    """The bytes of a response with a review."""
    return http(200, orjson.dumps({"kind": "TokenReview", "apiVersion": f"authentication.k8s.io/{version}", "status": status}))


def known(name: str = "alice", *groups: str, version: str = "v1", audiences: list[str] | None = None, **user: Any) -> bytes:
    """The response for the token of a user."""
    status: dict[str, Any] = {"authenticated": True, "user": {"username": name, "groups": list(groups), **user}}
    return reviewed(status if audiences is None else {**status, "audiences": audiences}, version)


UNKNOWN = reviewed({"authenticated": False})


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    """A webhook that needs a client certificate."""
    client = issue(tmp_path, "kcp-py.test")
    found = Hook(tmp_path, issue(tmp_path, "127.0.0.1"), known(), client=client)
    async with found.server:
        yield found
