"""`Faults`: makes requests fail or wait, so that a test sees how a controller recovers."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, ClassVar, Final

from kcp_py.aio.clock import SYSTEM_CLOCK, Clock
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.admission import AdmissionPlugin, Attributes
from kcp_py.server.exchange import Exchange, Handler

_VERBS: Final = {"CREATE": "create", "UPDATE": "update", "DELETE": "delete", "CONNECT": "connect"}
_READS: Final = frozenset(("get", "list", "watch"))


class Fault:
    """One rule. `remaining` is the number of requests that it will still change; None for all."""

    def __init__(
        self, *, cluster: str, resource: str, verb: str, user: str, name: str, times: int | None, make: Callable[..., StatusError] | float
    ) -> None:
        if times is not None and times < 1:
            raise ValueError("a fault happens at least once")
        self._wanted = (cluster, resource, verb, user, name)
        self._make = make
        self.remaining = times
        self.happened = 0

    def stop(self) -> None:
        """Let requests pass from now on."""
        self.remaining = 0

    async def meet(self, clock: Clock, *, cluster: str, resource: GroupResource, verb: str, user: str, name: str) -> None:
        """Delay or refuse a request, if the rule is for it."""
        given = (cluster, (str(resource), resource.resource), verb, user, name)
        for wanted, value in zip(self._wanted, given, strict=True):
            if wanted and wanted not in (value if isinstance(value, tuple) else (value,)):
                return
        if self.remaining is not None:
            if not self.remaining:
                return
            self.remaining -= 1
        self.happened += 1
        if not callable(self._make):
            await clock.sleep(self._make)
            return
        raise self._make(resource, name)


class Faults:
    """Rules, in the order in which they were added. Each method adds one and returns it.

    All methods take `cluster`, `resource` (`configmaps`, `deployments.apps`), `verb` (`get`, `list`, `watch`, `create`, `update`,
    `delete`; a patch is an `update`), `user`, `name`, and `times`: each selects requests, and an empty one means all. Writes fail over HTTP
    and in the process, before they are validated. Reads fail over HTTP.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        """Begin without faults. `clock` counts delays."""
        self._clock = clock
        self._rules: list[Fault] = []

    @property
    def parts(self) -> dict[str, Any]:
        """Arguments for `ControlPlane`, and for the `parts` of `control_plane`."""
        return {"admission": [_Writes(self)], "filters": [self._filter]}

    def clear(self) -> None:
        """Remove all rules."""
        self._rules.clear()

    def remove(self, fault: Fault) -> None:
        """Remove a rule, unless it has been removed."""
        with contextlib.suppress(ValueError):
            self._rules.remove(fault)

    def latency(self, seconds: float, **selection: Any) -> Fault:
        """Delay requests."""
        return self.add(float(seconds), **selection)

    def conflict(self, **selection: Any) -> Fault:
        """409: the object has been modified. For writes."""
        text = "the object has been modified; please apply your changes to the latest version and try again"
        return self.add(lambda resource, name: errors.conflict(resource, name, text), **selection)

    def expired(self, **selection: Any) -> Fault:
        """410: the revision of a list or a watch is not kept any more."""
        return self.add(lambda *_: errors.expired("The resourceVersion for the provided watch is too old."), **selection)

    def too_many_requests(self, retry_after: int = 1, **selection: Any) -> Fault:
        """429 with the header `Retry-After`."""
        return self.add(lambda *_: errors.too_many_requests("Too many requests, please try again later.", retry_after), **selection)

    def internal_error(self, **selection: Any) -> Fault:
        """500."""
        return self.add(lambda *_: errors.internal("a fault of the test"), **selection)

    def unavailable(self, retry_after: int = 1, **selection: Any) -> Fault:
        """503, as when the store cannot be reached."""
        text = "the store cannot be reached, please try again"
        return self.add(lambda *_: errors.service_unavailable(text, retry_after_seconds=retry_after), **selection)

    def timeout(self, **selection: Any) -> Fault:
        """504, as when the store does not answer. Nothing was stored."""
        return self.add(lambda *_: errors.timeout("the store did not answer, and the request may have been carried out"), **selection)

    async def meet(self, *, cluster: str, resource: GroupResource, verb: str, user: str, name: str) -> None:
        """Apply the rules to a request.

        Raises:
            StatusError: a rule refuses it.
        """
        for rule in tuple(self._rules):
            await rule.meet(self._clock, cluster=cluster, resource=resource, verb=verb, user=user, name=name)

    def add(
        self,
        make: Callable[..., StatusError] | float,
        *,
        cluster: str = "",
        resource: str = "",
        verb: str = "",
        user: str = "",
        name: str = "",
        times: int | None = None,
    ) -> Fault:
        """Refuse requests with the error that a function of the resource and the name returns, or delay them by seconds."""
        rule = Fault(cluster=cluster, resource=resource, verb=verb, user=user, name=name, times=times, make=make)
        self._rules.append(rule)
        return rule

    def _filter(self, handler: Handler) -> Handler:
        async def call(exchange: Exchange) -> None:
            context = exchange.context
            info = context.info
            if self._rules and info.is_resource and info.verb in _READS:
                resource = GroupResource(info.group, info.resource)
                await self.meet(cluster=str(context.cluster), resource=resource, verb=info.verb, user=context.user.name, name=info.name)
            await handler(exchange)

        return call


class ClusterFaults(Faults):
    """Rules of one test among those of a server: they are for its logical cluster, unless they name another one."""

    def __init__(self, server: Faults, cluster: str) -> None:
        super().__init__()
        self._server = server
        self._cluster = cluster

    def clear(self) -> None:
        """Remove all rules of this test."""
        while self._rules:
            self._server.remove(self._rules.pop())

    def add(self, make: Callable[..., StatusError] | float, **selection: Any) -> Fault:
        """`Faults.add`."""
        rule = self._server.add(make, **{"cluster": self._cluster, **selection})
        self._rules.append(rule)
        return rule


class _Writes(AdmissionPlugin):
    name: ClassVar[str] = "TestFaults"

    def __init__(self, faults: Faults) -> None:
        self._faults = faults

    async def mutate(self, attributes: Attributes) -> None:
        verb = _VERBS.get(attributes.operation, "")
        resource = attributes.resource.group_resource
        await self._faults.meet(cluster=attributes.cluster, resource=resource, verb=verb, user=attributes.user.name, name=attributes.name)
