"""Requests for a connection to an object, such as `pods/exec`, whatever their method."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.apimachinery.meta.options import CreateOptions
from kcp_py.registry.admission import attributes_of
from kcp_py.registry.writerequest import Resolved, WriteRequest
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.backend import Backend

_FLAGS: Final = frozenset({"stdin", "stdout", "stderr", "tty"})
_PARTS_OF_SUBRESOURCE: Final = 3
"""Resource, name, subresource."""
_LISTS: Final = frozenset({"command", "ports"})


async def connect(backend: Backend, exchange: Exchange, target: Resolved) -> None:
    """Admit the request, and answer with what comes of it: nothing, or an error.

    Plugins see the operation `CONNECT` with the options as the object, as upstream (apiserver `ConnectResource`). They do not see
    reads of logs.
    """
    subresource = target.resource.subresources[target.subresource]
    assert subresource.connections is not None, "the handler was chosen for them"
    query = exchange.query if subresource.kind is None else await admit(backend, exchange, target, subresource.kind)
    await subresource.connections.connect(target, query)
    await exchange.respond(204, b"")


async def admit(backend: Backend, exchange: Exchange, target: Resolved, kind: GroupVersionKind) -> Mapping[str, Sequence[str]]:
    """Ask the plugins about a connection.

    Args:
        backend: has the plugins.
        exchange: the request.
        target: what the connection is to.
        kind: of the options.

    Returns:
        The parameters of the request, as the plugins have left them.

    Raises:
        StatusError: of a plugin.
    """
    query, admission = exchange.query, backend.access.admission
    request = WriteRequest(exchange.context, target, CreateOptions())
    document = options_document(str(kind.group_version), kind.kind, query)
    if rest := exchange.context.info.parts[_PARTS_OF_SUBRESOURCE:]:
        # Only a proxy has further segments. They replace the parameter, as upstream.
        document["path"] = "/" + "/".join(rest)
    given = dict(document)
    attributes = attributes_of("CONNECT", request, target.namespace, target.name, obj=document, old=None, compares=[])
    await admission.mutate(attributes, own_kind=False)
    await admission.validate(attributes)
    return query if document == given else {**query, **query_of(document, given)}


def options_document(api_version: str, kind: str, query: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    """The options of a connection as an object."""
    found: dict[str, Any] = {"apiVersion": api_version, "kind": kind}
    for name, values in query.items():
        if name in _FLAGS:
            if values[0].lower() not in {"false", "0"}:
                found[name] = True
        elif name in _LISTS:
            found[name] = [int(one) for one in values if one.isdecimal()] if name == "ports" else list(values)
        elif name in {"container", "path"}:
            found[name] = values[0]
    return found


def query_of(document: Mapping[str, Any], given: Mapping[str, Any]) -> dict[str, list[str]]:
    """The parameters of a connection whose options plugins changed."""
    found: dict[str, list[str]] = {}
    for name in (_FLAGS | _LISTS | {"container"}) & {*document, *given}:
        value = document.get(name)
        if name in _FLAGS:
            found[name] = [str(value is True).lower()]
        else:
            found[name] = [str(one) for one in (value if isinstance(value, list) else () if value is None else (value,))]
    return found
