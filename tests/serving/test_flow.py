"""Waiting for a client that does not read, and letting a client wait."""

from __future__ import annotations

import asyncio

import pytest

from kcp_py.serving.flow import FlowControl, LazyEvent


class Transport(asyncio.Transport):
    """Keeps whether it reads."""

    reads = True

    def pause_reading(self):
        assert self.reads
        self.reads = False

    def resume_reading(self):
        assert not self.reads
        self.reads = True


@pytest.mark.anyio
async def test_all_tasks_that_wait_for_an_event_go_on():
    """Those that wait when it is set, and those that come later, until it is cleared."""
    event = LazyEvent()
    waiting = [asyncio.ensure_future(event.wait()) for _ in range(2)]
    await asyncio.sleep(0)
    event.set()
    await asyncio.gather(*waiting)
    await event.wait()
    event.clear()
    again = asyncio.ensure_future(event.wait())
    await asyncio.sleep(0)
    assert not again.done()
    event.set()
    await again


@pytest.mark.anyio
async def test_the_application_waits_for_the_client_to_read():
    """While the transport takes no more, and not longer."""
    flow = FlowControl(Transport())
    await flow.drain()
    flow.pause_writing()
    waiting = [asyncio.ensure_future(flow.drain()) for _ in range(2)]
    await asyncio.sleep(0)
    assert [task.done() for task in waiting] == [False, False]
    flow.resume_writing()
    await asyncio.gather(*waiting)
    await flow.drain()


def test_reading_that_is_held_does_not_go_on():
    """A part of a body that is asked for does not end a hold; its release does."""
    transport = Transport()
    flow = FlowControl(transport)
    flow.pause_reading()
    flow.pause_reading()
    flow.hold()
    flow.resume_reading()
    assert not transport.reads
    flow.release()
    assert transport.reads
    flow.resume_reading()
