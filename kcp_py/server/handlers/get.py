"""GET of one object."""

from __future__ import annotations

from kcp_py.apimachinery import errors
from kcp_py.registry.store import get as get_stored
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of, send_item
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.everywhere import find_everywhere
from kcp_py.server.handlers.target import Target


async def get(backend: Backend, exchange: Exchange, target: Target) -> None:
    """Answer with the object, also for its `/status`, or with its Scale.

    A resourceVersion in the query asks for a state at least that new. Every read of ours is the latest, so only one from the future fails.

    Raises:
        StatusError: 404; 504 for a revision that has not happened; over all clusters 409 where several have an object of the name.
    """
    representation = representation_of(exchange, target.resource)
    asked = exchange.query.get("resourceVersion")
    if asked and asked[0] not in {"", "0"}:
        await check_revision(backend, asked[0])
    if target.scope is None:
        target = await find_everywhere(backend, exchange, target)
    scope = target.one_cluster()
    item = await get_stored(backend.access, scope, target.served, target.namespace, target.name)
    # Nearly always the scope is the one that is at hand, and a call is spared.
    if backend.clusters.cached(scope.name) is not scope:
        await backend.clusters.confirm(scope)
    await send_item(backend, exchange, target, item, representation)


async def check_revision(backend: Backend, text: str) -> None:
    """Refuse what is no revision, or lies in the future.

    Raises:
        StatusError: 400 or 504.
    """
    if not text.isascii() or not text.isdigit() or len(text) > 20:
        raise errors.bad_request(f'resourceVersion: Invalid value: "{text}": must be a number')
    asked = int(text)
    if asked > backend.fanout.revision:
        current = await backend.access.storage.revision()
        if asked > current:
            raise errors.too_large_resource_version(asked, current)
