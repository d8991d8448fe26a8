"""The form of Tables: rows without the ages in their cells, which are put in when a list is answered.

A row follows from the JSON of its object, from the columns of the resource, and from the part of the object that rows contain. An age
depends on the time in addition: a kept row has a slot in its place, which contains the moment from which the age counts. A slot begins and
ends with a NUL, which JSON does not contain otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import lru_cache
from typing import Any, Final

import orjson

from kcp_py.aio.cooperative import TimeSlice
from kcp_py.aio.offload import Inline, offload
from kcp_py.apimachinery.meta.table import IncludeObject, LastingCell, Since, shown_since
from kcp_py.apimachinery.serializer.json.selected import Decoder, Path, decoder
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.store import Form
from kcp_py.server.negotiation import Representation

_METADATA: Final = "metadata"
_NOTHING: Final[Mapping[str, Any]] = {}
_MOST_PATHS: Final = 64
"""Members that are decoded one by one: a decoder of so many takes a millisecond to make."""
_SLOT: Final = b"\x00"
_BYTES_PER_LOOK: Final = 64 * 1024
"""Bytes of objects between two looks at the clock, a fraction of a millisecond."""


def table_form_of(resource: ServedResource, representation: Representation, include: IncludeObject, *, now: float) -> Form | None:
    """The form of the rows of a Table in one cluster.

    Args:
        resource: of the objects.
        representation: of the list.
        include: what rows contain of their objects.
        now: in unix seconds.

    Returns:
        None for a list that is not a Table in compact JSON, and where cells depend on the time in other ways than by ages.
    """
    if representation.transform != "Table" or representation.media != "json" or representation.pretty:
        return None
    cells = [column.cell for column in resource.columns]
    lasting = [cell for cell in cells if isinstance(cell, LastingCell)]
    if len(lasting) < len(cells):
        return None
    return _TableForm(resource, lasting, include or "Metadata", representation.api_version, now=now)


class _Ages(dict[bytes, bytes]):
    """Moment -> the text of its age, for the time of one list."""

    def __init__(self, now: float) -> None:
        super().__init__()
        self._now = now

    def __missing__(self, moment: bytes) -> bytes:
        text = self[moment] = shown_since(moment.decode(), self._now).encode()
        return text


class _TableForm:
    """Rows of a Table."""

    separator = b","

    def __init__(
        self,
        resource: ServedResource,
        cells: Sequence[LastingCell],
        include: IncludeObject,
        api_version: str,
        *,
        now: float,
    ) -> None:
        # Cells are compared by identity: equal ones are those of one compiled definition.
        self.key: Hashable = ("table", resource.group_version, resource.kind, api_version, include, tuple(cells))
        self._cells = cells
        self._find = _finder(cells)
        self._include = include
        head = orjson.dumps({"kind": "PartialObjectMetadata", "apiVersion": api_version, "metadata": {}})[:-3]
        self._metadata_head = b',"object":' + head
        # Items of lists of typed kinds do not have these members.
        types = {"apiVersion": resource.group_version, "kind": resource.kind, "": 0}
        self._head = orjson.dumps(types)[: -len(b'"":0}')] if resource.typed else b"{"
        self._ages = _Ages(now)
        self._keeps = include == "Metadata"
        self._decoders = _decoders(cells, keeps=self._keeps)

    async def elements(self, documents: Sequence[bytes]) -> list[bytes]:
        rows: list[bytes] = []
        turns = TimeSlice()
        batch: list[bytes] = []
        size = 0
        for document in documents:
            if len(document) > Inline.TRANSFORM:
                rows += self._rows(batch)
                rows.append(await offload(self._whole_row, document))
                batch, size = [], 0
                continue
            batch.append(document)
            size += len(document)
            if size > _BYTES_PER_LOOK:
                rows += self._rows(batch)
                await turns.yield_if_due()
                batch, size = [], 0
        return rows + self._rows(batch)

    def _rows(self, documents: list[bytes]) -> list[bytes]:
        """The rows of some objects, without decoding what cells do not read."""
        if self._decoders is None or not documents:
            return list(map(self._whole_row, documents))
        try:
            return self._selected_rows(documents, *self._decoders)
        except (AttributeError, LookupError, RecursionError, TypeError, ValueError):
            # One of them has values of other types than usual ones.
            if len(documents) == 1:
                return [self._whole_row(documents[0])]
            return [row for document in documents for row in self._rows([document])]

    def _selected_rows(self, documents: list[bytes], decode: Decoder, decode_metadata: Decoder) -> list[bytes]:
        objects = [decode(document) for document in documents]
        metadata: list[Any] = []
        if self._keeps:
            metadata = [obj[_METADATA] for obj in objects]
            for obj, raw in zip(objects, metadata, strict=True):
                obj[_METADATA] = decode_metadata(raw)
        columns = _columns(self._cells, objects)
        # A result of orjson keeps its whole buffer of at least 4 KiB: these are dropped at once.
        if self._keeps:
            head, join, dumps = self._metadata_head, b"".join, orjson.dumps
            found = zip(zip(*columns, strict=True), metadata, strict=True)
            return [join((b'{"cells":', dumps(cells, default=_slot), head, raw, b"}}")) for cells, raw in found]
        found = zip(zip(*columns, strict=True), documents, strict=True)
        return [self._with_object(orjson.dumps(cells, default=_slot), document) for cells, document in found]

    def _whole_row(self, document: bytes) -> bytes:
        obj = orjson.loads(document)
        cells = orjson.dumps(self._find(obj), default=_slot)
        if self._keeps:
            return b"".join((b'{"cells":', cells, self._metadata_head, orjson.dumps(obj.get("metadata") or {}), b"}}"))
        return self._with_object(cells, document)

    def _with_object(self, cells: bytes, document: bytes) -> bytes:
        if self._include == "Object":
            return b'{"cells":%b,"object":%b%b}' % (cells, self._head, document[1:])
        return b'{"cells":%b,"object":null}' % cells

    def shown(self, elements: bytes) -> bytes:
        parts = elements.split(_SLOT)
        if len(parts) > 1:
            ages = self._ages
            parts[1::2] = [ages[moment] for moment in parts[1::2]]
        return b"".join(parts)


def _decoders(cells: Sequence[LastingCell], *, keeps: bool) -> tuple[Decoder, Decoder] | None:
    """What decodes those members of an object that cells read: the object, and its metadata where that is kept as bytes.

    Returns:
        None where all members have to be decoded.
    """
    paths = frozenset[Path]().union(*(cell.reads for cell in cells))
    if () in paths or len(paths) > _MOST_PATHS:
        return None
    if not keeps:
        return decoder(paths), decoder(frozenset())
    inner = frozenset(path[1:] for path in paths if path[0] == _METADATA)
    return decoder(frozenset(path for path in paths if path[0] != _METADATA), raw=_METADATA), decoder(inner)


def _columns(cells: Sequence[LastingCell], objects: Sequence[Mapping[str, Any]]) -> list[list[Any]]:
    """The cells of all columns, in the order of the objects. Values of members of objects are objects where cells find them by `Plain`."""
    columns: list[list[Any]] = []
    common: dict[Any, list[Any]] = {}
    for cell in cells:
        if (plain := cell.plain) is not None:
            first, second, usual, show = plain
            outer = common.get(first)
            if outer is None:
                outer = common[first] = [obj.get(first, _NOTHING) for obj in objects]
            values = [inner.get(second) for inner in outer]
            if usual is None or {*map(type, values)} != {usual}:
                values = [value if type(value) is usual else show(value) for value in values]
            columns.append(values)
        elif cell.of is not None:
            seen = common.get(cell.of)
            if seen is None:
                seen = common[cell.of] = list(map(cell.of, objects))
            columns.append(list(map(cell.find, seen)))
        else:
            columns.append(list(map(cell.find, objects)))
    return columns


def _finder(cells: Sequence[LastingCell]) -> Callable[[Mapping[str, Any]], list[Any]]:
    """What finds all cells of a row."""
    bases = list(dict.fromkeys(cell.of for cell in cells if cell.of is not None))
    pairs = [(cell.find, 0 if cell.of is None else bases.index(cell.of) + 1) for cell in cells]

    def found(obj: Mapping[str, Any]) -> list[Any]:
        seen = [obj, *[base(obj) for base in bases]]
        return [find(seen[at]) for find, at in pairs]

    return found


@lru_cache(maxsize=1024)
def _slot(cell: Since) -> orjson.Fragment:
    """The slot of an age, the only cell that JSON does not have."""
    before, behind = orjson.dumps(cell.before)[:-1], orjson.dumps(cell.behind)[1:]
    return orjson.Fragment(b"%b%b%b%b%b" % (before, _SLOT, cell.moment.encode(), _SLOT, behind))
