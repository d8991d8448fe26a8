"""GET of a collection: the three forms of a list, in every encoding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.options import decode_include_object, decode_list_options
from kcp_py.registry.rest.items import left_out_warnings
from kcp_py.registry.rest.listing import Listing, Selected
from kcp_py.registry.rest.storage import ReadRequest
from kcp_py.registry.store import Form
from kcp_py.registry.writerequest import Resolved
from kcp_py.server.exchange import Exchange
from kcp_py.server.handlers.answer import not_of_kind, representation_of
from kcp_py.server.handlers.backend import Backend
from kcp_py.server.handlers.collection import list_encoding, list_head, send_objects
from kcp_py.server.handlers.itemencoder import ItemEncoder
from kcp_py.server.handlers.listbudget import Share
from kcp_py.server.handlers.listforms import form_of
from kcp_py.server.handlers.tablecolumns import TableColumns
from kcp_py.server.handlers.tableforms import table_form_of
from kcp_py.server.negotiation import Representation

_END: Final = b"]}\n"
_SPLICED_PER_LOOK: Final = 64
"""Objects between two looks at the clock."""


async def list_objects(backend: Backend, exchange: Exchange, target: Resolved) -> None:
    """Answer with the list, in one body as long as one chunk holds it, streamed beyond that.

    Raises:
        StatusError: 400, 406, 410, 422, 504.
    """
    representation = representation_of(exchange, target.resource, listed=True)
    options = decode_list_options(exchange.parameters.values)
    if representation.transform == "PartialObjectMetadata":
        raise not_of_kind(target.resource, representation.transform)
    include = decode_include_object(exchange.parameters.values)
    listed = await backend.verbs.of(target).list(ReadRequest(exchange.context, target, options))
    if not isinstance(listed, Listing):
        await send_objects(
            backend,
            exchange,
            target,
            listed.items,
            representation,
            revision=listed.revision,
            page=(listed.continue_token, listed.remaining),
        )
        return
    form = form_of(target.resource, representation) or table_form_of(target.resource, representation, include, now=backend.clock())
    encoder = ItemEncoder(backend, listed.target, representation, include, items=listed.items)
    await encoder.find_columns()
    encoder.columns.freeze()
    cluster = str(target.only.name) if target.only is not None else "*"
    with backend.lists.share(cluster, target.resource.keys.prefix) as share:
        if target.only is not None and target.resource.converter is None:
            # Reads that wait for webhooks take no turns: a webhook that hangs would delay other lists.
            await share.begin()
        if form is not None and listed.renderable:
            if representation.media == "json":
                await _answer_rendered(exchange, listed, representation, share, form)
            else:
                await _answer_formed(exchange, listed, representation, share, form)
        elif representation.media != "json" or representation.pretty:
            await _answer_encoded(exchange, listed, encoder, representation, share=share)
        elif not representation.transform and listed.renderable:
            await _answer_rendered(exchange, listed, representation, share)
        else:
            await _answer_elements(exchange, listed, encoder, representation, share=share)


async def _answer_elements(
    exchange: Exchange, listing: Listing, encoder: ItemEncoder, representation: Representation, *, share: Share
) -> None:
    """The list element by element."""
    body = await _body_of_elements(exchange, listing, encoder, representation, share=share)
    share.end_turn()
    if body:
        # Its client may take a minute to read it: nothing that it was made of is alive any more.
        await exchange.respond_in_parts(200, [body])


async def _body_of_elements(
    exchange: Exchange, listing: Listing, encoder: ItemEncoder, representation: Representation, *, share: Share
) -> bytes:
    """The whole answer; empty where it was streamed."""
    options = listing.options
    elements: list[bytes] = []
    size = 0
    streaming = False
    time_slice = TimeSlice()
    async for found in listing.portions(as_stored=encoder.is_answered_as_stored):
        parts = await _elements(encoder, found, time_slice)
        elements += parts
        size += sum(map(len, parts))
        # These names must not keep sent data alive while the next portion is read.
        del found, parts
        share.hold(size, started=streaming)
        if streaming:
            elements[0] = b"," + elements[0]
        elif listing.more and not options.limit:
            streaming = True
            exchange.warnings.extend(left_out_warnings(listing.items.left_out))
            await exchange.start_stream()
            elements[0] = _compact_head(listing, representation, encoder.columns) + elements[0]
        if streaming:
            chunk = b",".join(elements)
            elements.clear()
            size = 0
            await exchange.send_chunk(chunk)
            del chunk
    if streaming:
        await exchange.send_chunk(_END)
        await exchange.finish()
        return b""
    exchange.warnings.extend(left_out_warnings(listing.items.left_out))
    head = _compact_head(listing, representation, encoder.columns)
    if elements:
        # Joined once: a large list is copied no more often than it has to be.
        elements[0] = head + elements[0]
        elements[-1] += _END
    return b",".join(elements) if elements else head + _END


async def _elements(encoder: ItemEncoder, found: Sequence[Selected], time_slice: TimeSlice) -> list[bytes]:
    """The elements of one portion."""
    parts = await encoder.spliced([one.item for one in found])
    if parts is None:
        parts = []
        for at, (item, served, cluster, obj) in enumerate(found, start=1):
            part = encoder.element_as_stored(item, served, cluster)
            if part is None:
                part = await encoder.element(item, served, cluster, obj)
                await time_slice.yield_if_due()
            elif at % _SPLICED_PER_LOOK == 0:
                await time_slice.yield_if_due()
            parts.append(part)
    return parts


async def _answer_encoded(
    exchange: Exchange, listing: Listing, encoder: ItemEncoder, representation: Representation, *, share: Share
) -> None:
    """The list in any form but compact JSON."""
    body = await _encoded_body(exchange, listing, encoder, representation, share=share)
    share.end_turn()
    await exchange.respond_in_parts(200, [body], representation.content_type)


async def _encoded_body(
    exchange: Exchange, listing: Listing, encoder: ItemEncoder, representation: Representation, *, share: Share
) -> bytes:
    """The whole answer, made element by element, so that the event loop is not held up."""
    encoding = list_encoding(listing.target.resource, representation)
    elements: list[bytes] = []
    size = 0
    time_slice = TimeSlice()
    async for found in listing.portions(as_stored=encoder.is_answered_as_stored):
        for one in found:
            document = await encoder.document(one.item, one.served, one.cluster, one.obj)
            try:
                elements.append(await encoding.element_offloaded(document, len(one.item.value)))
            except StatusError as error:
                if not encoder.wildcard:
                    raise
                listing.items.left_out[one.cluster] = error
                continue
            size += len(elements[-1])
            await time_slice.yield_if_due()
        share.hold(size)
    exchange.warnings.extend(left_out_warnings(listing.items.left_out))
    return b"".join(encoding.whole(_head(listing, representation, encoder.columns), elements))


async def _answer_formed(exchange: Exchange, listing: Listing, representation: Representation, share: Share, form: Form) -> None:
    """A list in protobuf whose elements are kept in that form. Its envelope begins with the length of the whole."""
    parts: list[bytes] = []
    size = 0
    while True:
        page = (await listing.rendered(form)).parts
        size += sum(map(len, page))
        share.hold(size)
        parts += page
        if listing.options.limit or not listing.more:
            break
    encoding = list_encoding(listing.target.resource, representation)
    await exchange.respond_in_parts(200, encoding.whole(_head(listing, representation), parts), representation.content_type)


async def _answer_rendered(
    exchange: Exchange, listing: Listing, representation: Representation, share: Share, form: Form | None = None
) -> None:
    """A list in JSON whose elements need not be looked at one by one."""
    limit = listing.options.limit
    parts = (await listing.rendered(form)).parts
    share.hold(sum(map(len, parts)))
    head = _compact_head(listing, representation)
    # The first comma is one too many. Parts are large, so that none is copied more than once.
    first = memoryview(parts[0])[1:] if parts else b""
    if not listing.more or limit:
        if len(parts) > 1:
            parts[0] = b"".join((head, first))
            parts[-1] += _END
        else:
            parts = [b"".join((head, first, _END))]
        del first
        await exchange.respond_in_parts(200, parts)
        return
    parts[0] = b"".join((head, first))
    del first
    await exchange.start_stream()
    await _send_parts(exchange, parts)
    while listing.more:
        parts = (await listing.rendered(form)).parts
        share.hold(sum(map(len, parts)), started=True)
        await _send_parts(exchange, parts)
    await exchange.send_chunk(_END)
    await exchange.finish()


async def _send_parts(exchange: Exchange, parts: list[bytes]) -> None:
    """Send parts of a stream; each is freed when it was sent, before the next is read."""
    parts.reverse()
    while parts:
        await exchange.send_chunk(parts.pop())


def _head(listing: Listing, representation: Representation, columns: TableColumns | None = None) -> dict[str, Any]:
    """The list without its elements."""
    metadata: dict[str, Any] = {"resourceVersion": str(listing.revision)}
    if token := listing.continue_token():
        metadata["continue"] = token
        if not listing.selective and listing.remaining > 0:
            metadata["remainingItemCount"] = listing.remaining
    return list_head(listing.target.resource, representation, metadata, columns=columns.union if columns is not None else ())


def _compact_head(listing: Listing, representation: Representation, columns: TableColumns | None = None) -> bytes:
    """The list up to its first element."""
    key = "rows" if representation.transform == "Table" else "items"
    return orjson.dumps({**_head(listing, representation, columns), key: []})[:-2]
