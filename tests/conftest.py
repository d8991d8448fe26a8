"""What every test may use."""

from __future__ import annotations

import pytest
import structlog
from hypothesis import HealthCheck, settings

# How long an example takes says how busy the machine is, not whether the property holds.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Servers for tests set up the logs of a process that has not done so, and later tests would miss lines below warnings.
structlog.configure()


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Every async test runs on asyncio, the only event loop that the server supports."""
    return "asyncio"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse names with addresses of objects: they differ between the processes that share the tests, and no test runs then."""
    if " at 0x" in item.nodeid:
        raise pytest.UsageError(f"{item.nodeid}: the name is another one in each process")
