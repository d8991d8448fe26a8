"""`APIHandler`.

Everything below `/api`, `/apis` and `/openapi`, dispatched by what the request is, not by routes: resources come and go at run
time.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

from kcp_py.apimachinery import errors
from kcp_py.registry.clusterstate import StaleStateError
from kcp_py.registry.rest.registry import changing
from kcp_py.registry.store.access import GUARD_ATTEMPTS, translate
from kcp_py.registry.writerequest import Resolved
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.connect import connect
from kcp_py.server.handlers.create import create
from kcp_py.server.handlers.delete import delete, delete_collection
from kcp_py.server.handlers.documents import Documents
from kcp_py.server.handlers.get import get
from kcp_py.server.handlers.list import list_objects
from kcp_py.server.handlers.patch import patch
from kcp_py.server.handlers.stream import stream
from kcp_py.server.handlers.tap import TapHandler
from kcp_py.server.handlers.target import method_not_allowed, resolve, resolve_cached
from kcp_py.server.handlers.update import update
from kcp_py.server.handlers.watch import watch
from kcp_py.storage.contract import StorageError
from kcp_py.storage.keys import InvalidSegmentError

Handler = Callable[[Backend, Exchange, Resolved], Awaitable[None]]

_HANDLERS: Final[Mapping[str, Handler]] = {
    "get": get,
    "list": list_objects,
    "watch": watch,
    "create": create,
    "update": update,
    "patch": patch,
    "delete": delete,
    "deletecollection": delete_collection,
}


class APIHandler:
    """Answers resource, discovery and OpenAPI requests, and those of the tap. One instance serves every cluster."""

    def __init__(self, backend: Backend, documents: Documents, tap: TapHandler) -> None:
        self._backend = backend
        self._documents = documents
        self._tap = tap

    async def __call__(self, exchange: Exchange) -> None:
        """Answer one request.

        Raises:
            StatusError: what the errors filter answers with.
        """
        info = exchange.context.info
        try:
            if not info.is_resource:
                await (self._tap if info.path.startswith("/tap/") else self._documents).answer(exchange)
                return
            handler = _HANDLERS.get(info.verb)
            life = 0
            for attempt in range(GUARD_ATTEMPTS):
                target = resolve_cached(self._backend, exchange) or await resolve(self._backend, exchange)
                only, subresource = target.only, target.subresource
                if only is not None:
                    if life and only.created_revision != life:
                        # A request for one cluster is not carried out in a later cluster of its name.
                        raise errors.service_unavailable("the logical cluster was deleted, please try again", retry_after_seconds=1)
                    life = only.created_revision
                if handler is None:
                    raise method_not_allowed()
                try:
                    if subresource:
                        served = target.resource.subresources[subresource]
                        if served.connections is not None:
                            await connect(self._backend, exchange, target)
                            return
                        if served.streams:
                            await stream(self._backend, exchange, target)
                            return
                    await handler(self._backend, exchange, target)
                except StaleStateError:
                    if only is not None:
                        await self._backend.forget(only.name, attempt)
                    exchange.warnings.clear()
                except InvalidSegmentError as error:
                    raise errors.not_found(target.resource.group_resource, target.name) from error
                else:
                    return
            raise changing()
        except StorageError as error:
            raise translate(error) from error
