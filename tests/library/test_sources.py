"""A contained source answers for itself, and passes on what concerns one cluster alone."""

from __future__ import annotations

import pytest

from kcp_py.library.sources import ContainedSource
from kcp_py.logicalcluster import parse_name
from kcp_py.registry.catalog.static import StaticSource
from kcp_py.storage.contract import StorageError

pytestmark = pytest.mark.anyio


class Outage(StaticSource):
    """A source whose store does not answer."""

    async def clusters(self, resource: object) -> list[object]:  # type: ignore[override]
        raise StorageError(str(resource))


async def test_an_outage_of_the_store_is_not_a_failure_of_the_source() -> None:
    """It is answered as such, and not with an empty list."""
    source = ContainedSource(Outage(()))
    with pytest.raises(StorageError):
        await source.clusters(None)  # type: ignore[arg-type]
    assert await source.resources(parse_name("team-a")) == ()
    assert await source.group_resources() == set()
    source.invalidate(parse_name("team-a"))
    source.clear()
