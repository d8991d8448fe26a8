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


class _Requests(threading.local):
    """Those of the event loop of a thread."""

    between_stages = 0


_requests = _Requests()


@types.coroutine
def next_stage() -> Generator[None, None, None]:
    """Let other requests take the stage that this one has ended. Await it where nothing is half done."""
    _requests.between_stages += 1
    try:
        # `asyncio.sleep(0)` does the same in two more frames.
        yield
    finally:
        _requests.between_stages -= 1


def between_stages() -> int:
    """How many requests of the event loop of this thread wait for their next stage, and so may become writes soon."""
    return _requests.between_stages
