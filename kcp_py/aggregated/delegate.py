"""`Delegate`: the API server that this one is a part of, which is asked about callers, permissions and namespaces.

It is a plain Kubernetes API server: paths have no logical cluster, unless the kubeconfig names one.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Any, Final, NoReturn

import orjson
import structlog

from kcp_py.apimachinery.errors import StatusError
from kcp_py.client.transport import Transport, status_error_of
from kcp_py.egress.operatorwebhook import OperatorWebhook
from kcp_py.kubeconfig import KubeconfigContext, KubeconfigError
from kcp_py.kubeconfig.credentials import Credentials

_CALL_SECONDS: Final = 10.0
"""How long a review may take (k8s.io/apiserver `pkg/server/options/authentication.go`, `ClientTimeout`)."""
_PAUSE_SECONDS: Final = 1.0
"""Between the end of a watch and the next list."""
_SILENCE_SECONDS: Final = 420.0
"""A watch that shows nothing for so long, not even its end, has lost its server."""
_WATCH_SECONDS: Final = 300

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.aggregated")


def context_of(kubeconfig: str | None) -> KubeconfigContext:
    """The context of a kubeconfig; without one that of the pod.

    Raises:
        KubeconfigError: there is none, or it cannot be used.
    """
    if kubeconfig:
        return KubeconfigContext.load(kubeconfig, None)
    try:
        return KubeconfigContext.in_cluster()
    except KubeconfigError as error:
        raise KubeconfigError(f"no kubeconfig is given, and this is no pod with a service account: {error}") from None


def reviews_of(context: KubeconfigContext, resource: str) -> OperatorWebhook:
    """The receiver of reviews.

    Args:
        context: the server, and the credentials of this one.
        resource: with its version, such as `authentication.k8s.io/v1/tokenreviews`.
    """
    url = f"{str(context.cluster['server']).rstrip('/')}/apis/{resource}"
    server_name = str(context.cluster.get("tls-server-name") or "")
    return OperatorWebhook(url, Credentials(context), timeout=_CALL_SECONDS, server_name=server_name)


class Delegate:
    """Reads and watches objects of the other server. Close it at the end."""

    def __init__(self, context: KubeconfigContext) -> None:
        """Prepare; nothing is connected yet.

        Raises:
            KubeconfigError: a credential cannot be used.
        """
        self._transport = Transport(context)
        self._prefix = f"/clusters/{context.cluster_name}" if context.cluster_name else ""

    async def aclose(self) -> None:
        """Close the connections."""
        await self._transport.aclose()

    async def get(self, path: str, **query: str) -> Any:
        """The decoded answer to a GET.

        Raises:
            StatusError: the failure of the server; 503 where it cannot be reached.
        """
        return await self._transport.request("GET", self._prefix + path, query=tuple(query.items()), headers=_JSON)

    async def patch(self, path: str, document: Any) -> Any:
        """Send a merge patch.

        Raises:
            StatusError: see `get`.
        """
        headers = (*_JSON, ("Content-Type", "application/merge-patch+json"))
        return await self._transport.request("PATCH", self._prefix + path, headers=headers, body=orjson.dumps(document))

    async def follow(
        self, path: str, *, replace: Callable[[list[dict[str, Any]]], None], change: Callable[[str, dict[str, Any]], None], **query: str
    ) -> NoReturn:
        """List and watch a collection until it is cancelled, again after each failure.

        Args:
            path: of the collection.
            replace: is called with all objects.
            change: is called with the type of an event (`ADDED`, `MODIFIED` or `DELETED`) and its object.
            query: of both requests, such as `fieldSelector`.
        """
        while True:
            try:
                page = await self.get(path, **query)
                replace(page.get("items") or [])
                async with aclosing(self._watch(path, page["metadata"]["resourceVersion"], query)) as events:
                    async for kind, obj in events:
                        change(kind, obj)
            except StatusError as error:
                _log.warning("delegate_not_followed", path=path, error=error.message)
            await asyncio.sleep(_PAUSE_SECONDS)

    async def _watch(self, path: str, version: str, query: dict[str, str]) -> AsyncGenerator[tuple[str, dict[str, Any]], None]:
        """The events of one watch, which ends with its connection or when the events of a version are not known any more."""
        asked = (*query.items(), ("watch", "true"), ("resourceVersion", version), ("timeoutSeconds", str(_WATCH_SECONDS)))
        stream = self._transport.stream(self._prefix + path, query=asked, headers=_JSON, silence=_SILENCE_SECONDS)
        async with stream as lines, aclosing(lines):
            async for line in lines:
                event = orjson.loads(line)
                if event["type"] == "ERROR":
                    raise status_error_of(event["object"])
                yield event["type"], event["object"]


_JSON: Final = (("Accept", "application/json"),)
