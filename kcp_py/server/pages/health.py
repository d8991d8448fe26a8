"""`HealthChecks`: `/healthz`, `/livez` and `/readyz` with upstream's texts (k8s.io/apiserver `server/healthz`)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import Final, Literal, NamedTuple

import structlog

from kcp_py.apimachinery.errors import unknown_path
from kcp_py.golang.quoting import go_quote
from kcp_py.server.exchange import Exchange
from kcp_py.server.responsehead import TEXT

Check = Callable[[], Awaitable[None]]
"""Returns if all is well and raises if not; what it raises is logged and never shown."""
Endpoint = Literal["healthz", "livez", "readyz"]

ENDPOINTS: Final[tuple[Endpoint, ...]] = ("healthz", "livez", "readyz")
LONGEST_CHECK_SECONDS: Final = 2.0

_BY_PATH: Final[dict[str, Endpoint]] = {endpoint: endpoint for endpoint in ENDPOINTS}
_NO_SNIFFING: Final = ((b"x-content-type-options", b"nosniff"),)


class Report(NamedTuple):
    """What an endpoint answers, as plain text."""

    code: int
    text: str


async def _ping() -> None:
    """The loop runs, or this would not."""


class HealthChecks:
    """The checks of a server, in the order in which they were added; `ping` and `log` are there from the start."""

    def __init__(self) -> None:
        self._checks: dict[Endpoint, dict[str, Check]] = {endpoint: {"ping": _ping, "log": _ping} for endpoint in ENDPOINTS}
        self._informative: set[str] = set()
        self._log = structlog.get_logger("kcp_py.health")
        self._failing: set[str] = set()

    def add(self, name: str, check: Check, endpoints: Iterable[Endpoint] = ENDPOINTS, *, informative: bool = False) -> None:
        """Add or replace a check.

        Args:
            name: may have slashes, as `poststarthook/bootstrap` has.
            check: see `Check`.
            endpoints: where it is run.
            informative: its failure is told where it is asked for (`?verbose`, or by its name), and does not fail the endpoint.
        """
        for endpoint in endpoints:
            self._checks[endpoint][name] = check
        if informative:
            self._informative.add(name)

    def names(self, endpoint: Endpoint) -> list[str]:
        """The names that are checked."""
        return list(self._checks[endpoint])

    async def report(self, endpoint: Endpoint, *, verbose: bool = False, exclude: Iterable[str] = ()) -> Report:
        """Run every check of an endpoint; failures are always told in full, without their reasons."""
        unknown = dict.fromkeys(exclude)
        checks = self._checks[endpoint]
        run = [name for name in checks if name not in unknown]
        failures = dict(zip(run, await asyncio.gather(*(self._run(name, checks[name]) for name in run)), strict=True))
        lines: list[str] = []
        failed = False
        for name in checks:
            if name in unknown:
                del unknown[name]
                lines.append(f"[+]{name} excluded: ok\n")
            elif failures[name]:
                failed = failed or name not in self._informative
                lines.append(f"[-]{name} failed: reason withheld\n")
            else:
                lines.append(f"[+]{name} ok\n")
        if unknown:
            names = ",".join(map(go_quote, sorted(unknown)))
            lines.append(f"warn: some health checks cannot be excluded: no matches for {names}\n")
        if failed:
            return Report(500, f"{''.join(lines)}{endpoint} check failed\n")
        return Report(200, f"{''.join(lines)}{endpoint} check passed\n" if verbose else "ok")

    async def report_one(self, endpoint: Endpoint, name: str) -> Report | None:
        """Run one check; None if there is none of that name."""
        check = self._checks[endpoint].get(name)
        if check is None:
            return None
        if await self._run(name, check):
            return Report(500, "internal server error: reason withheld\n")
        return Report(200, "ok")

    async def respond(self, exchange: Exchange) -> bool:
        """Answer a request for one of the health pages.

        Returns:
            Whether it was one.

        Raises:
            StatusError: 404 for a check that there is not.
        """
        root, slash, name = exchange.path[1:].partition("/")
        endpoint = _BY_PATH.get(root)
        # Whatever the method: upstream's handlers do not look at it.
        if endpoint is None:
            return False
        if slash:
            report = await self.report_one(endpoint, name)
            if report is None:
                raise unknown_path()
        else:
            query = exchange.query
            report = await self.report(endpoint, verbose="verbose" in query, exclude=query.get("exclude", ()))
        await exchange.respond(report.code, report.text.encode(), TEXT, _NO_SNIFFING)
        return True

    async def _run(self, name: str, check: Check) -> bool:
        """Whether the check failed."""
        try:
            async with asyncio.timeout(LONGEST_CHECK_SECONDS):
                await check()
        except Exception as error:  # noqa: BLE001 - whatever a check raises is its failure
            # All callers may ask for health: only a change of state is logged.
            if name not in self._failing:
                self._failing.add(name)
                self._log.warning("health_check_failed", check=name, error=repr(error))
            return True
        if name in self._failing:
            self._failing.discard(name)
            self._log.info("health_check_recovered", check=name)
        return False
