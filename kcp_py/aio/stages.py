"""`next_stage`: requests in progress take the steps of their work together, one kind of work after the other.

The code and the data of a write take several times what fits into the first caches of a processor. If each request ran from its beginning
to its end before the next one, every one of its functions would be loaded again for every request. Between two stages a request lets the
others catch up. So the code of a stage is loaded once for all requests that are in progress. A request without company pays an empty
iteration of the event loop for each stage, a few microseconds.
"""

from __future__ import annotations

import threading
import types
from collections.abc import Generator


class _Stages(threading.local):
    """Those of the event loop of a thread."""

    ended = 0


_stages = _Stages()


@types.coroutine
def next_stage() -> Generator[None, None, None]:
    """Let other requests take the stage that this one has ended. Await it where nothing is half done."""
    _stages.ended += 1
    # `asyncio.sleep(0)` does the same in two more frames.
    yield


def stages_ended() -> int:
    """How many stages the requests of the event loop of this thread have ended so far.

    A request ends a stage in each iteration of the event loop until it becomes a write. While the number grows, there are requests that may
    become writes soon. Requests that are given up, even with their event loop, are not mistaken for those: only what happens counts.
    """
    return _stages.ended
