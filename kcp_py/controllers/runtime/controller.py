"""What a controller is: its name, the resources whose changes it follows, and what it does about one object."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import EVERYTHING, Client, ObjectChange, ObjectFilter, Tap
from kcp_py.controllers.runtime.queue import Key, WorkQueue


class Later(NamedTuple):
    """All is done for now; the object has to be looked at again after a time."""

    seconds: float


class Reconciler(Protocol):
    """Makes one thing true, for one object at a time, from whatever state it finds."""

    name: str
    """As in the option that switches controllers off: lower case, without a dash at its beginning."""
    per_cluster: int
    """How many objects of one cluster it may work on at the same time."""

    async def reconcile(self, key: Key) -> int | Later:
        """Bring the object to its desired state. Called again from the beginning whenever it fails, with growing delays.

        Returns:
            How many objects of the cluster have to go before there is more to do; 0 where all is done; `Later` where time has to pass.

        Raises:
            StatusError: something failed; a conflict means that the object changed meanwhile.
        """
        ...


def own_key(change: ObjectChange) -> Iterable[Key]:
    """The key of the changed object itself."""
    yield Key(change.cluster, change.namespace, change.name)


class ControllerSource(NamedTuple):
    """A resource whose changes in all clusters a controller follows."""

    resource: GroupVersionResource
    keys: Callable[[ObjectChange], Iterable[Key]] = own_key
    """What has to be looked at after a change."""
    wanted: ObjectFilter = EVERYTHING
    """Which of the objects that exist when the controller starts may need work."""
    delay: float = 0.0
    """Seconds between a change and the look at its keys. A key that is added meanwhile waits anew, unless they are gathered."""
    gathered: bool = False
    """Whether a key that waits already keeps its time: however many changes come, the look follows the first of them."""


class Controller(Reconciler, Protocol):
    """A reconciler that is called for changes of some resources."""

    @property
    def sources(self) -> Sequence[ControllerSource]:
        """The resources that it follows."""
        ...


@runtime_checkable
class FollowsItself(Protocol):
    """A controller that fills its queue itself."""

    async def follow(self, queue: WorkQueue) -> None:
        """Fill the queue until cancelled."""
        ...


@dataclass(frozen=True, slots=True)
class ControllerContext:
    """What a controller is made from."""

    client: Client
    """The API of all logical clusters, for the controllers' own user."""
    tap: Tap
    """The store behind it."""
    clock: Clock = SYSTEM_CLOCK
    """Of the server. `Later` and retries count by it."""


ControllerFactory = Callable[[ControllerContext], Controller]
"""Makes a controller, each time that this process begins to run controllers."""
