"""`CachingProxy`: the ASGI application of the proxy."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Any, Final, Self

import orjson

from kcp_py.apimachinery.errors import StatusError, expired, not_found, service_unavailable
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.kubeconfig import KubeconfigContext
from kcp_py.proxy.access import Access, Caller, Callers
from kcp_py.proxy.answers import (
    INITIAL_END,
    bookmark,
    document,
    event_lines,
    line,
    selected,
    send_head,
    send_json,
    send_list,
    send_parts,
    send_status,
)
from kcp_py.proxy.cache import ResourceCache
from kcp_py.proxy.caches import Caches
from kcp_py.proxy.eventlog import Watcher
from kcp_py.proxy.passing import Receive, Send, on_disconnect, pass_on, pass_tunnel
from kcp_py.proxy.reads import Place, Read, form_of, parse_place, parse_read
from kcp_py.proxy.upstream import UnreachableError, Upstream
from kcp_py.serving.tunnel import Tunnel

OFFLINE: Final = '299 kcp-py-proxy "the API server cannot be reached: this answer may be out of date"'
_LOAD_SECONDS: Final = 5.0
"""How long a read waits for a new cache. Then it is passed on."""
_REACH_SECONDS: Final = 3.0
"""As kube-apiserver waits for a resource version."""
_CHECK_SECONDS: Final = 45.0
"""Running watches are authorized again after so long."""
_LONGEST_SECONDS: Final = 7 * 86_400
"""No watch lasts longer, whatever its client asks for."""
_CONNECTS: Final = frozenset(("attach", "exec", "log", "portforward", "proxy"))
"""Subresources that change nothing, and whose answers may have no end."""
_WRITES: Final = frozenset(("POST", "PUT", "PATCH", "DELETE"))


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
            await send_status(send, service_unavailable(f"the API server cannot be reached: {error}"))
        except StatusError as error:
            await send_status(send, error)

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
        place = _written_place(path) if scope["method"] in _WRITES else None
        if place is None:
            await pass_on(self._upstream, scope, receive, send, caller=caller, target=_target(scope))
            return

        def note(status: int, body: bytes) -> None:
            if status < 300 or status >= 500:
                self.caches.note_write(place, _version_of(body) if status < 300 and scope["method"] != "DELETE" else None)

        try:
            await pass_on(self._upstream, scope, receive, send, caller=caller, target=_target(scope), before_answer=note)
        except UnreachableError:
            self.caches.note_write(place, None)
            raise

    async def _answer_cached(self, read: Read, caller: Caller, scope: dict[str, Any], send: Send) -> bool:
        """Answer from the cache. Returns whether that was possible."""
        newest = read.verb != "watch" and not read.version
        if newest and not self._settings.stale_ok:
            return False
        # Nothing is read for those who may not.
        if not self.caches.wants(read.place) or not await self._access.allows(caller, read):
            return False
        cache = self.caches.open(read.place)
        if cache is None or not await cache.loaded(_LOAD_SECONDS):
            return False
        if not await self._is_new_enough(cache, read) or not cache.is_loaded:
            return False
        warning = OFFLINE if cache.lost else ""
        if read.verb == "watch":
            return await self._watch(cache, read, caller, scope, send, warning)
        if read.verb == "list":
            items = selected(cache, read)
            if newest and 0 < read.limit < len(items):
                # The pages that follow are those of the API server.
                return False
            await send_list(send, cache, read, items, warning)
        else:
            found = cache.get(read.namespace, read.name)
            if found is None:
                # The API server knows better, and answers in its own words.
                return False
            await send_json(send, document(read, found), warning)
        self.counts["cached"] += 1
        return True

    async def _is_new_enough(self, cache: ResourceCache, read: Read) -> bool:
        if read.verb == "watch" and read.version and not read.initial_events:
            # It waits for further events.
            return await cache.has_come_to(int(read.version))
        wanted = int(read.version) if read.version else cache.written
        return wanted is not None and (cache.version >= wanted or (not cache.lost and await cache.reached(wanted, _REACH_SECONDS)))

    async def _answer_offline(self, read: Read, caller: Caller, send: Send) -> bool:
        """Answer from the cache because the API server cannot be reached. Returns whether that was possible."""
        cache = self.caches.find(read.place)
        if cache is None or read.verb == "watch" or not await self._access.allows(caller, read):
            return False
        if not cache.is_loaded or cache.version < int(read.version or 0):
            return False
        self.counts["offline"] += 1
        if read.verb == "list":
            items = selected(cache, read)
            await send_list(send, cache, read, items, OFFLINE)
            return True
        found = cache.get(read.namespace, read.name)
        if found is None:
            raise not_found(GroupResource(read.place.group, read.place.resource), read.name)
        await send_json(send, document(read, found), OFFLINE)
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
        checking = asyncio.create_task(self._check(read, caller, watcher, asyncio.current_task()))
        seconds = min(read.seconds or random.randint(1800, 3600), _LONGEST_SECONDS)
        ending = asyncio.get_running_loop().call_later(seconds, watcher.end)
        first = since if since is not None else cache.version
        try:
            initial = selected(cache, read) if starts_anew else []
            await send_head(send, 200, warning)
            await send_parts(send, (line("ADDED", document(read, item)) for item in initial))
            if read.initial_events and read.bookmarks:
                await send_parts(send, [line("BOOKMARK", bookmark(cache, read, first, INITIAL_END))])
            events = past
            while True:
                await send_parts(send, event_lines(events, cache, read, first))
                events = await watcher.take()
                if not events:
                    break
            if watcher.expired:
                await send_parts(send, [line("ERROR", orjson.dumps(_EXPIRED.to_status()))])
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            cache.leave(watcher)
            ending.cancel()
            checking.cancel()
            take_back()
        return True

    async def _check(self, read: Read, caller: Caller, watcher: Watcher, task: asyncio.Task[Any] | None) -> None:
        """End a watch when its caller may not read any more, and drop one whose client does not read what it gets."""
        while True:
            has_ended = watcher.ended
            await self._sleep(_CHECK_SECONDS)
            if watcher.ended:
                if has_ended and task is not None:
                    task.cancel()
                continue
            try:
                allowed = await self._access.allows(caller, read)
            except UnreachableError:
                allowed = False
            if not allowed:
                watcher.cut()


def _target(scope: Any) -> bytes:
    path: bytes = scope["raw_path"]
    return path + b"?" + scope["query_string"] if scope["query_string"] else path


def _written_place(path: str) -> Place | None:
    """The resource that a write changes: for `…/pods/one/eviction` pods. None where it changes none that can be read."""
    found = parse_place(path)
    if found is None:
        parent, _, subresource = path.rpartition("/")
        found = parse_place(parent) if subresource not in _CONNECTS else None
    return found[0] if found is not None else None


def _version_of(body: bytes) -> int | None:
    """The resource version of the object that a write has made; None for other answers."""
    try:
        return int(orjson.loads(body)["metadata"]["resourceVersion"])
    except (ValueError, KeyError, TypeError):
        return None


_EXPIRED: Final = expired("the resource versions of this server have begun anew: list again")


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return
