"""What every verb needs: the errors of clients, observers, and conditions."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.logicalcluster import Name
from kcp_py.registry.store.access import compares_of, translate
from kcp_py.storage import contract
from tests.client.registry import CONFIG_MAPS, WIDGETS, config_map
from tests.registry.store.conftest import CLUSTER_KEY, CRD_KEY, TEAM, World


@pytest.mark.parametrize(
    ("error", "code", "reason", "retry_after"),
    [
        pytest.param(contract.CompactedError(3, 5), 410, "Expired", None, id="compacted"),
        pytest.param(contract.FutureRevisionError(9, 5), 504, "Timeout", 1, id="future"),
        pytest.param(contract.NoSpaceError(), 507, "", None, id="full"),
        pytest.param(contract.UnavailableError(), 503, "ServiceUnavailable", 1, id="away"),
        pytest.param(contract.UnknownOutcomeError(), 504, "Timeout", None, id="perhaps carried out"),
        pytest.param(contract.StorageError("secret"), 500, "InternalError", None, id="anything else"),
    ],
)
def test_storage_errors_become_statuses(error: contract.StorageError, code: int, reason: str, retry_after: int | None) -> None:
    """Each has its own code, none shows internals of the store, and only writes that were not carried out may be repeated."""
    status = translate(error)
    assert (status.code, status.reason, status.retry_after_seconds) == (code, reason, retry_after)
    assert "secret" not in status.message


class Log:
    """An observer that keeps its events, and the store's content at the time."""

    def __init__(self) -> None:
        self.told: list[tuple[str, Name]] = []

    def writing(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        del keys
        self.told.append(("writing", cluster))

    def written(self, cluster: Name, keys: Sequence[str] = ()) -> None:
        del keys
        self.told.append(("written", cluster))


@pytest.mark.anyio
async def test_observers_are_called_before_and_after_a_write_even_if_it_fails(world: World) -> None:
    """A cache may neither keep what it read during a write nor think that a write goes on for ever."""
    log = Log()
    prefix = (await world.served()).resource.keys.prefix
    world.registry.access.observe(prefix, log)
    world.storage.before_write(lambda: world.storage.transact((), (contract.Put(f"{prefix}{TEAM}/default/one", b"{}"),)))
    with pytest.raises(StatusError):
        await world.create(config_map("one"))
    assert log.told == [("writing", TEAM), ("written", TEAM)]
    await world.create(config_map("two"))
    assert log.told == [("writing", TEAM), ("written", TEAM)] * 2


@pytest.mark.anyio
async def test_creates_depend_on_their_cluster_and_crd(world: World) -> None:
    """Of a built-in only the cluster's object is compared, of a custom resource its definition as well."""
    await world.establish()
    cluster_state = await world.state()
    assert [compare.key for compare in compares_of(cluster_state, await world.served(CONFIG_MAPS))] == [CLUSTER_KEY]
    assert [compare.key for compare in compares_of(cluster_state, await world.served(WIDGETS))] == [CLUSTER_KEY, CRD_KEY]


@pytest.mark.anyio
async def test_a_resource_may_have_several_observers(world: World) -> None:
    """Each is called. One that begins during a write is called from the next write on: it has not seen this one begin."""
    first, second, late = Log(), Log(), Log()
    prefix = (await world.served()).resource.keys.prefix
    access = world.registry.access
    access.observe(prefix, first)
    access.observe(prefix, second)

    async def join() -> None:
        access.observe(prefix, late)

    world.storage.before_write(join)
    await world.create(config_map("one"))
    assert first.told == second.told == [("writing", TEAM), ("written", TEAM)]
    assert late.told == []
    await world.create(config_map("two"))
    assert late.told == [("writing", TEAM), ("written", TEAM)]
