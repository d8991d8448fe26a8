"""`tune_start`, `tune_runtime`: the garbage collector and the threads of a process that serves, before and once it is ready."""

from __future__ import annotations

import gc
import sys


def tune_start() -> None:
    """Adapt the runtime to the start of a server."""
    # It makes about 60,000 containers and hardly any cycles: looking for cycles would take 5 % of it.
    gc.set_threshold(100_000)


def tune_runtime() -> None:
    """Adapt the runtime to a server. What exists at this time is taken to live as long as the process."""
    # What exists now lives as long as the process: the collector need not look at it again. The cycles in it are not worth a search.
    gc.freeze()
    # Requests make many short-lived containers and few cycles: looking for cycles 30 times less often is worth 6 % of a create.
    # The second generation is kept small: one turn of the event loop has to look at all of it.
    gc.set_threshold(20_000, 4, 100)
    # While a thread computes, the loop waits so long for its turn after every call to the store.
    sys.setswitchinterval(0.0005)
