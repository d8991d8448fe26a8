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
from kcp_py.apimachinery.meta.partial import partial_object_metadata
from kcp_py.apimachinery.meta.table import IncludeObject, LastingCell, Since, shown_since
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.store import Form
from kcp_py.server.negotiation import Representation

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
    lasting = [cell.find for cell in cells if isinstance(cell, LastingCell)]
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
        cells: Sequence[Callable[[Mapping[str, Any]], Any]],
        include: IncludeObject,
        api_version: str,
        *,
        now: float,
    ) -> None:
        # Cells are compared by identity: equal ones are those of one compiled definition.
        self.key: Hashable = ("table", resource.group_version, resource.kind, api_version, include, tuple(cells))
        self._cells = cells
        self._include = include
        self._api_version = api_version
        # Items of lists of typed kinds do not have these members.
        head = {"apiVersion": resource.group_version, "kind": resource.kind, "": 0}
        self._head = orjson.dumps(head)[: -len(b'"":0}')] if resource.typed else b"{"
        self._ages = _Ages(now)

    async def elements(self, documents: Sequence[bytes]) -> list[bytes]:
        rows: list[bytes] = []
        turns = TimeSlice()
        size = 0
        for document in documents:
            size += len(document)
            if len(document) > Inline.TRANSFORM:
                rows.append(await offload(self._row, document))
            else:
                rows.append(self._row(document))
            if size > _BYTES_PER_LOOK:
                size = 0
                await turns.yield_if_due()
        return rows

    def _row(self, document: bytes) -> bytes:
        obj = orjson.loads(document)
        # A result of orjson keeps its whole buffer of at least 4 KiB: these are dropped at once.
        cells = orjson.dumps([find(obj) for find in self._cells], default=_slot)
        if self._include == "Metadata":
            return b'{"cells":%b,"object":%b}' % (cells, orjson.dumps(partial_object_metadata(obj, self._api_version)))
        if self._include == "Object":
            return b'{"cells":%b,"object":%b%b}' % (cells, self._head, document[1:])
        return b'{"cells":%b,"object":null}' % cells

    def shown(self, elements: bytes) -> bytes:
        parts = elements.split(_SLOT)
        if len(parts) > 1:
            ages = self._ages
            parts[1::2] = [ages[moment] for moment in parts[1::2]]
        return b"".join(parts)


@lru_cache(maxsize=1024)
def _slot(cell: Since) -> orjson.Fragment:
    """The slot of an age, the only cell that JSON does not have."""
    return orjson.Fragment(b'"%b%b%b"' % (_SLOT, cell.moment.encode(), _SLOT))
