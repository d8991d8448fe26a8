"""`settle`: waits until a control plane has done the work that is due."""

from __future__ import annotations

import asyncio
from typing import Final

from kcp_py.controlplane import ControlPlane

_TURNS: Final = 10
"""Turns of the event loop between two looks: code that has taken an event puts a key into a queue meanwhile."""
_CALM: Final = 3
"""Looks in a row that find nothing to do and no new revision."""
PATIENCE: Final = 30.0


async def settle(control_plane: ControlPlane, *, timeout: float = PATIENCE) -> None:
    """Wait until the controllers in the process have nothing to do that is due, and watches in the process have been read.

    Keys that wait for their time, retries among them, are not due. Programs over HTTP are not known.

    Args:
        control_plane: entered.
        timeout: seconds of the machine.

    Raises:
        TimeoutError: with the names of those that still work.
        StorageError: the store cannot be read.
    """
    backend, storage = control_plane.backend, control_plane.backend.access.storage

    def busy() -> list[str]:
        reading = ["reading objects that existed at the start"] if control_plane.tap.reads_existing else []
        return reading + [loop.name for loop in control_plane.loops if not loop.queue.idle]

    calm, seen = 0, (-1, -1)
    try:
        async with asyncio.timeout(timeout):
            while calm < _CALM:
                for _ in range(_TURNS):
                    await asyncio.sleep(0)
                # Events that a client does not read stay unread: only changes of their number show that there is work.
                state = (await storage.revision(), backend.fanout.unread)
                if backend.fanout.revision >= state[0] and state == seen and not busy():
                    calm += 1
                else:
                    calm, seen = 0, state
    except TimeoutError:
        doing = ", ".join(busy()) or "following the changes of the store"
        raise TimeoutError(f"there was work to do for {timeout:g} s: {doing}") from None
