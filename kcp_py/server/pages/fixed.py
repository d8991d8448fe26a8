"""`FixedPages`: every path that does not belong to a resource. The filters are in front of it as well.

Health checks are answered here, because they are frequent and begin with the start. All other paths belong to a FastAPI application. It is
made when it is first needed: importing the framework takes longer than all the rest of a start.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from starlette.types import ASGIApp, Receive, Scope, Send

from kcp_py.server.exchange import Exchange
from kcp_py.server.pages.health import HealthChecks
from kcp_py.server.pages.paths import Paths, no_paths
from kcp_py.telemetry.registry import Registry

if TYPE_CHECKING:
    from fastapi import FastAPI


class Page(Protocol):
    """Answers some paths."""

    async def respond(self, exchange: Exchange) -> bool:
        """Answer a request, if it is for a path of the page. Returns whether it is."""
        ...


class OwnRoute(Protocol):
    """A function of a program that answers a path."""

    @property
    def path(self) -> str: ...
    @property
    def function(self) -> Callable[..., Any]: ...
    @property
    def methods(self) -> Sequence[str]: ...
    @property
    def settings(self) -> Mapping[str, Any]:
        """Of FastAPI's `add_api_route`."""
        ...


class OwnMount(Protocol):
    """An ASGI application of a program that answers all paths below one."""

    @property
    def path(self) -> str: ...
    @property
    def application(self) -> ASGIApp: ...


class FixedPages:
    """An ASGI application for the innermost place of the chain; `scope["state"]["exchange"]` has the request's exchange."""

    def __init__(
        self,
        checks: HealthChecks,
        registry: Registry,
        paths: Paths,
        *,
        pages: Sequence[Page],
        docs: bool,
        settings: dict[str, Any],
        routes: Sequence[OwnRoute] = (),
        mounts: Sequence[OwnMount] = (),
    ) -> None:
        self._checks = checks
        self._pages = pages
        self._registry = registry
        self._paths = paths
        self._docs = docs
        self._routes = routes
        # The most particular one answers.
        self._mounts = sorted(mounts, key=lambda mount: -len(mount.path))
        self._settings = settings
        self._application: FastAPI | None = None
        self._building = asyncio.Lock()

    @property
    def application(self) -> FastAPI:
        """The FastAPI application, made now if it was not before: for adding routes while a program starts.

        All routes stand behind authentication and authorization, for which paths that it does
        not know need a permission in `root`.
        `request.state.exchange` has the request's context.
        """
        if self._application is None:
            self._application = self._build()
        return self._application

    async def warm(self) -> None:
        """Make the application in another thread, so that the first request does not wait for it. For after the start."""
        async with self._building:
            if self._application is None:
                self._application = await asyncio.to_thread(self._build)

    def _build(self) -> FastAPI:
        from kcp_py.server.pages.application import create_application  # noqa: PLC0415 - the framework is slow to import

        made = create_application(checks=self._checks, registry=self._registry, paths=self._paths, docs=self._docs, **self._settings)
        for route in self._routes:
            made.add_api_route(route.path, route.function, methods=[*route.methods], **route.settings)
        return made

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            if self._application is None and "lifespan" not in self._settings:
                await _pass_lifespan(receive, send)
            else:
                await self.application(scope, receive, send)
            return
        exchange: Exchange = scope["state"]["exchange"]
        if await self._checks.respond(exchange):
            return
        for page in self._pages:
            if await page.respond(exchange):
                return
        for mount in self._mounts:
            if scope["path"] == mount.path or scope["path"].startswith(f"{mount.path}/"):
                await mount.application({**scope, "root_path": mount.path}, receive, send)
                return
        if self._application is None:
            await self.warm()
        await self.application(scope, receive, send)


def create_fixed_pages(
    *,
    checks: HealthChecks,
    registry: Registry,
    paths: Paths = no_paths,
    pages: Sequence[Page] = (),
    docs: bool = False,
    routes: Sequence[OwnRoute] = (),
    mounts: Sequence[OwnMount] = (),
    **settings: Any,
) -> FixedPages:
    """Make the pages.

    Args:
        checks: of the health pages.
        registry: the metrics of `/metrics`, in addition to memory and processor time of the process.
        paths: more entries for the index at `/`.
        pages: answer paths without the web framework, like the health checks.
        docs: whether FastAPI's own documentation of added routes is served, below `/docs`.
        routes: functions of a program that answer paths.
        mounts: applications of a program that answer all paths below one.
        settings: of `FastAPI`, such as `lifespan`.
    """
    return FixedPages(checks, registry, paths, pages=pages, docs=docs, settings=settings, routes=routes, mounts=mounts)


async def _pass_lifespan(receive: Receive, send: Send) -> None:
    """A lifespan without anything to start or stop."""
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
