"""A contained source answers for itself, and passes on what concerns one cluster alone."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Collection

import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.library.sources import ContainedSource
from kcp_py.logicalcluster import Name, parse_name
from kcp_py.registry.catalog.static import StaticSource
from kcp_py.storage.contract import StorageError

pytestmark = pytest.mark.anyio


WIDGETS = GroupResource("example.com", "widgets")


class Failing(StaticSource):
    """A source that names one cluster before it fails."""

    tells_single = True

    async def each_cluster(self, wanted: Collection[GroupResource]) -> AsyncGenerator[tuple[GroupResource, Name], None]:
        for resource in wanted:
            yield resource, parse_name("team-a")
            raise ValueError("no more")


class Outage(StaticSource):
    """A source whose store does not answer."""

    async def clusters(self, resource: object) -> list[object]:  # type: ignore[override]
        raise StorageError(str(resource))


async def test_an_outage_of_the_store_is_not_a_failure_of_the_source() -> None:
    """It is answered as such, and not with an empty list."""
    source = ContainedSource(Outage(()))
    with pytest.raises(StorageError):
        await source.clusters(None)  # type: ignore[arg-type]
    with pytest.raises(StorageError):
        _ = [pair async for pair in source.each_cluster({WIDGETS})]
    assert await source.resources(parse_name("team-a")) == ()
    assert not await source.resource_in(parse_name("team-a"), WIDGETS)
    assert await source.group_resources() == set()
    source.invalidate(parse_name("team-a"))
    source.clear()


async def test_clusters_up_to_a_failure() -> None:
    """A list over all clusters has those that the source has named before it failed."""
    source = ContainedSource(Failing(()))
    assert source.tells_single
    assert [pair async for pair in source.each_cluster({WIDGETS})] == [(WIDGETS, "team-a")]
