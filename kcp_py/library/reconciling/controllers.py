"""`Controllers`: a set of reconcile functions, for a control plane or a process of their own."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, TypeVar, Unpack

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client.contract import Client
from kcp_py.client.informer import Informers
from kcp_py.client.models import is_model
from kcp_py.controllers.runtime.controller import ControllerContext, ControllerFactory
from kcp_py.library.reconciling.arguments import Arguments
from kcp_py.library.reconciling.function import FunctionController, Kind, ReconcileFunction, ReconcileOptions
from kcp_py.logicalcluster import WILDCARD, ClusterSelection

F = TypeVar("F", bound=Callable[..., Any])


class Controllers(Sequence[ControllerFactory]):
    """Reconcile functions. It is a sequence of what `ControlPlane(controllers=...)` takes; `run_controllers` runs it alone.

    ::

        controllers = Controllers()


        @controllers.reconcile(Ship, owns=[CONFIG_MAPS])
        async def log_book(ship: Ship, client: ClusterClient) -> None:
            await client.apply(owned_by(ship, {...}))
    """

    def __init__(self) -> None:
        """Begin without functions."""
        self._functions: list[ReconcileFunction] = []
        self._informers: tuple[Client, Informers] | None = None

    def reconcile(self, kind: Kind, **options: Unpack[ReconcileOptions]) -> Callable[[F], F]:
        """Have a function called for each object of a kind, whenever it or something that belongs to it may have changed.

        The function is a coroutine function, or a plain one, which runs in a thread. Its parameters get, by name or type: the object,
        `client` (a `ClusterClient` of the object's cluster; in a thread its methods block), `cluster`, `namespace`, `name`, `key`,
        `recorder` (events), `log`. It returns None when all is done, or the time after which to look again: seconds, a `timedelta`
        or `Later`. When it raises, it is called again, ever more slowly: after 20 ms first, 30 s at the most.

        Args:
            kind: a class that describes a resource, or a `GroupVersionResource`.
            options: see `ReconcileOptions`.

        Raises:
            TypeError: the kind is not one; a parameter of the function cannot be filled.
            ValueError: the name is taken.
        """
        if not (isinstance(kind, GroupVersionResource) or is_model(kind)):
            raise TypeError(f"{kind!r} is neither a GroupVersionResource nor a class that describes a resource")

        def register(function: F) -> F:
            title = options.get("name") or getattr(function, "__name__", "").strip("_").replace("_", "-")
            if any(one.name == title for one in self._functions):
                raise ValueError(f"two controllers are named {title}")
            given: Any = {**options, "name": title}
            definition = ReconcileFunction(function, kind, **given)
            Arguments(function)
            if definition.finalize is not None:
                Arguments(definition.finalize)
                if not definition.finalizer:
                    raise ValueError(f"{title}: finalize= needs finalizer=")
            self._functions.append(definition)
            return function

        return register

    def make(self, client: Client, cluster: ClusterSelection = WILDCARD) -> list[FunctionController]:
        """The controllers, over one client, whose informers they share.

        Args:
            client: of all clusters.
            cluster: whose objects, or all.
        """
        informers = Informers(client)
        return [FunctionController(one, client, informers, cluster=cluster) for one in self._functions]

    def __len__(self) -> int:
        """How many functions there are."""
        return len(self._functions)

    def __iter__(self) -> Iterator[ControllerFactory]:
        """Factories for `ControlPlane(controllers=...)`."""
        return (partial(self._made, one) for one in self._functions)

    def __getitem__(self, index: Any) -> Any:
        """One of them."""
        return list(self)[index]

    def _made(self, definition: ReconcileFunction, context: ControllerContext) -> FunctionController:
        if self._informers is None or self._informers[0] is not context.client:
            self._informers = context.client, Informers(context.client)
        return FunctionController(definition, context.client, self._informers[1], cluster=WILDCARD)
