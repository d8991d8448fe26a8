"""What members say about themselves."""

from __future__ import annotations

import pytest

from kcp_py.storage.etcd.maintenance import Status


@pytest.mark.anyio
async def test_status(storage):
    """A real member has a version, a leader and a size."""
    status = await storage.status()
    assert status.version >= (3, 4, 0)
    assert status.leader == status.member
    assert 0 < status.size_in_use <= status.size
    assert status.errors == ()


@pytest.mark.parametrize(
    ("version", "ordered"),
    [
        ((3, 3, 99), False),
        ((3, 4, 30), False),
        ((3, 4, 31), True),
        ((3, 5, 1), False),
        ((3, 5, 12), False),
        ((3, 5, 13), True),
        ((3, 6, 0), True),
        ((4, 0, 0), True),
        ((0, 0, 0), False),
    ],
)
def test_versions_with_ordered_progress(version, ordered):
    """Progress on request is relied on exactly where it is right."""
    assert Status(version, 1, 1, 1, 1, 1, ()).ordered_progress is ordered
