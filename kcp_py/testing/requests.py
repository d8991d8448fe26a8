"""`RequestLog`: the requests that reach a server of a test, as they come, for recordings and for reports of failures."""

from __future__ import annotations

import base64
import binascii
import json
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import ROOT
from kcp_py.request.clusterpath import parse_target
from kcp_py.request.requestinfo import RequestInfo, parse_query, parse_request
from kcp_py.serving.context import ASGIApp
from kcp_py.testing.users import Users

RECENT: Final = 50
"""Requests of a cluster that are kept for reports."""
_LARGEST_BODY: Final = 4 * 1024 * 1024
_CLUSTERS: Final = 1000
_OPTIONS: Final = ("fieldManager", "force", "dryRun", "propagationPolicy", "labelSelector", "fieldSelector", "limit")


@dataclass(slots=True)
class Request:
    """One request and, from its answer on, its outcome.

    Attributes:
        cluster: the logical cluster, `*` for all.
        verb: `get`, `list`, `watch`, `create`, `update`, `patch`, `delete`, `deletecollection`.
        resource: `configmaps`, `deployments.apps`; empty for paths that name none.
        namespace: empty for cluster-scoped resources.
        name: of the object; of a create the one in the body.
        subresource: such as `status`.
        path: below the cluster.
        user: as its credentials name it, unverified; empty if that is not known.
        user_agent: the header.
        options: query parameters that change the meaning of the request.
        body: decoded; a text that names type and size for bodies that are not JSON.
        code: the status of the answer, 0 before it.
        reason: of a refusal: `NotFound`, `Conflict`.
        answer: the object, where the server chose its name.
    """

    cluster: str
    verb: str
    resource: str
    namespace: str
    name: str
    subresource: str
    path: str
    user: str
    user_agent: str
    options: dict[str, str] = field(default_factory=dict)
    body: Any = None
    code: int = 0
    reason: str = ""
    answer: Any = None

    @property
    def line(self) -> str:
        """One line for people."""
        outcome = f"{self.code} {self.reason}".strip() if self.code else "(no answer)"
        target = " ".join(filter(None, (self.resource + (f"/{self.subresource}" if self.subresource else ""), self.namespace, self.name)))
        return f"{self.verb} {target or self.path} -> {outcome}  [{self.user or 'unknown'}, {self.user_agent or 'no user agent'}]"


Listener = Callable[[Request], None]


class RequestLog:
    """Sees each request over HTTP between the port and the server."""

    def __init__(self, users: Users | None = None) -> None:
        """Begin with no requests.

        Args:
            users: know the users of bearer tokens.
        """
        self._users = users
        self._recent: dict[str, deque[Request]] = {}
        self._listeners: list[Listener] = []

    def recent(self, cluster: str) -> list[Request]:
        """The last requests of a cluster, without reads of discovery and of OpenAPI."""
        return list(self._recent.get(cluster, ()))

    def add_listener(self, listener: Listener) -> None:
        """Call a function with each request to a resource when it comes, before it is answered."""
        self._listeners.append(listener)

    def remove_listener(self, listener: Listener) -> None:
        """Do not call it any more."""
        self._listeners.remove(listener)

    def wrap(self, app: ASGIApp) -> ASGIApp:
        """The application, with this log before it."""

        async def logged(scope: Any, receive: Any, send: Any) -> None:
            request = _request_of(scope, self._users) if scope["type"] == "http" else None
            if request is None:
                await app(scope, receive, send)
                return
            self._keep(request)
            await _run(app, request, scope, receive, send)

        return logged

    def _keep(self, request: Request) -> None:
        recent = self._recent.get(request.cluster)
        if recent is None:
            if len(self._recent) >= _CLUSTERS:
                del self._recent[next(iter(self._recent))]
            recent = self._recent[request.cluster] = deque(maxlen=RECENT)
        recent.append(request)
        for listener in list(self._listeners):
            listener(request)


async def _run(app: ASGIApp, request: Request, scope: Any, receive: Any, send: Any) -> None:
    headers: dict[bytes, bytes] = dict(scope["headers"])
    body = bytearray()
    answer = bytearray()
    compressed = False

    async def receiving() -> Any:
        message = await receive()
        if message["type"] == "http.request" and len(body) <= _LARGEST_BODY:
            body.extend(message.get("body", b""))
            if not message.get("more_body", False):
                request.body = _decoded(bytes(body), headers)
                if not request.name and isinstance(request.body, dict):
                    request.name = str((request.body.get("metadata") or {}).get("name") or "")
        return message

    async def sending(message: Any) -> None:
        nonlocal compressed
        if message["type"] == "http.response.start":
            request.code = message["status"]
            compressed = any(name == b"content-encoding" for name, _ in message["headers"])
        elif message["type"] == "http.response.body" and not compressed and _is_of_interest(request) and len(answer) <= _LARGEST_BODY:
            answer.extend(message.get("body", b""))
            if not message.get("more_body", False):
                _conclude(request, bytes(answer))
        await send(message)

    await app(scope, receiving, sending)


def _is_of_interest(request: Request) -> bool:
    return request.code >= 400 or (request.verb == "create" and not request.name)


def _conclude(request: Request, answer: bytes) -> None:
    try:
        document = json.loads(answer)
    except ValueError:
        return
    if not isinstance(document, dict):
        return
    if request.code >= 400:
        request.reason = str(document.get("reason") or "")
    else:
        request.answer = document
        request.name = str((document.get("metadata") or {}).get("name") or "")


def _request_of(scope: Any, users: Users | None) -> Request | None:
    """The request of a scope; None if it is not for a resource, or is not understood: the server refuses it."""
    raw = scope.get("raw_path") or scope["path"].encode()
    try:
        target = parse_target(raw.partition(b"?")[0], (), ROOT)
        query = parse_query(scope["query_string"])
        info = parse_request(scope["method"], target.path, query)
    except StatusError:
        return None
    if not info.is_resource or target.selection is None:
        return None
    headers: dict[bytes, bytes] = dict(scope["headers"])
    return Request(
        cluster=str(target.selection),
        verb=info.verb,
        resource=_resource(info),
        namespace=info.namespace,
        name=info.name,
        subresource=info.subresource,
        path=target.path,
        user=_user(headers, users),
        user_agent=headers.get(b"user-agent", b"").decode("latin-1"),
        options={name: query[name][0] for name in _OPTIONS if query.get(name)},
    )


def _resource(info: RequestInfo) -> str:
    return f"{info.resource}.{info.group}" if info.group else info.resource


def _user(headers: dict[bytes, bytes], users: Users | None) -> str:
    """The user that is impersonated, or whom a token belongs to or names."""
    impersonated = headers.get(b"impersonate-user")
    if impersonated:
        return impersonated.decode("latin-1")
    authorization = headers.get(b"authorization", b"")
    known = None if users is None else users.of(authorization)
    if known is not None:
        return known.name
    parts = authorization.split(b".")
    if len(parts) != 3:
        return ""
    try:
        claims = json.loads(base64.urlsafe_b64decode(parts[1] + b"=" * (-len(parts[1]) % 4)))
    except (ValueError, binascii.Error):
        return ""
    return str(claims.get("sub", "")) if isinstance(claims, dict) else ""


def _decoded(body: bytes, headers: dict[bytes, bytes]) -> Any:
    if not body:
        return None
    kind = headers.get(b"content-type", b"").decode("latin-1").partition(";")[0]
    try:
        if "yaml" in kind:
            import yaml  # noqa: PLC0415 - few bodies are YAML

            return yaml.safe_load(body)
        return json.loads(body)
    except (ValueError, RecursionError):
        pass
    except Exception:  # noqa: BLE001 - PyYAML has errors of its own; the server answers them
        return f"<{kind or 'unknown type'}, {len(body)} bytes>"
    return f"<{kind or 'unknown type'}, {len(body)} bytes>"


def lines(requests: Iterable[Request]) -> str:
    """The requests, a line each."""
    return "\n".join(request.line for request in requests)
