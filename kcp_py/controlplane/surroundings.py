"""`Surroundings`: what a program serves around the API, by decorators: routes, applications, middleware."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from kcp_py.authz.authorizer import Authorizer
from kcp_py.logicalcluster import ROOT, parse_name
from kcp_py.options import Options

if TYPE_CHECKING:
    from kcp_py.library.middleware import Middleware
    from kcp_py.library.routes import Access, Decide, Mount, Route
    from kcp_py.server.chain import ASGIApp

    R = TypeVar("R", bound=Callable[..., Any])


class Surroundings:
    """Collects routes, applications and middleware until the control plane is entered."""

    def __init__(self) -> None:
        self._routes: list[Route] = []
        self._mounts: list[Mount] = []
        self._middleware: list[Middleware] = []
        self._entered = False

    @property
    def is_entered(self) -> bool:
        """Whether the context has been entered."""
        return self._entered

    def _own_paths(self, authorize: Decide, options: Options) -> Sequence[Authorizer]:
        """The authorizer for the paths of the program, which asks all authorizers about some of them; none without such paths."""
        if not self._routes and not self._mounts:
            return ()
        from kcp_py.library.routes import OwnPaths  # noqa: PLC0415 - most programs have none

        only = options.default_cluster if options.single_cluster else ""
        return (OwnPaths(self._routes, self._mounts, authorize, home=parse_name(only) if only else ROOT),)

    def _check_open(self) -> None:
        """Each decorator calls it first.

        Raises:
            RuntimeError: the control plane has been entered.
        """
        if self._entered:
            raise RuntimeError("the control plane is running: add resources, hooks and controllers before it is entered")

    def route(self, path: str, *, methods: Sequence[str], access: Access = "permitted", **settings: Any) -> Callable[[R], R]:
        """Have a function answer a path outside of the API, as a path operation of FastAPI.

        Its parameters and its result are those of FastAPI. `request.state.exchange` of a `Request` is the `Exchange`, with the user and the
        logical cluster. The path is there with and without a logical cluster in front of it.

        Args:
            path: such as `/fleet/{name}`.
            methods: such as `GET`.
            access: `permitted`: users with a permission for the path (`nonResourceURLs` of RBAC, or an authorizer) in `root`, whatever
                logical cluster is in front of it; `cluster`: users with one in the logical cluster of the request, such as its
                administrators; `authenticated`: every user; `everyone`: anonymous callers, too, where the server accepts them.
            settings: further arguments of FastAPI's `add_api_route`, such as `response_model`.

        Raises:
            RuntimeError: the control plane has been entered.
            ValueError: the path is not one, or hides paths of the server; FastAPI does not take the function.
        """
        self._check_open()
        from kcp_py.library.routes import Route, check_path  # noqa: PLC0415

        check_path(path, access)

        def add(function: R) -> R:
            # All pages are one application: a function that it does not take would take them with it at the first request.
            from kcp_py.server.pages.application import check_route  # noqa: PLC0415 - the framework is slow to import

            made = Route(path, function, tuple(method.upper() for method in methods), settings, access)
            check_route(path, function, made.methods, settings)
            self._routes.append(made)
            return function

        return add

    def get(self, path: str, *, access: Access = "permitted", **settings: Any) -> Callable[[R], R]:
        """`route` for GET."""
        return self.route(path, methods=["GET"], access=access, **settings)

    def post(self, path: str, *, access: Access = "permitted", **settings: Any) -> Callable[[R], R]:
        """`route` for POST."""
        return self.route(path, methods=["POST"], access=access, **settings)

    def mount(self, path: str, application: ASGIApp, *, access: Access = "permitted") -> None:
        """Have an ASGI application answer a path and all paths below it, over HTTP.

        It is called behind authentication and authorization; `scope["state"]["exchange"]` is the `Exchange`. Its lifespan is not run.

        Args:
            path: such as `/fleet`; `scope["root_path"]` has it.
            application: of any framework.
            access: see `route`.

        Raises:
            RuntimeError: the control plane has been entered.
            ValueError: the path is not one, or hides paths of the server or of another application.
        """
        self._check_open()
        from kcp_py.library.routes import Mount, check_path  # noqa: PLC0415

        check_path(path, access)
        if "{" in path:
            raise ValueError(f'"{path}" has parameters, which paths of applications do not have')
        if path in {mount.path for mount in self._mounts}:
            raise ValueError(f'"{path}" has an application already')
        self._mounts.append(Mount(path, application, access))

    def add_middleware(self, middleware: Callable[..., ASGIApp], **settings: Any) -> None:
        """Wrap the whole server in ASGI middleware. It sees requests before authentication; the last one that is added is the outermost.

        Args:
            middleware: a class or a function that takes the application and `settings`, and returns an application.
            settings: for `middleware`.

        Raises:
            RuntimeError: the control plane has been entered.
        """
        self._check_open()
        self._middleware.append(partial(middleware, **settings))
