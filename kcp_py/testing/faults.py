"""`Faults`: makes requests, watches and calls of the store fail or wait, so that a test sees how a controller recovers."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import partial
from random import Random
from typing import Any, Final, Literal, TypeVar, Unpack

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock, Timer
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.controlplane.datastore import GivenStorage, wrapped_by
from kcp_py.storage.contract import NoSpaceError, Storage, StorageError, UnavailableError, UnknownOutcomeError
from kcp_py.storage.wrapping import StorageMethod
from kcp_py.testing.faultpoints import RequestFaults, RunningWatches, StorageFaults, WriteFaults
from kcp_py.testing.faultrules import Fault, FaultSelection, Request, Selected, Where
from kcp_py.watchcache import WatchCutError, WatchEndedError

T = TypeVar("T")
WatchEnd = Literal["end", "reset", "expired"]
"""How a watch ends: in order, by a connection that breaks, or with the ERROR event 410."""

_STALE: Final = "the object has been modified; please apply your changes to the latest version and try again"
_TOO_OLD: Final = "The resourceVersion for the provided watch is too old."
_ENDS: Final[dict[str, Callable[[], Exception]]] = {
    "end": WatchEndedError,
    "reset": WatchCutError,
    "expired": lambda: errors.expired(_TOO_OLD),
}
_STORAGE_ERRORS: Final[dict[str, Callable[[], StorageError]]] = {
    "unavailable": lambda: UnavailableError("a fault of the test"),
    "full": lambda: NoSpaceError("a fault of the test"),
    "unknown": lambda: UnknownOutcomeError("a fault of the test"),
}


class Faults:
    """Rules, in the order in which they were added. Each method adds one and returns it, and takes the fields of `FaultSelection`.

    Writes fail before they are validated, over HTTP and in the process; reads and watches fail before they begin. All methods may be called
    from any thread.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK, *, seed: int = 0) -> None:
        """Begin without faults.

        Args:
            clock: counts delays.
            seed: of probabilities: the same seed and the same requests in order give the same faults.
        """
        self.watches = RunningWatches(self)
        self._clock = clock
        self._seed = seed
        self._made = 0
        self._rules: list[Fault] = []

    @property
    def parts(self) -> dict[str, Any]:
        """Arguments for `ControlPlane`, and for the `parts` of `control_plane`."""
        return {"admission": [WriteFaults(self)], "filters": [RequestFaults(self)], "storage": self.wrap}

    def added_to(self, parts: Mapping[str, Any], root: str = "/registry") -> dict[str, Any]:
        """`parts` together with others, whose store is wrapped.

        Args:
            parts: arguments for `ControlPlane`.
            root: as in `wrap`.
        """
        given: GivenStorage = parts.get("storage")
        lists = {name: [*own, *parts.get(name, ())] for name, own in self.parts.items() if name != "storage"}
        return {**parts, **lists, "storage": lambda chosen: self.wrap(wrapped_by(given, chosen), root)}

    def wrap(self, storage: Storage, root: str = "/registry") -> Storage:
        """A store whose calls meet the rules for stores.

        Args:
            storage: the store.
            root: the prefix of its keys, as in `Options.etcd_prefix`.
        """
        return StorageFaults(storage, self, root)

    @property
    def rules(self) -> Sequence[Fault]:
        """The rules. One that has not `happened` may select nothing."""
        return tuple(self._rules)

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def remove(self, fault: Fault) -> None:
        """Remove a rule, unless it has been removed."""
        with contextlib.suppress(ValueError):
            self._rules.remove(fault)

    # Requests

    def latency(self, seconds: float, **selection: Unpack[FaultSelection]) -> Fault:
        """Delay requests."""
        return self._keep("latency", "request", selection, seconds=_seconds(seconds))

    def conflict(self, **selection: Unpack[FaultSelection]) -> Fault:
        """409: the object has been modified. For writes."""
        return self._answer("conflict", lambda resource, name: errors.conflict(resource, name, _STALE), selection)

    def expired(self, **selection: Unpack[FaultSelection]) -> Fault:
        """410: the revision of a list or a watch is not kept any more."""
        return self._answer("expired", lambda *_: errors.expired(_TOO_OLD), selection)

    def too_many_requests(self, retry_after: int = 1, **selection: Unpack[FaultSelection]) -> Fault:
        """429 with the header `Retry-After`."""
        make = partial(errors.too_many_requests, "Too many requests, please try again later.", retry_after)
        return self._answer("too_many_requests", lambda *_: make(), selection)

    def internal_error(self, **selection: Unpack[FaultSelection]) -> Fault:
        """500."""
        return self._answer("internal_error", lambda *_: errors.internal("a fault of the test"), selection)

    def unavailable(self, retry_after: int = 1, **selection: Unpack[FaultSelection]) -> Fault:
        """503, as when the store cannot be reached."""
        text = "the store cannot be reached, please try again"
        return self._answer("unavailable", lambda *_: errors.service_unavailable(text, retry_after_seconds=retry_after), selection)

    def timeout(self, **selection: Unpack[FaultSelection]) -> Fault:
        """504, as when the store does not answer. Nothing was stored."""
        text = "the store did not answer, and the request may have been carried out"
        return self._answer("timeout", lambda *_: errors.timeout(text), selection)

    def add(self, make: Callable[[GroupResource, str], StatusError], **selection: Unpack[FaultSelection]) -> Fault:
        """Refuse requests with the error that a function of the resource and the name returns."""
        return self._answer("add", make, selection)

    def disconnect(self, *, afterwards: bool = False, **selection: Unpack[FaultSelection]) -> Fault:
        """Cut the connection of a request over HTTP in place of an answer. The names of new objects are not known.

        Args:
            afterwards: carry the request out first, so that the answer alone is lost.
            selection: see `FaultSelection`.
        """
        return self._keep("disconnect", "request", {"way": "http", **selection}, afterwards=afterwards)

    # Watches

    def cut_watches(self, how: WatchEnd = "end", **selection: Unpack[FaultSelection]) -> int:
        """End the watches that run now. Returns their number; `times` and `probability` do not count here."""
        reason = _ENDS[_known(how, _ENDS)]
        return self.watches.end(_selected(selection).matches, reason)

    def short_watches(self, seconds: float, how: WatchEnd = "end", **selection: Unpack[FaultSelection]) -> Fault:
        """End watches that begin from now on so many seconds after their beginning."""
        return self._keep("short_watches", "watch", selection, seconds=_seconds(seconds), way_of_end=_known(how, _ENDS))

    # The store

    def storage_error(
        self,
        error: Literal["unavailable", "full", "unknown"] | Callable[[], StorageError] = "unavailable",
        *,
        method: StorageMethod | Literal[""] = "transact",
        afterwards: bool = False,
        **selection: Unpack[FaultSelection],
    ) -> Fault:
        """Let calls of the store fail. They are selected by `cluster`, `resource`, `namespace` and `name`.

        Args:
            error: `unavailable` (503), `full` (507), `unknown` (504), or a function that makes an error of the contract.
            method: of the store; empty for all.
            afterwards: carry the call out first: the write is stored, and its answer is lost.
            selection: see `FaultSelection`.
        """
        make = error if callable(error) else _STORAGE_ERRORS[_known(error, _STORAGE_ERRORS)]
        return self._keep("storage_error", "storage", selection, storage_error=make, method=method, afterwards=afterwards)

    def storage_latency(self, seconds: float, *, method: StorageMethod | Literal[""] = "", **selection: Unpack[FaultSelection]) -> Fault:
        """Delay calls of the store."""
        return self._keep("storage_latency", "storage", selection, seconds=_seconds(seconds), method=method)

    # What the points of faults ask

    async def meet(self, request: Request) -> None:
        """Apply the rules to a request.

        Raises:
            StatusError: a rule refuses it.
        """
        for rule in tuple(self._rules):
            if rule.where != "request" or rule.kind == "disconnect" or not rule.takes(request):
                continue
            if rule.make is None:
                await self._clock.sleep(rule.seconds)
            else:
                raise rule.make(request.resource or GroupResource("", ""), request.name)

    def disconnects(self, request: Request, *, afterwards: bool) -> bool:
        """Whether the connection of a request is cut."""
        return any(rule.kind == "disconnect" and rule.afterwards is afterwards and rule.takes(request) for rule in tuple(self._rules))

    def shorten(self, request: Request, end: Callable[[Exception], None]) -> list[Timer]:
        """Timers that end a watch which begins."""
        return [
            self._clock.call_later(rule.seconds, partial(end, _ENDS[rule.way_of_end]()))
            for rule in tuple(self._rules)
            if rule.where == "watch" and rule.takes(request)
        ]

    @property
    def has_storage_rules(self) -> bool:
        """Whether any rule is for the store."""
        return any(rule.where == "storage" for rule in self._rules)

    async def around_storage(self, method: StorageMethod, places: Sequence[Request], proceed: Callable[[], Awaitable[T]]) -> T:
        """Apply the rules to a call of the store.

        Raises:
            StorageError: a rule lets it fail.
        """
        lost: list[Fault] = []
        for rule in tuple(self._rules):
            if rule.where != "storage" or rule.method not in {"", method}:
                continue
            place = next(filter(rule.selected.matches, places or (Request("", None),)), None)
            if place is None or not rule.takes(place):
                continue
            if rule.storage_error is None:
                await self._clock.sleep(rule.seconds)
            elif rule.afterwards:
                lost.append(rule)
            else:
                raise rule.storage_error()
        result = await proceed()
        for rule in lost:
            assert rule.storage_error is not None
            raise rule.storage_error()
        return result

    def _answer(self, kind: str, make: Callable[[GroupResource, str], StatusError], selection: FaultSelection) -> Fault:
        return self._keep(kind, "request", selection, make=make)

    def _keep(self, kind: str, where: Where, selection: FaultSelection, **details: Any) -> Fault:
        selected = _selected(selection)
        if where == "storage":
            selected.check_for_storage(details.get("method", ""))
        if where == "watch" and selected.verb not in {"", "watch"}:
            raise ValueError("a watch has the verb watch")
        self._made += 1
        rule = Fault(selected, kind=kind, where=where, random=Random(f"{self._seed}/{self._made}"), **details)
        self._rules.append(rule)
        return rule


class ClusterFaults(Faults):
    """Rules of one test among those of a server: they are for its logical cluster, unless they name another one."""

    def __init__(self, server: Faults, cluster: str) -> None:
        super().__init__()
        self.watches = server.watches
        self._server = server
        self._cluster = cluster

    def clear(self) -> None:
        """Remove all rules of this test."""
        while self._rules:
            self._server.remove(self._rules.pop())

    def remove(self, fault: Fault) -> None:
        """Remove a rule, unless it has been removed."""
        super().remove(fault)
        self._server.remove(fault)

    def cut_watches(self, how: WatchEnd = "end", **selection: Unpack[FaultSelection]) -> int:
        """`Faults.cut_watches`."""
        chosen: FaultSelection = {"cluster": self._cluster, **selection}
        return self._server.cut_watches(how, **chosen)

    def _keep(self, kind: str, where: Where, selection: FaultSelection, **details: Any) -> Fault:
        rule = self._server._keep(kind, where, {"cluster": self._cluster, **selection}, **details)  # noqa: SLF001 - its own class
        self._rules.append(rule)
        return rule


def _selected(selection: FaultSelection) -> Selected:
    known = {field.name for field in dataclasses.fields(Selected)}
    if unknown := sorted(selection.keys() - known):
        raise ValueError(f"a fault is not selected by {', '.join(unknown)}, but by {', '.join(sorted(known))}")
    return Selected(**selection)


def _known(name: str, table: dict[str, Any]) -> str:
    if name not in table:
        raise ValueError(f"{name!r} is not one of {', '.join(table)}")
    return name


def _seconds(seconds: float) -> float:
    if not 0 <= seconds < float("inf"):
        raise ValueError("seconds are finite and not negative")
    return float(seconds)
