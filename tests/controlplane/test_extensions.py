"""What a program adds to its control plane, and until when."""

from __future__ import annotations

import pytest

from kcp_py import ControlPlane, Options

pytestmark = pytest.mark.anyio


async def test_nothing_is_added_to_a_running_control_plane() -> None:
    """A decorator that comes too late says so, instead of being ignored."""
    async with ControlPlane(Options(storage="memory")) as control_plane:
        with pytest.raises(RuntimeError, match="before it is entered"):
            control_plane._check_open()
    ControlPlane(Options(storage="memory"))._check_open()
