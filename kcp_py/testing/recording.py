"""`record`: what a controller did, as a text that is equal in each run, for snapshot tests."""

from __future__ import annotations

import contextlib
import difflib
import inspect
import re
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, Protocol, cast

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client.contract import Client
from kcp_py.controllers.runtime.controller import Controller, ControllerContext
from kcp_py.testing.requests import Request, RequestLog

READS: Final = frozenset(("get", "list", "watch"))
NOISE: Final = ("events", "events.events.k8s.io", "leases.coordination.k8s.io")
"""Resources that are left out unless the caller says otherwise: how often they are written depends on time."""
_DROPPED: Final = frozenset(("uid", "resourceVersion", "creationTimestamp", "generation", "managedFields", "selfLink", "deletionTimestamp"))
"""Fields of `metadata` that the server decides."""
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|[+-]\d\d:\d\d)")
_MADE: Final = re.compile(r"-[0-9a-f]{6}-\d+$")
"""How names of clusters end that a server for tests has made. Others may be words that texts have for other reasons."""
_UID: Final = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")


class SnapshotMismatchError(AssertionError):
    """A recording differs from its file. The text is the difference."""


class HasRequests(Protocol):
    """What can be recorded: `LocalServer` and `Server`."""

    @property
    def requests(self) -> RequestLog:
        """The log of its requests."""
        ...


class Recording:
    """The requests of one controller.

    Attributes:
        requests: as they came.
        file: what `check` compares with, unless it is given one.
        update: whether `check` writes the file instead.
    """

    def __init__(
        self,
        *,
        user: str = "",
        user_agent: str = "",
        clusters: Collection[str] = (),
        reads: bool = False,
        exclude: Collection[str] = NOISE,
    ) -> None:
        """Choose requests; see `record`."""
        self._user = user
        self._user_agent = re.compile(user_agent)
        self._clusters = frozenset(clusters)
        self._reads = reads
        self._exclude = frozenset(exclude)
        self.file: Path | None = None
        self.update = False
        self.requests: list[Request] = []

    def add(self, request: Request) -> None:
        """Take a request, if it is one of those to record."""
        if (
            (not self._user or request.user == self._user)
            and self._user_agent.search(request.user_agent)
            and (not self._clusters or request.cluster in self._clusters)
            and (self._reads or request.verb not in READS)
            and request.resource not in self._exclude
        ):
            self.requests.append(request)

    def client(self, client: Client, *, user_agent: str = "in-process", user: str = "") -> Client:
        """A client of the process whose requests are recorded.

        Args:
            client: such as `server.client`.
            user_agent: as which its requests are recorded.
            user: as whom.
        """
        return cast("Client", _RecordedClient(client, self.add, user_agent, user))

    def controller(self, factory: Callable[[ControllerContext], Controller]) -> Callable[[ControllerContext], Controller]:
        """A controller whose requests are recorded: `parts={"controllers": [recording.controller(ShipController)]}`."""

        def create(context: ControllerContext) -> Controller:
            return factory(replace(context, client=self.client(context.client, user_agent="controller")))

        return create

    def entries(self) -> list[dict[str, Any]]:
        """The requests by cluster, in their order, without what differs between runs.

        Clusters, uids and generated names are numbered by their first appearance, times are `<time>`.
        """
        names = _Names()
        clusters = {name: f"cluster-{number}" for number, name in enumerate(dict.fromkeys(r.cluster for r in self.requests), start=1)}
        for name, number in clusters.items():
            if _MADE.search(name):
                names.replace(name, number)
        found: list[dict[str, Any]] = []
        for cluster, number in clusters.items():
            done = [_entry(request, names) for request in list(self.requests) if request.cluster == cluster]
            found.append({"cluster": number, "requests": done})
        return found

    def text(self) -> str:
        """The entries as YAML."""
        import yaml  # noqa: PLC0415 - the server does without it

        return yaml.safe_dump(self.entries(), sort_keys=False, allow_unicode=True, width=120) if self.requests else "[]\n"

    def check(self, file: Path | None = None, *, update: bool | None = None) -> None:
        """Compare the text with a file.

        Args:
            file: the snapshot; the fixture has one for each test.
            update: write the file instead; the fixture takes `--kcp-update`.

        Raises:
            SnapshotMismatchError: they differ, or there is no file.
            ValueError: no file is named.
        """
        path = self.file if file is None else file
        if path is None:
            raise ValueError("name the file of the snapshot")
        text = self.text()
        if self.update if update is None else update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            return
        if not path.exists():
            raise SnapshotMismatchError(f"{path} does not exist: write it with --kcp-update (update=True)\n{text}")
        difference = compare(path.read_text("utf-8"), text, path.name)
        if difference:
            raise SnapshotMismatchError(f"the requests differ from {path}; --kcp-update (update=True) accepts them\n{difference}")


@contextlib.contextmanager
def record(
    server: HasRequests,
    *,
    user: str = "",
    user_agent: str = "",
    clusters: Collection[str] = (),
    reads: bool = False,
    exclude: Collection[str] = NOISE,
) -> Iterator[Recording]:
    """Record the requests that reach a server over HTTP within the block; `Recording.client` adds those of the process.

    ::

        with record(server, user_agent="ship-operator") as recording:
            ...
        recording.check(Path("snapshots/ship.yaml"))

    Args:
        server: of `control_plane` or `serving`.
        user: only requests of this user.
        user_agent: only requests whose user agent has this regular expression.
        clusters: only requests to these logical clusters.
        reads: record get, list and watch, too.
        exclude: resources to leave out.
    """
    recording = Recording(user=user, user_agent=user_agent, clusters=clusters, reads=reads, exclude=exclude)
    server.requests.add_listener(recording.add)
    try:
        yield recording
    finally:
        server.requests.remove_listener(recording.add)


def compare(expected: str, found: str, name: str = "snapshot") -> str:
    """The difference of two recordings as a unified diff; empty if they are equal."""
    lines = difflib.unified_diff(expected.splitlines(), found.splitlines(), f"{name} (expected)", f"{name} (found)", lineterm="")
    return "\n".join(lines)


class _Names:
    """What stands for names that differ between runs."""

    def __init__(self) -> None:
        self._uids: dict[str, str] = {}
        self._replaced: dict[str, str] = {}
        self._pattern: re.Pattern[str] | None = None
        self._generated: dict[str, int] = {}

    def replace(self, name: str, stands: str) -> None:
        self._replaced[name] = stands
        longest_first = sorted(self._replaced, key=len, reverse=True)
        self._pattern = re.compile(rf"(?<![\w-])(?:{'|'.join(map(re.escape, longest_first))})(?![\w-])")

    def generated(self, prefix: str, name: str) -> None:
        """Number a name that the server made."""
        if name not in self._replaced:
            self._generated[prefix] = number = self._generated.get(prefix, 0) + 1
            self.replace(name, f"{prefix}<{number}>")

    def plain(self, text: str) -> str:
        text = _UID.sub(lambda match: self._uids.setdefault(match[0], f"<uid-{len(self._uids) + 1}>"), text)
        text = _TIME.sub("<time>", text)
        return text if self._pattern is None else self._pattern.sub(lambda match: self._replaced[match[0]], text)


def _entry(request: Request, names: _Names) -> dict[str, Any]:
    metadata = request.body.get("metadata") if isinstance(request.body, Mapping) else None
    if isinstance(metadata, Mapping) and metadata.get("generateName") and request.name:
        names.generated(str(metadata["generateName"]), request.name)
    entry: dict[str, Any] = {
        "verb": request.verb,
        "resource": request.resource + (f"/{request.subresource}" if request.subresource else ""),
        "namespace": names.plain(request.namespace),
        "name": names.plain(request.name),
        "options": {name: names.plain(value) for name, value in request.options.items()},
        "body": _normal(request.body, names),
        "outcome": f"{request.code} {request.reason}".strip() if request.code else "no answer",
    }
    return {name: value for name, value in entry.items() if value not in ("", None, {})}


def _normal(value: Any, names: _Names, field: str = "") -> Any:
    if isinstance(value, Mapping):
        kept = {key: item for key, item in value.items() if not (field == "metadata" and key in _DROPPED)}
        return {names.plain(str(key)): _normal(item, names, str(key)) for key, item in sorted(kept.items())}
    if isinstance(value, list):
        return [_normal(item, names) for item in value]
    if field == "resourceVersion":
        return "<resourceVersion>"
    return names.plain(value) if isinstance(value, str) else value


_VERBS: Final = {
    "get": "get",
    "list": "list",
    "watch": "watch",
    "create": "create",
    "update": "update",
    "patch": "patch",
    "apply": "patch",
    "delete": "delete",
    "delete_collection": "deletecollection",
}


class _RecordedClient:
    """A `Client` that records its calls."""

    def __init__(self, client: Client, add: Callable[[Request], None], user_agent: str, user: str) -> None:
        self._client = client
        self._add = add
        self._user_agent = user_agent
        self._user = user

    def acting_as(self, user: Any) -> Any:
        return _RecordedClient(self._client.acting_as(user), self._add, self._user_agent, user.name)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if name not in _VERBS:
            return method
        signature = inspect.signature(getattr(Client, name))

        def begin(arguments: tuple[Any, ...], options: dict[str, Any]) -> Request:
            given = signature.bind(self._client, *arguments, **options).arguments
            request = _request_of_call(_VERBS[name], given, self._user_agent, self._user)
            self._add(request)
            return request

        if name == "watch":

            def watch(*arguments: Any, **options: Any) -> Any:
                begin(arguments, options).code = 200
                return method(*arguments, **options)

            return watch

        async def call(*arguments: Any, **options: Any) -> Any:
            request = begin(arguments, options)
            try:
                result = await method(*arguments, **options)
            except StatusError as error:
                request.code, request.reason = error.code, error.reason
                raise
            request.code = 201 if request.verb == "create" else 200
            if request.verb == "create" and not request.name:
                request.name = str(result["metadata"].get("name", ""))
            return result

        return call


def _request_of_call(verb: str, given: Mapping[str, Any], user_agent: str, user: str) -> Request:
    body = next((given[name] for name in ("obj", "document", "configuration") if name in given), None)
    metadata: Mapping[str, Any] = body.get("metadata") or {} if isinstance(body, Mapping) and "document" not in given else {}
    resource = given["resource"]
    named = {"field_manager": "fieldManager", "label_selector": "labelSelector", "field_selector": "fieldSelector", "force": "force"}
    return Request(
        cluster=str(given["cluster"]),
        verb=verb,
        resource=f"{resource.resource}.{resource.group}" if resource.group else resource.resource,
        namespace=given.get("namespace") or str(metadata.get("namespace", "")),
        name=given.get("name") or str(metadata.get("name", "")),
        subresource=given.get("subresource", ""),
        path="",
        user=user,
        user_agent=user_agent,
        options={option: str(given[name]) for name, option in named.items() if given.get(name)},
        body=_copy(body),
    )


def _copy(value: Any) -> Any:
    """The value as it is now: a controller may change its object after the call."""
    if isinstance(value, Mapping):
        return {key: _copy(item) for key, item in value.items()}
    return [_copy(item) for item in value] if isinstance(value, list) else value
