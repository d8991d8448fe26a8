"""`CachingProxy`: the ASGI application of the proxy."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson

from kcp_py.apimachinery.errors import StatusError, not_found, service_unavailable
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.kubeconfig import KubeconfigContext
from kcp_py.proxy.access import Access, Caller, Callers
from kcp_py.proxy.cache import Event, Item, ResourceCache
from kcp_py.proxy.caches import Caches
from kcp_py.proxy.passing import Receive, Send, on_disconnect, pass_on, pass_tunnel
from kcp_py.proxy.reads import Place, Read, form_of, parse_place, parse_read
from kcp_py.proxy.upstream import UnreachableError, Upstream
from kcp_py.serving.tunnel import Tunnel

OFFLINE: Final = '299 kcp-py-proxy "the API server cannot be reached: this answer may be out of date"'
_LOAD_SECONDS: Final = 5.0
"""How long a read waits for a new cache. Then it is passed on."""
_REACH_SECONDS: Final = 3.0
"""As kube-apiserver waits for a resource version."""
_UNKNOWN_SECONDS: Final = 3.0
"""After a write whose resource version is not known, reads of the newest state are passed on for so long."""
_CHECK_SECONDS: Final = 45.0
"""Running watches are authorized again after so long."""
_PIECE_ITEMS: Final = 500
_INITIAL_END: Final = {"k8s.io/initial-events-end": "true"}


@dataclass(frozen=True, kw_only=True)
class ProxySettings:
    """The settings of a caching proxy.

    Attributes:
        resources: which resources are cached: `*`, `pods`, `deployments.apps`, and `-secrets` for all but secrets.
        cache_bytes: of all caches, approximately.
        idle_seconds: a cache that is not used for so long is dropped.
        stale_ok: whether reads of the newest state (`resourceVersion` empty) may be answered by the cache, which is a moment behind. They
            are never older than writes that went through the proxy.
        share_credentials: whether requests without credentials are made with those of the proxy.
        accept_certificates: whether clients may have certificates, whose users the proxy impersonates.
        decision_seconds: how long a permission of a caller counts before the server is asked again.
        offline_seconds: how long it counts while the server cannot be asked.
    """

    resources: tuple[str, ...] = ("*",)
    cache_bytes: int = 256 * 1024 * 1024
    idle_seconds: float = 600.0
    stale_ok: bool = False
    share_credentials: bool = False
    accept_certificates: bool = False
    decision_seconds: float = 10.0
    offline_seconds: float = 3600.0


class CachingProxy:
    """An ASGI application in front of the API server of a kubeconfig: an asynchronous context manager.

    Attributes:
        counts: requests that were answered: `cached`, `passed`, `tunneled`, and `offline` for those without the API server.
    """

    def __init__(
        self,
        context: KubeconfigContext,
        settings: ProxySettings | None = None,
        *,
        sleep: Callable[[float], Awaitable[object]] = asyncio.sleep,
    ) -> None:
        """Prepare; nothing is connected yet.

        Args:
            context: of the API server, with the credentials that the cache is read with.
            settings: None for the defaults.
            sleep: waits between checks of watches; replaced in tests.

        Raises:
            KubeconfigError: a credential cannot be used.
        """
        self._settings = settings if settings is not None else ProxySettings()
        given = self._settings
        self._sleep = sleep
        self._upstream = Upstream(context)
        self._callers = Callers(share_credentials=given.share_credentials, accept_certificates=given.accept_certificates)
        self._access = Access(self._upstream, kept_seconds=given.decision_seconds, offline_seconds=given.offline_seconds)
        self.caches = Caches(self._upstream, resources=given.resources, most_bytes=given.cache_bytes, idle_seconds=given.idle_seconds)
        self.counts: Counter[str] = Counter()
        self._written: dict[Place, int] = {}
        self._unknown: dict[Place, float] = {}
        self._stack = AsyncExitStack()

    @classmethod
    def of_kubeconfig(cls, path: str | None = None, context: str | None = None, *, settings: ProxySettings | None = None) -> Self:
        """The proxy of the API server of a kubeconfig.

        Args:
            path: the file; None for the first that exists of those in `KUBECONFIG`, then `.kcp/admin.kubeconfig`.
            context: None for the current one.
            settings: None for the defaults.

        Raises:
            KubeconfigError: the file or a credential in it cannot be used.
        """
        return cls(KubeconfigContext.load(path, context), settings)

    async def __aenter__(self) -> Self:
        self._stack.push_async_callback(self._upstream.aclose)
        await self._stack.enter_async_context(self.caches)
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self._stack.aclose()

    async def __call__(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        """See ASGI."""
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
            return
        try:
            await self._answer(scope, receive, send)
        except UnreachableError as error:
            await _send_status(send, service_unavailable(f"the API server cannot be reached: {error}"))
        except StatusError as error:
            await _send_status(send, error)

    def end_watches(self) -> None:
        """End the watches that the cache serves, before a stop. Their clients watch again, elsewhere."""
        for cache in self.caches:
            cache.end_watches()

    async def tunnel(self, tunnel: Tunnel) -> None:
        """A request that upgrades its connection."""
        scope = tunnel.scope
        try:
            caller = self._callers.of(scope["headers"], (scope.get("state") or {}).get("peer_certificate"))
            self.counts["tunneled"] += 1
            await pass_tunnel(self._upstream, tunnel, caller=caller, target=_target(scope))
        except (UnreachableError, StatusError) as error:
            status = error if isinstance(error, StatusError) else service_unavailable(f"the API server cannot be reached: {error}")
            body = orjson.dumps(status.to_status())
            head = b"HTTP/1.1 %d Refused\r\ncontent-type: application/json\r\ncontent-length: %d\r\nconnection: close\r\n\r\n"
            await tunnel.write(head % (status.code, len(body)) + body)

    async def _answer(self, scope: dict[str, Any], receive: Receive, send: Send) -> None:
        caller = self._callers.of(scope["headers"], (scope.get("state") or {}).get("peer_certificate"))
        path, query = scope["raw_path"].decode("ascii"), scope["query_string"].decode("ascii", "replace")
        accept = b",".join(value for name, value in scope["headers"] if name == b"accept").decode("latin-1")
        if scope["method"] == "GET":
            read = parse_read(path, query, accept)
            if read is not None and await self._answer_cached(read, caller, scope, send):
                return
            try:
                self.counts["passed"] += 1
                await pass_on(self._upstream, scope, receive, send, caller=caller, target=_target(scope))
            except UnreachableError:
                if form_of(accept) is None and form_of(accept, offline=True) is not None:
                    read = parse_read(path, query, "application/json")
                if read is None or not await self._answer_offline(read, caller, send):
                    raise
            return
        self.counts["passed"] += 1
        written = parse_place(_without_subresource(path))
        try:
            status, body = await pass_on(self._upstream, scope, receive, send, caller=caller, target=_target(scope))
        finally:
            if written is not None:
                self._unknown[written[0]] = asyncio.get_running_loop().time() + _UNKNOWN_SECONDS
        if written is not None and status < 300 and scope["method"] != "DELETE":
            self._note(written[0], body)

    def _note(self, place: Place, body: bytes) -> None:
        """Remember what a write has made, so that no read of the newest state is older."""
        try:
            obj = orjson.loads(body)
            version, is_stored = int(obj["metadata"]["resourceVersion"]), True
        except (ValueError, KeyError, TypeError):
            version, is_stored = 0, False
        if is_stored:
            self._written[place] = max(version, self._written.get(place, 0))
            self._unknown.pop(place, None)

    async def _answer_cached(self, read: Read, caller: Caller, scope: dict[str, Any], send: Send) -> bool:
        """Answer from the cache. Returns whether that was possible."""
        newest = read.verb != "watch" and not read.version
        if newest and not self._settings.stale_ok:
            return False
        cache = self.caches.open(read.place)
        if cache is None or not await cache.loaded(_LOAD_SECONDS):
            return False
        if not await self._access.allows(caller, read):
            return False
        if not await self._is_new_enough(cache, read, newest=newest):
            return False
        warning = OFFLINE if cache.lost else ""
        if read.verb == "watch":
            return await self._watch(cache, read, caller, scope, send, warning)
        if read.verb == "list":
            items = [item for item in cache.items(read.namespace, read.name) if read.labels.matches(item.labels)]
            if newest and 0 < read.limit < len(items):
                # The pages that follow are those of the API server.
                return False
            await _send_list(send, cache, read, items, warning)
        else:
            found = cache.get(read.namespace, read.name)
            if found is None:
                # The API server knows better, and answers in its own words.
                return False
            await _send_json(send, found.metadata if read.form == "metadata" else found.raw, warning)
        self.counts["cached"] += 1
        return True

    async def _is_new_enough(self, cache: ResourceCache, read: Read, *, newest: bool) -> bool:
        wanted = int(read.version or 0) if read.verb != "watch" or read.initial_events else 0
        if newest or (read.verb == "watch" and not read.version):
            if self._unknown.get(read.place, 0.0) > asyncio.get_running_loop().time() and not cache.lost:
                return False
            wanted = self._written.get(read.place, 0)
        return cache.version >= wanted or (not cache.lost and await cache.reached(wanted, _REACH_SECONDS))

    async def _answer_offline(self, read: Read, caller: Caller, send: Send) -> bool:
        """Answer from the cache because the API server cannot be reached. Returns whether that was possible."""
        cache = self.caches.find(read.place)
        if cache is None or not cache.is_loaded or read.verb == "watch" or not await self._access.allows(caller, read):
            return False
        self.counts["offline"] += 1
        if read.verb == "list":
            items = [item for item in cache.items(read.namespace, read.name) if read.labels.matches(item.labels)]
            await _send_list(send, cache, read, items, OFFLINE)
            return True
        found = cache.get(read.namespace, read.name)
        if found is None:
            raise not_found(GroupResource(read.place.group, read.place.resource), read.name)
        await _send_json(send, found.metadata if read.form == "metadata" else found.raw, OFFLINE)
        return True

    async def _watch(  # noqa: PLR0917
        self, cache: ResourceCache, read: Read, caller: Caller, scope: dict[str, Any], send: Send, warning: str
    ) -> bool:
        """Answer with a stream of events. Returns whether the events are known."""
        starts_anew = read.initial_events is True or (read.initial_events is None and read.version in {"", "0"})
        since = None if starts_anew or not read.version else int(read.version)
        if read.initial_events is False and not read.version:
            since = cache.version
        begun = cache.watch(since)
        if begun is None:
            return False
        watcher, past = begun
        self.counts["cached"] += 1
        take_back = on_disconnect(scope, watcher.end)
        checking = asyncio.create_task(self._check(read, caller, watcher.end))
        seconds = read.seconds or random.randint(1800, 3600)
        ending = asyncio.get_running_loop().call_later(seconds, watcher.end)
        first = since if since is not None else cache.version
        try:
            initial = list(cache.items(read.namespace, read.name)) if starts_anew else []
            await _send_head(send, 200, warning)
            await _send_parts(send, (_line("ADDED", _document(read, item)) for item in initial if read.labels.matches(item.labels)))
            if read.initial_events and read.bookmarks:
                await _send_parts(send, [_line("BOOKMARK", _bookmark(cache, read, first, _INITIAL_END))])
            events = past
            while True:
                await _send_parts(send, _lines(events, cache, read, first))
                events = await watcher.take()
                if not events:
                    break
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            cache.leave(watcher)
            ending.cancel()
            checking.cancel()
            take_back()
        return True

    async def _check(self, read: Read, caller: Caller, end: Callable[[], None]) -> None:
        """End a watch when its caller may not read any more."""
        while True:
            await self._sleep(_CHECK_SECONDS)
            try:
                allowed = await self._access.allows(caller, read)
            except UnreachableError:
                allowed = False
            if not allowed:
                end()
                return


def _lines(events: Iterable[Event], cache: ResourceCache, read: Read, first: int) -> Iterable[bytes]:
    """The events that a client sees, as they are sent."""
    for event in events:
        if event.version <= first:
            continue
        item = event.item
        if item is None:
            if read.bookmarks:
                yield _line("BOOKMARK", _bookmark(cache, read, event.version, {}))
            continue
        if (read.namespace and item.namespace != read.namespace) or (read.name and item.name != read.name):
            continue
        now = event.kind != "DELETED" and read.labels.matches(item.labels)
        before = event.before is not None and read.labels.matches(event.before.labels)
        if now:
            yield _line("MODIFIED" if before else "ADDED", _document(read, item))
        elif before:
            yield _line("DELETED", _document(read, item))


def _document(read: Read, item: Item) -> bytes:
    return item.metadata if read.form == "metadata" else item.raw


def _bookmark(cache: ResourceCache, read: Read, version: int, annotations: dict[str, str]) -> bytes:
    kind, api_version = (cache.kind, cache.api_version) if read.form == "object" else ("PartialObjectMetadata", "meta.k8s.io/v1")
    metadata: dict[str, Any] = {"resourceVersion": str(version), "creationTimestamp": None}
    if annotations:
        metadata["annotations"] = annotations
    return orjson.dumps({"kind": kind, "apiVersion": api_version, "metadata": metadata})


def _line(kind: str, document: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (kind.encode(), document)


async def _send_parts(send: Send, lines: Iterable[bytes]) -> None:
    """Send lines, many in one piece."""
    part: list[bytes] = []
    for line in lines:
        part.append(line)
        if len(part) == _PIECE_ITEMS:
            await send({"type": "http.response.body", "body": b"".join(part), "more_body": True})
            part = []
            await asyncio.sleep(0)
    if part:
        await send({"type": "http.response.body", "body": b"".join(part), "more_body": True})


async def _send_list(send: Send, cache: ResourceCache, read: Read, items: list[Item], warning: str) -> None:
    if read.form == "object":
        kind, api_version = f"{cache.kind}List", cache.api_version
    else:
        kind, api_version = "PartialObjectMetadataList", "meta.k8s.io/v1"
    head = orjson.dumps({"kind": kind, "apiVersion": api_version, "metadata": {"resourceVersion": str(cache.version)}})
    await _send_head(send, 200, warning)
    await send({"type": "http.response.body", "body": head[:-1] + b',"items":[', "more_body": True})
    for start in range(0, len(items), _PIECE_ITEMS):
        part = b",".join(_document(read, item) for item in items[start : start + _PIECE_ITEMS])
        await send({"type": "http.response.body", "body": (b"," if start else b"") + part, "more_body": True})
        await asyncio.sleep(0)
    await send({"type": "http.response.body", "body": b"]}\n", "more_body": False})


async def _send_head(send: Send, status: int, warning: str, length: int | None = None) -> None:
    headers = [(b"content-type", b"application/json"), (b"cache-control", b"no-cache, private")]
    if length is not None:
        headers.append((b"content-length", b"%d" % length))
    if warning:
        headers.append((b"warning", warning.encode()))
    await send({"type": "http.response.start", "status": status, "headers": headers})


async def _send_json(send: Send, body: bytes, warning: str, status: int = 200) -> None:
    await _send_head(send, status, warning, len(body) + 1)
    await send({"type": "http.response.body", "body": body + b"\n", "more_body": False})


async def _send_status(send: Send, error: StatusError) -> None:
    await _send_json(send, orjson.dumps(error.to_status()), "", error.code)


def _target(scope: Any) -> bytes:
    path: bytes = scope["raw_path"]
    return path + b"?" + scope["query_string"] if scope["query_string"] else path


def _without_subresource(path: str) -> str:
    """The path of the object whose subresource is written: of `…/pods/one/eviction` that of the pod."""
    if parse_place(path) is not None:
        return path
    parent = path.rpartition("/")[0]
    return parent if parse_place(parent) is not None else path


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
