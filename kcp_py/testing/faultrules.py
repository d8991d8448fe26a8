"""Rules of faults: which requests they select, how often they happen, and with which probability."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable
from random import Random
from typing import Any, Final, Literal, NamedTuple, TypedDict

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import InvalidClusterError, parse_name
from kcp_py.storage.contract import StorageError
from kcp_py.storage.wrapping import StorageMethod

VERBS: Final = frozenset(("get", "list", "watch", "create", "update", "patch", "delete", "deletecollection", "connect"))
Way = Literal["http", "process"]
"""How a request comes: over HTTP, or from code in the process of the server."""
Where = Literal["request", "watch", "storage"]
"""What a rule is for: requests, watches that run, calls of the store."""
_RESOURCE: Final = re.compile(r"[a-z0-9][a-z0-9-]*(\.[a-z0-9.-]+)?")
_UNKNOWN_TO_STORES: Final = ("verb", "user", "user_agent", "subresource", "way")
_WHOLE_STORE: Final = frozenset(("watch", "revision", "compact", "check"))
"""Methods of a store that the server calls for all clusters together."""
_PLACES: Final = ("cluster", "resource", "namespace", "name")


class FaultSelection(TypedDict, total=False):
    """Which requests a fault is for, and how often. A field that is left out selects all."""

    cluster: str
    """The logical cluster; `*` for requests over all clusters."""
    resource: str
    """Written `configmaps` or `deployments.apps`; with all of its subresources."""
    subresource: str
    """Such as `status`."""
    verb: str
    """`get`, `list`, `watch`, `create`, `update` (patches too), `patch`, `delete`, `deletecollection` or `connect`."""
    namespace: str
    name: str
    user: str
    user_agent: str
    """The beginning of the header `User-Agent`, such as `kubectl/`."""
    way: Way
    """`http`, or `process` for code in the process of the server, such as its controllers."""
    times: int | None
    """How many requests it is for; None for all."""
    skip: int
    """How many requests that it is for pass first."""
    probability: float
    """Of the fault, for each request; between 0 and 1. The seed of `Faults` decides."""


class Request(NamedTuple):
    """What a rule looks at. Empty fields are unknown."""

    cluster: str
    resource: GroupResource | None
    verbs: tuple[str, ...] = ()
    """Names of the verb: a patch is an update, too."""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    user_agent: str = ""
    way: Way = "process"


@dataclasses.dataclass(frozen=True)
class Selected:
    """A `FaultSelection` with its defaults, checked."""

    cluster: str = ""
    resource: str = ""
    subresource: str = ""
    verb: str = ""
    namespace: str = ""
    name: str = ""
    user: str = ""
    user_agent: str = ""
    way: str = ""
    times: int | None = None
    skip: int = 0
    probability: float = 1.0

    def __post_init__(self) -> None:
        """Refuse what selects nothing.

        Raises:
            ValueError: a value that no request has.
        """
        if self.times is not None and self.times < 1:
            raise ValueError("a fault happens at least once")
        if self.skip < 0:
            raise ValueError("skip is a number of requests")
        if not 0 < self.probability <= 1:
            raise ValueError("the probability is above 0 and at most 1")
        if self.cluster not in {"", "*"}:
            try:
                parse_name(self.cluster)
            except InvalidClusterError:
                raise ValueError(f"{self.cluster!r} is not the name of a logical cluster") from None
        if self.verb and self.verb not in VERBS:
            raise ValueError(f"there is no verb {self.verb!r}: {', '.join(sorted(VERBS))}")
        if self.resource and not _RESOURCE.fullmatch(self.resource):
            raise ValueError(f"{self.resource!r} is no resource, which are written as configmaps or deployments.apps")
        if self.way not in {"", "http", "process"}:
            raise ValueError("way is http or process")
        if self.user_agent and self.way == "process":
            raise ValueError("requests in the process have no user agent")

    def matches(self, request: Request) -> bool:
        """Whether a request is selected."""
        resource = request.resource
        names = () if resource is None else (str(resource), resource.resource)
        return (
            (not self.resource or self.resource in names)
            and (not self.verb or self.verb in request.verbs)
            and (not self.user_agent or request.user_agent.startswith(self.user_agent))
            and all(
                not wanted or wanted == given
                for wanted, given in (
                    (self.cluster, request.cluster),
                    (self.subresource, request.subresource),
                    (self.namespace, request.namespace),
                    (self.name, request.name),
                    (self.user, request.user),
                    (self.way, request.way),
                )
            )
        )

    def check_for_storage(self, method: str) -> None:
        """Refuse what no call of a store has.

        Raises:
            ValueError: the rule would never happen.
        """
        if unknown := [name for name in _UNKNOWN_TO_STORES if getattr(self, name)]:
            raise ValueError(f"the store does not know: {', '.join(unknown)}")
        if method in _WHOLE_STORE and any(getattr(self, name) for name in _PLACES):
            raise ValueError(f"the server calls {method} of the store for all clusters and resources together")


class Fault:
    """One rule. `remaining` is the number of requests that it will still change; None for all."""

    def __init__(
        self,
        selected: Selected,
        *,
        kind: str,
        where: Where,
        random: Random,
        make: Callable[[GroupResource, str], StatusError] | None = None,
        seconds: float = 0.0,
        way_of_end: str = "",
        method: StorageMethod | Literal[""] = "",
        storage_error: Callable[[], StorageError] | None = None,
        afterwards: bool = False,
    ) -> None:
        self.kind = kind
        self.where = where
        self.remaining = selected.times
        self.happened = 0
        self.selected = selected
        self.make = make
        self.seconds = seconds
        self.way_of_end = way_of_end
        self.method = method
        self.storage_error = storage_error
        self.afterwards = afterwards
        self._skip = selected.skip
        self._random = random

    def __repr__(self) -> str:
        chosen = {field.name: getattr(self.selected, field.name) for field in dataclasses.fields(Selected)}
        texts = [
            f"{name}={value!r}" for name, value in chosen.items() if value not in {"", None} and value != getattr(Selected, name, None)
        ]
        return f"Fault({self.kind}{''.join(f', {text}' for text in texts)}: happened {self.happened} times)"

    def stop(self) -> None:
        """Let requests pass from now on."""
        self.remaining = 0

    def takes(self, request: Request) -> bool:
        """Whether the fault happens to a request, which is counted then."""
        if self.remaining == 0 or not self.selected.matches(request):
            return False
        if self._skip:
            self._skip -= 1
            return False
        if self.selected.probability < 1 and self._random.random() >= self.selected.probability:
            return False
        if self.remaining is not None:
            self.remaining -= 1
        self.happened += 1
        return True


def described(fault: Fault) -> dict[str, Any]:
    """The fields of a rule as JSON has them."""
    selected = {field.name: getattr(fault.selected, field.name) for field in dataclasses.fields(Selected)}
    shown = {name: value for name, value in selected.items() if value != getattr(Selected, name)}
    return {"kind": fault.kind, **shown, "happened": fault.happened, **({} if fault.remaining is None else {"remaining": fault.remaining})}
