"""GET of one object, or of what a subresource gives."""

from __future__ import annotations

from kcp_py.apimachinery.meta.options import ListOptions
from kcp_py.registry.rest.storage import ReadRequest
from kcp_py.registry.writerequest import Resolved
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import representation_of, send
from kcp_py.server.handlers.backend import Backend


async def get(backend: Backend, exchange: Exchange, target: Resolved) -> None:
    """Answer with the object, also for its `/status`, or with its Scale."""
    representation = representation_of(exchange, target.served.resource)
    if exchange.scope["query_string"]:
        query = exchange.parameters.values
        version, cluster = query.get("resourceVersion"), query.get("cluster")
        options = ListOptions(resource_version=version[0]) if version else ListOptions()
        request = ReadRequest(exchange.context, target, options, cluster[0] if cluster else "")
    else:
        request = ReadRequest(exchange.context, target)
    found = await backend.verbs.of(target).get(request)
    await send(backend, exchange, target, found, representation)
