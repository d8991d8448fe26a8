"""Work places of tasks that wait."""

from __future__ import annotations

import pytest

from kcp_py.aio.workplace import WORKPLACE, away_from_work

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
    async with away_from_work():
        pass
    place = Place()
    token = WORKPLACE.set(place)
    try:
        async with away_from_work():
            assert place.done == ["rest"]
        assert place.done == ["rest", "resume"]
        with pytest.raises(ValueError, match="gone"):
            async with away_from_work():
                raise ValueError("gone")
        assert place.done == ["rest", "resume", "rest"]
    finally:
        WORKPLACE.reset(token)
