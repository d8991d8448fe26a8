"""A webhook that decides about requests."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import orjson
import pytest

from tests.egress.https import http, issue
from tests.egress.webhook import Hook


def reviewed(*, allowed: bool = False, denied: bool = False, reason: str = "", version: str = "v1") -> bytes:
    """The bytes of a response with a review."""
    status = {"allowed": allowed, "denied": denied, "reason": reason}
    return http(200, orjson.dumps({"kind": "SubjectAccessReview", "apiVersion": f"authorization.k8s.io/{version}", "status": status}))


ALLOW = reviewed(allowed=True, reason="by the hook")
DENY = reviewed(denied=True, reason="not by the hook")
NO_OPINION = reviewed(reason="never heard of it")


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    """A webhook that needs a client certificate."""
    client = issue(tmp_path, "kcp-py.test")
    found = Hook(tmp_path, issue(tmp_path, "127.0.0.1"), ALLOW, client=client)
    async with found.server:
        yield found
