"""kopf operators over all logical clusters: read through the wildcard, write to the cluster of each object.

kopf reads and writes below one server URL. Below `/clusters/*` a server allows reading only, because a write has to name its cluster. This
module gives kopf an HTTP session that sends each write to the cluster of the object that is being handled::

    import kopf
    from kcp_py.contrib import kopf as multicluster

    @kopf.on.login()
    def login(**kwargs):
        return multicluster.connect(kopf.login_with_kubeconfig(**kwargs))

    @kopf.on.startup()
    def configure(settings, **_):
        multicluster.configure(settings)

    @kopf.on.create("databases")
    def created(body, **_):
        print(multicluster.cluster_of(body))

The credentials must be allowed to use the wildcard. Everything that kopf does for an object works: finalizers, progress, status, retries,
daemons, timers, events, and CRDs and clusters that appear later. Keys that consist of namespace and name, such as those that an
`@kopf.index` function returns, have to include the cluster.

Importing this module wraps `process_resource_event` of kopf, the function that every event of an object goes through. Objects without the
annotation `kcp.io/cluster`, and therefore operators that do not use the wildcard, are not affected.
"""

from __future__ import annotations

import datetime as dt
import functools
import inspect
from collections.abc import Mapping
from contextvars import ContextVar
from importlib.metadata import version
from typing import Any, Final, Literal, cast

import aiohttp
import kopf
from kopf._core.reactor import processing

from kcp_py.aio.lru import LRU

__all__ = ["CLUSTER_ANNOTATION", "cluster_of", "configure", "connect", "current_cluster", "server_of"]

CLUSTER_ANNOTATION: Final = "kcp.io/cluster"
"""Names the logical cluster of an object in answers to wildcard requests."""
REMEMBERED_OBJECTS: Final = 65_536
"""Objects whose cluster is remembered by uid. An event about an object that was forgotten is refused by the server and logged by kopf."""

_READS: Final = frozenset(("get", "head", "options"))

_current: ContextVar[str | None] = ContextVar("kcp_py_cluster", default=None)


def mark_deleted(event: dict[str, Any]) -> None:
    """Mark the object of a `DELETED` event as deleted.

    When a ClusterAccessGrant ends, the objects of its clusters are `DELETED`, although they still exist. Kopf stops the timers and
    daemons of an object only if it has a `metadata.deletionTimestamp`. It calls no deletion handlers for `DELETED` events.

    Args:
        event: the event, changed in place. Other events are not changed.
    """
    if event.get("type") == "DELETED":
        now = dt.datetime.now(dt.UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        event["object"].setdefault("metadata", {}).setdefault("deletionTimestamp", now)


class _Clusters:
    """The clusters of recently handled objects by uid. Another task sends Kubernetes events, and has only the uid of their object."""

    def __init__(self) -> None:
        self._by_uid: LRU[str, str] = LRU(REMEMBERED_OBJECTS)

    def remember(self, uid: str, cluster: str) -> None:
        self._by_uid.set(uid, cluster)

    def of(self, uid: str) -> str | None:
        return self._by_uid.peek(uid)


_clusters: Final = _Clusters()


def cluster_of(obj: Mapping[str, Any]) -> str:
    """The logical cluster of an object that came through the wildcard.

    Args:
        obj: the object, `body` in a handler.

    Raises:
        LookupError: the object has no annotation `kcp.io/cluster`. It was not read through the wildcard.
    """
    cluster = obj.get("metadata", {}).get("annotations", {}).get(CLUSTER_ANNOTATION)
    if not cluster:
        raise LookupError(f"the object has no annotation {CLUSTER_ANNOTATION}: it was not read below /clusters/*")
    return str(cluster)


def current_cluster() -> str:
    """The logical cluster of the object that is being handled. Works in handlers, daemons and timers, both synchronous and asynchronous.

    Raises:
        LookupError: called outside a handler.
    """
    cluster = _current.get()
    if cluster is None:
        raise LookupError("no object of a logical cluster is being handled")
    return cluster


def server_of(server: str, cluster: str) -> str:
    """The URL of one logical cluster, for clients that handlers use to write other objects.

    Args:
        server: any URL of the server, with or without `/clusters/NAME`.
        cluster: the name of the logical cluster, or `*`.
    """
    return f"{server.partition('/clusters/')[0].rstrip('/')}/clusters/{cluster}"


def configure(settings: kopf.OperatorSettings) -> None:
    """Configure an operator for all clusters. Call it in a startup handler.

    Peering is disabled: below the wildcard, peering objects of every cluster would look like peers of this operator, so that any
    tenant could pause it.
    """
    settings.peering.standalone = True


def connect(info: kopf.ConnectionInfo | None) -> kopf.AiohttpSession | None:
    """The connection that a login handler returns, so that the operator handles all logical clusters.

    Args:
        info: how to reach the server, with or without a cluster in its URL, such as `kopf.login_with_kubeconfig(**kwargs)` returns it.
            None, "no credentials here", is returned as it is.
    """
    if info is None:
        return None
    server = server_of(info.server, "*")
    session = cast("aiohttp.ClientSession", _Session(info, server))
    return kopf.AiohttpSession(
        server=server,
        aiohttp_session=session,
        priority=info.priority,
        default_namespace=info.default_namespace,
        expiration=info.expiration,
    )


class _Session:
    """The part of `aiohttp.ClientSession` that kopf uses, with the cluster put into the URLs of writes.

    The first request creates the real session, because login handlers may run in a thread, where aiohttp cannot create one.
    """

    def __init__(self, info: kopf.ConnectionInfo, server: str) -> None:
        self.headers: dict[str, str] = info.as_http_headers()
        self._info = info
        self._server = server
        self._session: aiohttp.ClientSession | None = None
        self._closed = False

    @property
    def closed(self) -> bool:
        return self._closed

    async def close(self) -> None:
        self._closed = True
        if self._session is not None:
            await self._session.close()

    async def request(self, method: str, url: str, **options: Any) -> aiohttp.ClientResponse:
        """Send a request; a write goes to the cluster of its object.

        Raises:
            RuntimeError: the session is closed, or the operator uses peering.
        """
        if self._closed:
            raise RuntimeError("Session is closed")
        if "/apis/kopf.dev/" in url and "peerings" in url:
            raise RuntimeError("an operator over all logical clusters cannot use peering: call kcp_py.contrib.kopf.configure(settings)")
        if self._session is None:
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, ssl=self._info.as_ssl_context()),
                headers=self.headers,
                proxy=self._info.proxy_url,
                trust_env=self._info.trust_env,
            )
        if method.lower() not in _READS:
            url = self._with_cluster(url, options.get("json"))
        return await self._session.request(method, url, **options)

    def _with_cluster(self, url: str, payload: Any) -> str:
        """The URL below the cluster that the write is for; unchanged where it is not known, so that the server refuses the write."""
        cluster = _current.get()
        if isinstance(payload, Mapping) and isinstance(payload.get("involvedObject"), Mapping):
            cluster = _clusters.of(payload["involvedObject"].get("uid", ""))
        if cluster is None or not url.startswith(f"{self._server}/"):
            return url
        return server_of(self._server, cluster) + url[len(self._server) :]


def _install() -> Literal[True]:
    """Wrap kopf's processing of events, so that the cluster of each event's object is known while it is handled.

    Raises:
        ImportError: this release of kopf processes events in another way.
    """
    process = processing.process_resource_event
    if "raw_event" not in inspect.signature(process).parameters:
        raise ImportError(f"kopf {version('kopf')} is not supported: process_resource_event() takes no raw_event")

    @functools.wraps(process)
    async def process_with_cluster(*args: Any, **kwargs: Any) -> Any:
        event = kwargs["raw_event"]
        metadata = event["object"].get("metadata", {})
        cluster = metadata.get("annotations", {}).get(CLUSTER_ANNOTATION)
        if cluster:
            mark_deleted(event)
            # A task handles the events of one object, one after the other. Daemons, timers and threads inherit its context.
            _current.set(cluster)
            _clusters.remember(metadata.get("uid", ""), cluster)
        return await process(*args, **kwargs)

    processing.process_resource_event = process_with_cluster
    return True


_INSTALLED: Final = _install()
