"""What every test may use."""

from __future__ import annotations

import pytest


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Every async test runs on asyncio, the only event loop that the server supports."""
    return "asyncio"
