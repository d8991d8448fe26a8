"""Pages of stored and default objects, in key order, at one revision."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterstate import ClusterState
from kcp_py.registry.resource import Served
from kcp_py.registry.store import Page, Scan, scan
from kcp_py.registry.store.visible import ALL_VISIBLE
from kcp_py.storage.contract import CompactedError, FutureRevisionError, Put
from tests.registry.store.shelf import CONFIG_MAPS, NAMESPACES, A, B, Shelf, key_of, state_of

pytestmark = pytest.mark.anyio

DEFAULTS = ["default", "kube-node-lease", "kube-public", "kube-system"]


def names_of(page: Page) -> list[str]:
    return [item.key.rpartition("/")[2] for item in page.items]


async def put_namespaces(shelf: Shelf, *names: str, cluster: str = "a") -> int:
    keys = NAMESPACES.resource.keys
    value = b'{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"stored"}}'
    return await shelf.access.storage.transact([], [Put(keys.object_key(state_of(cluster).name, "", name), value) for name in names])


async def everywhere(first: Name | None, limit: int, revision: int) -> Sequence[tuple[ClusterState, Served]]:
    del revision
    found = [(cluster_state, NAMESPACES) for cluster_state in (A, B) if first is None or cluster_state.name >= first]
    return found[:limit] if limit else found


async def test_a_scan_stays_in_its_cluster_and_namespace(shelf: Shelf) -> None:
    """Neighbours whose names begin alike are not inside."""
    await shelf.put_all("x", namespace="n")
    await shelf.put_all("y", namespace="nn")
    last = await shelf.put_all("z", namespace="n", cluster="ab")
    assert names_of(await scan(shelf.access, CONFIG_MAPS, Scan(A, "n"))) == ["x"]
    assert names_of(await scan(shelf.access, CONFIG_MAPS, Scan(A))) == ["x", "y"]
    everywhere = await scan(shelf.access, CONFIG_MAPS, Scan(None, visible=ALL_VISIBLE))
    assert (names_of(everywhere), everywhere.revision, everywhere.remaining) == (["x", "y", "z"], last, -1)


async def test_a_list_is_continued_at_its_revision(shelf: Shelf) -> None:
    """Objects that were written behind the first page are not on the second, and remaining objects are counted."""
    then = await shelf.put_all(*"abcde")
    first = await scan(shelf.access, CONFIG_MAPS, Scan(A, limit=2, counted=True))
    assert (names_of(first), first.revision, first.more, first.remaining) == (["a", "b"], then, True, 3)
    await shelf.put_all("bb", "f")
    await shelf.delete("c")
    rest = Scan(A, start=first.items[-1].key + "\x00", revision=first.revision, limit=3, counted=True)
    second = await scan(shelf.access, CONFIG_MAPS, rest)
    assert (names_of(second), second.revision, second.more, second.remaining) == (["c", "d", "e"], then, False, 0)


async def test_revisions_that_are_not_kept_or_have_not_been_are_refused(shelf: Shelf) -> None:
    """Each with the error that says which."""
    first = await shelf.put_all("a")
    last = await shelf.put_all("a")
    with pytest.raises(FutureRevisionError):
        await scan(shelf.access, CONFIG_MAPS, Scan(A, revision=last + 1))
    await shelf.access.storage.compact(last)
    with pytest.raises(CompactedError):
        await scan(shelf.access, CONFIG_MAPS, Scan(A, revision=first))


async def test_default_objects_stand_between_stored_ones(shelf: Shelf) -> None:
    """In key order; one that is stored takes the place of its default."""
    assert names_of(await scan(shelf.access, NAMESPACES, Scan(A))) == DEFAULTS
    await put_namespaces(shelf, "alpha", "kube-public", "zeta")
    page = await scan(shelf.access, NAMESPACES, Scan(A))
    assert names_of(page) == ["alpha", *DEFAULTS, "zeta"]
    assert [item.key.rpartition("/")[2] for item in page.items if item.create_revision] == ["alpha", "kube-public", "zeta"]


@pytest.mark.parametrize("limit", range(1, 8))
async def test_pages_with_default_objects_miss_and_repeat_nothing(shelf: Shelf, limit: int) -> None:
    """Whatever the limit, in one cluster and over all of them, and only the last page says that nothing follows."""
    await put_namespaces(shelf, "alpha", "kube-public", "zeta")
    await put_namespaces(shelf, "beta", cluster="b")
    for cluster_state, expected in ((A, ["alpha", *DEFAULTS, "zeta"]), (None, ["alpha", *DEFAULTS, "zeta", "beta", *DEFAULTS])):
        found: list[str] = []
        start, more = "", True
        while more:
            page = await scan(
                shelf.access, NAMESPACES, Scan(cluster_state, start=start, limit=limit, visible=ALL_VISIBLE), clusters=everywhere
            )
            assert len(page.items) <= limit
            found += names_of(page)
            start, more = page.items[-1].key + "\x00" if page.items else "", page.more
        assert found == expected


async def test_start_skips_what_lies_before_it(shelf: Shelf) -> None:
    """Whether or not an object of that key exists."""
    await shelf.put_all(*"ace")
    for start, expected in (("a", "ace"), ("b", "ce"), ("e", "e"), ("f", "")):
        assert names_of(await scan(shelf.access, CONFIG_MAPS, Scan(A, start=key_of(start)))) == list(expected)


@pytest.mark.parametrize("limit", range(6))
async def test_custom_resources_of_the_same_name_are_not_objects_of_a_built_in_kind(shelf: Shelf, limit: int) -> None:
    """Over all clusters, what CRDs of the same name left under the prefix is passed over, wherever a page ends."""
    await shelf.put_all(*"ab", cluster="a")
    await shelf.put_all(*"cd", cluster="customresources")
    await shelf.put_all(*"ef", cluster="z")
    foreign = [f"{CONFIG_MAPS.resource.keys.prefix}customresources/{place}" for place in ("a/ns/x", "a/x", "b/ns/y", "default/z", "z/ns/z")]
    await shelf.access.storage.transact([], [Put(key, b"{}") for key in foreign])
    found: list[str] = []
    start, more = "", True
    while more:
        page = await scan(shelf.access, CONFIG_MAPS, Scan(None, start=start, limit=limit, counted=True, visible=ALL_VISIBLE))
        assert len(page.items) <= (limit or 6)
        assert page.items
        found += names_of(page)
        start, more = page.items[-1].key + "\x00", page.more
    assert found == list("abcdef")
    assert names_of(await scan(shelf.access, CONFIG_MAPS, Scan(state_of("customresources")))) == ["c", "d"]


@pytest.mark.parametrize("limit", [7, 500, 900, 10_000, 0])
async def test_default_objects_of_very_many_clusters(shelf: Shelf, limit: int) -> None:
    """Pages of any size have each object once, and no more clusters are asked for than a page needs."""
    states = [state_of(f"c{number:04}") for number in range(1_200)]
    replaced = [*range(0, 1_200, 97), 499, 500, 501]
    for number in replaced:
        await put_namespaces(shelf, "default", "zoo", cluster=f"c{number:04}")
    asked = 0

    async def clusters(first: Name | None, most: int, revision: int) -> Sequence[tuple[ClusterState, Served]]:
        nonlocal asked
        del revision
        found = [(one, NAMESPACES) for one in states if first is None or one.name >= first]
        found = found[:most] if most else found
        asked += len(found)
        return found

    keys: list[str] = []
    start, more, revision, pages = "", True, 0, 0
    while more and pages < 20:
        what = Scan(None, start=start, limit=limit, revision=revision, visible=ALL_VISIBLE)
        page = await scan(shelf.access, NAMESPACES, what, clusters=clusters)
        keys += [item.key for item in page.items]
        more, revision, pages = page.more, page.revision, pages + 1
        start = keys[-1] + "\x00"
        assert not limit or len(page.items) == limit or not more
    assert keys == sorted({*keys})
    if limit <= 500 and limit:
        assert asked <= pages * (limit + 1)
    if pages < 20:
        assert len(keys) == 4 * len(states) + len(set(replaced))
