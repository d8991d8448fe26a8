"""What every test may use."""

from __future__ import annotations

import gc
from typing import Any

import pytest
import structlog
from hypothesis import HealthCheck, settings

from tests import reports

# How long an example takes says how busy the machine is, not whether the property holds.
settings.register_profile("untimed", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("untimed")

# Servers for tests set up the logs of a process that has not done so, and later tests would miss lines below warnings.
# Tracebacks are plain: with `rich` in the environment, rendering one with its local variables takes longer than most tests.
structlog.configure(
    processors=[
        *structlog.get_config()["processors"][:-1],
        structlog.dev.ConsoleRenderer(colors=False, exception_formatter=structlog.dev.plain_traceback),
    ]
)


@pytest.fixture(scope="session")
def anyio_backend() -> str:
    """Every async test runs on asyncio, the only event loop that the server supports."""
    return "asyncio"


def pytest_itemcollected(item: pytest.Item) -> None:
    """Refuse names with addresses of objects: they differ between the processes that share the tests, and no test runs then.

    Tests that share a fixture of their module run in one process, so that a server of a module is started once.
    """
    if " at 0x" in item.nodeid:
        raise pytest.UsageError(f"{item.nodeid}: the name is another one in each process")
    if isinstance(item, pytest.Function) and item.get_closest_marker("xdist_group") is None and _shares(item):
        item.add_marker(pytest.mark.xdist_group(item.nodeid.partition("::")[0]))


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Workers begin with the slow tests, so that none of them runs one at the end while the others have nothing to do."""
    if hasattr(config, "workerinput"):
        items.sort(key=lambda item: item.get_closest_marker("slow") is None)


def _shares(test: pytest.Function) -> bool:
    found = test._fixtureinfo.name2fixturedefs.values()
    return any(definitions[-1].scope == "module" for definitions in found)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object | None:
    """Controllers of the processes share the tests in linear time."""
    if config.getvalue("dist") != "loadgroup":
        return None
    from tests.scheduling import LinearScheduling

    return LinearScheduling(config, log)


def pytest_report_to_serializable(report: pytest.CollectReport | pytest.TestReport) -> dict[str, Any] | None:
    """Workers send short reports of what passed."""
    return reports.to_serializable(report)


def pytest_report_from_serializable(data: dict[str, Any]) -> pytest.TestReport | None:
    """Controllers read them."""
    return reports.from_serializable(data)


def pytest_collection_finish(session: pytest.Session) -> None:
    """Modules and collected tests stay until the end: collections of garbage, some of which tests ask for, need not look at them.

    The others are as rare as in a server.
    """
    grouped = [item for item in session.items if item.get_closest_marker("xdist_group") is not None]
    if session.config.getoption("loadgroup", default=False) and not all("@" in item.nodeid for item in grouped):
        # pytest-xdist 3.8 renames them in a way that pytest 9.2 does not see.
        raise pytest.UsageError("tests of one group would run in several processes: pytest-xdist does not know this version of pytest")
    gc.freeze()
    gc.set_threshold(20_000, 5, 5)
