"""`ClusterFilter`: finds the logical cluster of the request and strips it from the path."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

from starlette.types import Scope

from kcp_py.aio.offload import OFFLOAD_OWNER
from kcp_py.apimachinery.errors import StatusError, bad_request, not_found, unknown_path
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.authn.tokens import bearer_token
from kcp_py.logicalcluster import Name, Path
from kcp_py.request.clusterhost import ClusterHosts
from kcp_py.request.clusterpath import belongs_to_cluster, decode_path, parse_target
from kcp_py.server.connectionstate import SERVER_NAME
from kcp_py.server.exchange import Exchange, Handler

Resolve = Callable[[Path], Awaitable[Name | None]]
"""From a path of several segments to the logical cluster at its end, None where there is none."""

TokenCluster = Callable[[bytes], Name | None]
"""From a bearer token to the logical cluster that it claims to be of; None where it claims none. The claim is not verified."""

_WORKSPACES: Final = GroupResource("tenancy.kcp.io", "workspaces")


async def resolve_nothing(_path: Path) -> Name | None:
    """Where there is no tree of workspaces, no path leads anywhere."""


class ClusterFilter:
    """Sets `cluster`, `explicit_cluster` and `path` of the exchange."""

    def __init__(
        self,
        handler: Handler,
        *,
        default_cluster: Name | None,
        single: bool = False,
        header: str = "X-Kubernetes-Cluster",
        hosts: ClusterHosts | None = None,
        token_cluster: TokenCluster | None = None,
        resolve: Resolve = resolve_nothing,
    ) -> None:
        """Wrap `handler`.

        Args:
            handler: the next filter, or what answers requests.
            default_cluster: of requests that name none; None refuses them, unless they are for pages of the server itself.
            single: the default cluster is the only one, which nothing in requests names: `/clusters` is a path like all others.
            header: which may name the cluster; empty switches it off.
            hosts: the host names of clusters; None where they have none.
            token_cluster: the cluster of bearer tokens, for requests that name none; None where tokens have none.
            resolve: what knows the tree of workspaces.
        """
        self._handler = handler
        self._default = default_cluster
        self._only = default_cluster if single else None
        self._header = header.lower().encode()
        also = f" or in the header {header}" if header else ""
        self._no_cluster = f"the request names no logical cluster: name it in the server URL (https://HOST:PORT/clusters/NAME){also}"
        self._hosts = hosts
        self._token_cluster = token_cluster
        self._resolve = resolve

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        scope = exchange.scope
        if self._only is not None:
            exchange.path = decode_path(_path_below_root(scope) if scope.get("root_path") else scope["raw_path"])
            exchange.cluster, exchange.explicit_cluster = self._only, False
            OFFLOAD_OWNER.set(self._only)
            return self._handler(exchange)
        header = exchange.header_values(self._header) if self._header and self._header in exchange.headers else ()
        path: bytes = _path_below_root(scope) if scope.get("root_path") else scope["raw_path"]
        host = None if self._hosts is None else _cluster_of_host(exchange, self._hosts)
        selection, exchange.explicit_cluster, exchange.path = parse_target(path, header, self._default, host=host)
        if not exchange.explicit_cluster and self._token_cluster is not None and belongs_to_cluster(exchange.path):
            # Nothing is verified yet: a token chooses no more than a path can, and is a credential of this cluster or of none.
            token = bearer_token(exchange.headers)
            selection = (self._token_cluster(token) if token is not None else None) or selection
        if selection is None:
            raise bad_request(self._no_cluster)
        if isinstance(selection, str) and ":" in selection and not selection.startswith("system:"):
            return self._go_to(exchange, Path(selection))
        exchange.cluster = selection  # type: ignore[assignment] # a Path was handled above
        # Every request has a task of its own, and so a context.
        OFFLOAD_OWNER.set(str(selection))
        return self._handler(exchange)

    async def _go_to(self, exchange: Exchange, path: Path) -> None:
        resolved = await self._resolve(path)
        if resolved is None:
            raise not_found(_WORKSPACES, path)
        exchange.cluster = resolved
        OFFLOAD_OWNER.set(resolved)
        await self._handler(exchange)


def _cluster_of_host(exchange: Exchange, hosts: ClusterHosts) -> Name | None:
    """The logical cluster that the Host header names.

    Raises:
        StatusError: 400 for a host that does not name a cluster, 421 for another cluster than that of the TLS handshake.
    """
    named = hosts.cluster_of(exchange.headers.get(b"host", b""))
    handshake: str | None = exchange.state.get(SERVER_NAME)
    if handshake is not None and hosts.cluster_of(handshake.encode()) != named:
        raise StatusError(421, "", "the request is for another host than the connection")
    return named


def _path_below_root(scope: Scope) -> bytes:
    """The raw path without the prefix below which the application is mounted."""
    raw: bytes = scope["raw_path"]
    prefix = scope["root_path"].rstrip("/").encode()
    if not raw.startswith(prefix) or raw[len(prefix) : len(prefix) + 1] not in {b"/", b""}:
        raise unknown_path()
    return raw[len(prefix) :] or b"/"
