"""Work places of tasks that wait."""

from __future__ import annotations

import pytest

from kcp_py.aio.slot import CURRENT_SLOT, REQUEST_SLOT, released_slot

pytestmark = pytest.mark.anyio


class Place:
    """Records its calls."""

    def __init__(self) -> None:
        self.done: list[str] = []

    def rest(self) -> None:
        self.done.append("rest")

    async def resume(self) -> None:
        self.done.append("resume")


async def test_a_place_is_left_and_taken_again() -> None:
    """Before and after the wait; not where the wait failed, and without a place there is nothing to do."""
    async with released_slot():
        pass
    place = Place()
    token = CURRENT_SLOT.set(place)
    try:
        async with released_slot():
            assert place.done == ["rest"]
        assert place.done == ["rest", "resume"]
        with pytest.raises(ValueError, match="gone"):
            async with released_slot():
                raise ValueError("gone")
        assert place.done == ["rest", "resume", "rest"]
    finally:
        CURRENT_SLOT.reset(token)


async def test_the_place_of_the_request_is_left_as_well() -> None:
    """Both bounds are for work, not for waiting."""
    place = Place()
    tokens = CURRENT_SLOT.set(place), REQUEST_SLOT.set(place)
    try:
        async with released_slot():
            assert place.done == ["rest", "rest"]
        assert place.done[2:] == ["resume", "resume"]
    finally:
        CURRENT_SLOT.reset(tokens[0])
        REQUEST_SLOT.reset(tokens[1])
