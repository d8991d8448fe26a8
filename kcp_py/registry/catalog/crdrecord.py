"""`run_crd_record`: keeps the index of CRDs in the store, so that the next process need not read the keys of all CRDs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Final

from kcp_py.registry.catalog.crdindex import CRDIndex
from kcp_py.storage.contract import StorageError
from kcp_py.watchcache import Fanout

LOOK_SECONDS: Final = 5.0
"""Between two looks at whether a record is due."""
LOOKS: Final = 12
"""After so many looks a record is due: once a minute."""
REVISIONS: Final = 20_000
"""After so many writes a record is due, so that the next start reads no more of the history."""


async def run_crd_record(index: CRDIndex, fanout: Fanout, *, sleep: Callable[[float], Awaitable[Any]]) -> None:
    """Fill the index from the record of the last process, and keep the record while the index is in use, until cancelled.

    The record is written again after each minute with writes, also of other objects than CRDs: it is useless when the history after its
    revision is compacted. No record is written before a request has needed the index.

    Args:
        index: of this process.
        fanout: the changes of the store, which the index follows.
        sleep: waits for seconds.

    Raises:
        StorageError: the store cannot be read; call again.
    """
    saved = await index.restore()
    looks = 0
    while True:
        await sleep(LOOK_SECONDS)
        looks += 1
        revision = fanout.revision
        if revision <= saved or not (not saved or looks >= LOOKS or revision - saved >= REVISIONS):
            continue
        looks = 0
        try:
            saved = await index.save(revision) or saved
        except StorageError:
            continue  # the store may be full: the next look tries again
