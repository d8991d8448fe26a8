"""What every test may use."""

from __future__ import annotations

import pytest
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, not whether the property holds.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Every async test runs on asyncio, the only event loop that the server supports."""
    return "asyncio"
