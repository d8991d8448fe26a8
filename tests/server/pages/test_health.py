from __future__ import annotations

import pytest
from structlog.testing import capture_logs

from kcp_py.server.pages.health import HealthChecks

pytestmark = pytest.mark.anyio


async def fine() -> None:
    """Nothing is wrong."""


async def broken() -> None:
    raise OSError("disk /var/lib/tenant-a is full")


@pytest.fixture
def checks():
    made = HealthChecks()
    made.add("etcd", fine)
    made.add("informer-sync", fine, ["readyz"])
    made.add("poststarthook/start-controllers", fine)
    return made


async def test_quiet(checks):
    """Who does not ask for more gets two letters."""
    assert await checks.report("healthz") == (200, "ok")


async def test_verbose(checks):
    """Every check is listed in its order, as upstream writes it."""
    assert await checks.report("readyz", verbose=True) == (
        200,
        "[+]ping ok\n[+]log ok\n[+]etcd ok\n[+]informer-sync ok\n[+]poststarthook/start-controllers ok\nreadyz check passed\n",
    )
    assert "informer-sync" not in (await checks.report("livez", verbose=True)).text


async def test_failure(checks):
    """A failure is always told in full, but its reason is in the log alone."""
    checks.add("etcd", broken)
    with capture_logs() as logs:
        report = await checks.report("livez")
    assert report.code == 500
    assert "[+]ping ok\n[+]log ok\n[-]etcd failed: reason withheld\n" in report.text
    assert report.text.endswith("livez check failed\n")
    assert "tenant-a" not in report.text
    assert [(log["check"], "tenant-a" in log["error"]) for log in logs] == [("etcd", True)]


async def test_only_changes_are_logged(checks):
    """Every caller may ask for health. A check is logged when it begins to fail and when it passes again."""
    states = iter((False, False, True, True, False))

    async def flapping() -> None:
        if not next(states):
            raise RuntimeError

    checks.add("etcd", flapping)
    with capture_logs() as logs:
        for _ in range(5):
            await checks.report("livez")
    assert [log["event"] for log in logs] == ["health_check_failed", "health_check_recovered", "health_check_failed"]


async def test_exclude(checks):
    """An excluded check is not run."""
    checks.add("etcd", broken)
    report = await checks.report("healthz", verbose=True, exclude=["etcd", "log"])
    assert report.code == 200
    assert "[+]log excluded: ok\n[+]etcd excluded: ok\n" in report.text


async def test_exclude_unknown(checks):
    """A name that cannot be excluded is told."""
    report = await checks.report("healthz", verbose=True, exclude=["nosuch", "b"])
    assert 'warn: some health checks cannot be excluded: no matches for "b","nosuch"\n' in report.text


async def test_one(checks):
    """One check can be asked for by its name."""
    assert await checks.report_one("readyz", "poststarthook/start-controllers") == (200, "ok")
    assert await checks.report_one("readyz", "nosuch") is None
    assert await checks.report_one("livez", "informer-sync") is None
    checks.add("etcd", broken)
    with capture_logs():
        report = await checks.report_one("readyz", "etcd")
    assert report == (500, "internal server error: reason withheld\n")


async def test_hanging_check(checks, monkeypatch):
    """A check that hangs has failed."""
    import asyncio

    async def hang() -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr("kcp_py.server.pages.health.LONGEST_CHECK_SECONDS", 0)
    checks.add("etcd", hang)
    with capture_logs():
        assert "[-]etcd failed" in (await checks.report("readyz")).text
