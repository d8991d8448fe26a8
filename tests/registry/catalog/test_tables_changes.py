"""Tables follow the changes of CRDs at any moment and from any writer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson
import pytest

from kcp_py.storage.contract import Compare, Operation, Put
from tests.client.registry import CRDS, WIDGETS, Registry, make_crd
from tests.registry.catalog.crdtables import WIDGET_PREFIX, delivered, gadgets, resources, widgets
from tests.registry.conftest import A, B, Elsewhere, SteppedStorage, crd_key, feed_begins_again, stored

pytestmark = pytest.mark.anyio


async def test_a_change_elsewhere_is_served_when_the_feed_has_brought_it(registry: Registry, elsewhere: Elsewhere) -> None:
    """Creation, change and removal of a definition."""
    assert await widgets(registry) is None
    await elsewhere.define(A, stored())
    assert await widgets(registry) is not None
    revision = await elsewhere.define(A, stored(versions=[{"name": "v1"}, {"name": "v2"}]))
    served = await widgets(registry, A, "v2")
    assert served is not None
    assert served.guards == (Compare(crd_key(A), mod_revision=revision),)
    await elsewhere.delete(crd_key(A))
    assert await widgets(registry) is None


async def test_a_write_here_is_served_at_once(registry: Registry, storage: SteppedStorage) -> None:
    """Between the commit and its acknowledgement readers see it, and remember nothing; its writer finds it after the answer."""
    crd = await registry.client.create(A, CRDS, make_crd())
    await delivered(registry, crd)
    assert await widgets(registry) is None
    assert registry.tables.cached(A) is not None
    seen: list[object] = []

    async def look() -> None:
        seen.extend((await widgets(registry) is not None, registry.tables.cached(A)))

    storage.after_commit(look)
    status = crd["status"] | {"conditions": [{"type": "NamesAccepted", "status": "True"}], "acceptedNames": crd["spec"]["names"]}
    updated = await registry.client.update(A, CRDS, crd | {"status": status}, subresource="status")
    assert seen == [True, None]
    assert await widgets(registry) is not None
    await delivered(registry, updated)
    assert await widgets(registry) is not None
    assert registry.tables.cached(A) is not None


async def test_what_was_read_before_a_commit_is_not_known_after_it(
    registry: Registry, storage: SteppedStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request between the beginning of a write and its commit leaves nothing that a request between commit and acknowledgement takes."""
    crd = await registry.client.create(A, CRDS, make_crd())
    assert await widgets(registry) is None
    seen: list[bool] = []

    async def look() -> None:
        seen.append(await widgets(registry) is not None)

    commit = storage.transact

    async def transact(compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        await look()
        return await commit(compares, operations)

    monkeypatch.setattr(storage, "transact", transact)
    storage.after_commit(look)
    status = crd["status"] | {"conditions": [{"type": "NamesAccepted", "status": "True"}], "acceptedNames": crd["spec"]["names"]}
    await registry.client.update(A, CRDS, crd | {"status": status}, subresource="status")
    assert seen == [False, True]


@pytest.mark.parametrize("own", [pytest.param(True, id="here"), pytest.param(False, id="elsewhere")])
async def test_a_crd_written_while_the_table_is_built(
    registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere, *, own: bool
) -> None:
    """Only callers that asked before the change get the old table."""
    await elsewhere.define(B, stored())

    async def define() -> None:
        if own:
            await registry.client.create(A, CRDS, make_crd("gadgets", kind="Gadget"))
        else:
            await elsewhere.define(A, gadgets())

    storage.after_read(define)
    assert not (await registry.tables.get(A)).served
    assert registry.tables.cached(A) is None
    assert len((await registry.tables.get(A)).served) == (0 if own else 1)
    # A table of another cluster, which was built in the meantime, is not affected.
    storage.after_read(lambda: elsewhere.delete(crd_key(A, "gadgets.example.com")))
    assert await widgets(registry, B) is not None
    assert registry.tables.cached(B) is not None


async def test_a_cluster_that_ends_while_its_table_is_built(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """The table of a deleted cluster is not used for the next cluster of its name."""
    await registry.clusters.ensure(A)
    await elsewhere.define(A, stored())

    async def end() -> None:
        await elsewhere.delete(crd_key(A))
        await elsewhere.delete(registry.clusters.key(A))
        await registry.clusters.ensure(A)
        assert await widgets(registry) is None

    storage.after_read(end)
    assert await widgets(registry) is not None
    assert await widgets(registry) is None


@pytest.mark.parametrize("remembered", [pytest.param(True, id="table at hand"), pytest.param(False, id="table forgotten")])
async def test_watches_end_with_what_they_were_promised(registry: Registry, elsewhere: Elsewhere, *, remembered: bool) -> None:
    """A changed or removed definition ends the watches of its resource in its cluster: no others, and not for a mere label."""
    for cluster in (A, B):
        await elsewhere.define(cluster, stored())
    await elsewhere.define(A, gadgets())
    gadget_prefix = WIDGET_PREFIX.replace("widgets", "gadgets")
    places = [(WIDGET_PREFIX, A), (WIDGET_PREFIX, B), (gadget_prefix, A), (WIDGET_PREFIX, "")]

    async def ended_by(crd: dict[str, Any] | None) -> list[bool]:
        registry.tables.clear()
        if remembered:
            await registry.tables.get(A)
        watchers = [registry.fanout.attach(prefix, cluster=cluster, after=registry.fanout.revision) for prefix, cluster in places]
        await (elsewhere.delete(crd_key(A)) if crd is None else elsewhere.define(A, crd))
        ended = [watcher.ended for watcher in watchers]
        for watcher in watchers:
            await registry.fanout.detach(watcher)
        return ended

    assert await ended_by(stored(labels={"a": "b"})) == [False, False, False, False]
    assert await ended_by(stored(versions=[{"name": "v1"}, {"name": "v2"}])) == [True, False, False, False]
    assert await ended_by(stored(None, "Unrelated")) == [True, False, False, False]
    assert await ended_by(stored()) == [True, False, False, False]
    assert await ended_by(None) == [True, False, False, False]
    assert await ended_by(stored()) == [False, False, False, False]


async def test_all_is_forgotten_when_events_may_have_been_missed(registry: Registry) -> None:
    """A feed that begins again has every table worked out anew."""
    await registry.tables.get(A)
    await feed_begins_again(registry)
    assert len(registry.tables) == 0


async def test_only_what_changed_is_looked_into(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """With many definitions, one that is added, changed or removed is read alone, and all others serve as before."""
    for number in range(100):
        await elsewhere.define(A, stored(make_crd(f"gadget{number}s", kind=f"Gadget{number}")))
    before = await registry.tables.get(A)
    compilations, read = registry.crds.compiled.compilations, len(storage.read)
    assert compilations == 100
    await elsewhere.define(A, stored())
    await elsewhere.define(A, stored(make_crd("gadget7s", kind="Gadget7", shortNames=["g"])))
    await elsewhere.delete(crd_key(A, "gadget8s.example.com"))
    after = await registry.tables.get(A)
    assert registry.crds.compiled.compilations - compilations == 2
    names = ["gadget7s.example.com", "gadget8s.example.com", "widgets.example.com"]
    assert storage.read[read:] == [crd_key(A, name) for name in names]
    kept = [resource for resource in resources(before) if resource.resource not in {"gadget7s", "gadget8s"}]
    assert [resource for resource in resources(after) if resource in set(kept)] == kept
    assert len(after.served) == 100
    assert after.find("example.com", "v1", "gadget8s") is None
    assert after.find("example.com", "v1", "widgets") is not None
    assert after.find("example.com", "v1", "gadget9s") is before.find("example.com", "v1", "gadget9s")


async def test_one_change_lists_nothing(registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere) -> None:
    """What has changed is known by its key, for writes here and elsewhere; only where that is not known all keys are looked at."""
    for number in range(5):
        await elsewhere.define(A, stored(make_crd(f"gadget{number}s", kind=f"Gadget{number}")))
    await registry.tables.get(A)
    ranges = storage.ranges
    await elsewhere.define(A, stored())
    assert await widgets(registry) is not None
    await registry.client.create(A, CRDS, make_crd("gizmos", kind="Gizmo"))
    await elsewhere.delete(crd_key(A))
    assert await widgets(registry) is None
    assert storage.ranges == ranges
    revision = await storage.transact((), (Put(crd_key(A), orjson.dumps(stored())),))
    registry.tables.invalidate(A)
    assert await widgets(registry) is not None
    assert storage.ranges == ranges + 1
    await registry.fanout.reached(revision)


@pytest.mark.parametrize("removed", [pytest.param(False, id="changed"), pytest.param(True, id="removed")])
async def test_a_load_that_began_earlier_leaves_nothing(
    registry: Registry, storage: SteppedStorage, elsewhere: Elsewhere, *, removed: bool
) -> None:
    """What it found may be older than what another has found meanwhile."""
    await elsewhere.define(A, gadgets())
    await elsewhere.define(A, stored())
    assert await widgets(registry) is not None

    async def overtake() -> None:
        if removed:
            await elsewhere.delete(crd_key(A))
        else:
            await elsewhere.define(A, stored(versions=[{"name": "v2"}]))
        assert await widgets(registry) is None

    await elsewhere.define(A, stored(labels={"a": "b"}))
    storage.after_read(overtake)
    assert await widgets(registry) is not None
    assert await widgets(registry) is None
    assert (await widgets(registry, A, "v2") is None) is removed


async def test_a_write_of_an_object_touches_no_table(registry: Registry, elsewhere: Elsewhere) -> None:
    """Only definitions do."""
    await elsewhere.define(A, stored())
    table = await registry.tables.get(A)
    await registry.client.create(A, WIDGETS, {"metadata": {"name": "one", "namespace": "default"}})
    assert registry.tables.cached(A) is table
