"""OpenAPI over HTTP: the index of v3, its documents, and the document of v2, in JSON and in protobuf.

Source: kube-openapi `pkg/handler` (v2), `pkg/handler3`; Go's `http.ServeContent` for conditional requests.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime, formatdate, parsedate_to_datetime
from typing import Final, NamedTuple

from kcp_py.apimachinery import errors
from kcp_py.registry.openapi import OpenAPIDocuments
from kcp_py.server.accept import parse_accept
from kcp_py.server.etags import is_current
from kcp_py.server.exchange import Exchange
from kcp_py.server.responsehead import JSON, TEXT, Header

_VARY: Final = (b"vary", b"Accept")
_MAX_ACCEPT_BYTES: Final = 8 * 1024


class _Media(NamedTuple):
    """A media type under the name that clients ask for it, and under the one that is answered."""

    asked: str
    answered: bytes
    protobuf: bool


def _medias(version: int) -> tuple[_Media, ...]:
    name = f"application/com.github.proto-openapi.spec.v{version}"
    answered = f"{name}.v1.0+protobuf".encode()
    # The name with an `@` is not a media type: it occurs in Accept headers only.
    return (
        _Media("application/json", JSON, protobuf=False),
        _Media(f"{name}@v1.0+protobuf", answered, protobuf=True),
        _Media(f"{name}.v1.0+protobuf", answered, protobuf=True),
    )


_V2: Final = _medias(2)
_V3: Final = _medias(3)


async def send_index(exchange: Exchange, openapi: OpenAPIDocuments, modified: float) -> None:
    """Answer `/openapi/v3`, which is JSON whatever is accepted.

    Args:
        exchange: the request.
        openapi: of the cluster.
        modified: since when the cluster serves these resources, in unix seconds.
    """
    document = await openapi.index(path_prefix(exchange))
    if not await _unmodified(exchange, document.etag, modified):
        await exchange.respond(200, document.body, JSON, _validators(document.etag, modified))


async def send_v2(exchange: Exchange, openapi: OpenAPIDocuments, modified: float) -> None:
    """Answer `/openapi/v2`. Arguments: `send_index`."""
    if (media := await _negotiated(exchange, _V2)) is None or await _unmodified(exchange, etag := await openapi.v2_etag(), modified, _VARY):
        return
    document = await openapi.v2(protobuf=media.protobuf)
    await exchange.respond_in_parts(200, document.parts, media.answered, (*_validators(etag, modified), _VARY))


async def send_group_version(exchange: Exchange, openapi: OpenAPIDocuments, modified: float, *, group: str, version: str) -> None:
    """Answer one document of v3. With the hash of the index it may be kept for ever; with another one the client is sent to the right one.

    Raises:
        StatusError: 404, not served.
    """
    right = await openapi.hash_of(group, version)
    if not right:
        raise errors.unknown_path()
    if (media := await _negotiated(exchange, _V3)) is None:
        return
    headers: tuple[Header, ...] = (_VARY,)
    if asked := exchange.query.get("hash"):
        if asked[0].upper() != right:
            location = f"{path_prefix(exchange)}{exchange.context.info.path.rstrip('/')}?hash={right}"
            await exchange.respond(301, b"", TEXT, ((b"location", location.encode()), _VARY))
            return
        expires = format_datetime(datetime.now(UTC) + timedelta(days=365), usegmt=True).encode()
        headers = (_VARY, (b"cache-control", b"public, immutable"), (b"expires", expires))
    if await _unmodified(exchange, f'"{right}"', modified, *headers):
        return
    document = await openapi.group_version(group, version, protobuf=media.protobuf)
    if document is None:
        raise errors.unknown_path()
    await exchange.respond_in_parts(200, document.parts, media.answered, (*_validators(document.etag, modified), *headers))


def path_prefix(exchange: Exchange) -> str:
    """What stands before the API's own paths in the client's URL: clients resolve the index's URLs against the host alone."""
    if exchange.scope["raw_path"].startswith(b"/clusters/"):
        return f"/clusters/{exchange.context.cluster}"
    return ""


async def _negotiated(exchange: Exchange, medias: Sequence[_Media]) -> _Media | None:
    """The media type to answer in; None if there is none, which is answered then, without a Status, as upstream does."""
    accept = exchange.headers.get(b"accept", b"")[:_MAX_ACCEPT_BYTES].decode("latin-1") or "*/*"
    for clause in parse_accept(accept):
        for media in medias:
            if clause.includes(media.asked.removeprefix("application/")):
                return media
    await exchange.respond(406, b"", TEXT, (_VARY,))
    return None


async def _unmodified(exchange: Exchange, etag: str, modified: float, *headers: Header) -> bool:
    """Answer 304 if the client has the current document. Returns whether it has."""
    tags = exchange.headers.get(b"if-none-match")
    if tags is not None:
        if not is_current(tags, etag, weak=True):
            return False
    elif not _not_since(exchange.headers.get(b"if-modified-since"), modified):
        return False
    await exchange.respond_not_modified(((b"etag", etag.encode()), *headers))
    return True


def _not_since(header: bytes | None, modified: float) -> bool:
    if header is None:
        return False
    try:
        since = parsedate_to_datetime(header.decode("latin-1"))
    except (ValueError, OverflowError):
        return False
    return since.tzinfo is not None and int(modified) <= since.timestamp()


def _validators(etag: str, modified: float) -> tuple[Header, ...]:
    return (b"etag", etag.encode()), (b"last-modified", formatdate(modified, usegmt=True).encode())
