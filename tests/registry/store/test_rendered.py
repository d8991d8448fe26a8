"""A list that is answered in bytes equals the result of a scan, with any cached data and concurrent writes."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.selectors import LabelSelector, parse_label_selector
from kcp_py.registry.resource import Origin, Served
from kcp_py.registry.store import Access, RenderedPage, Scan, can_render, render, rendered, scan
from kcp_py.registry.store.labels import LabelChoice
from kcp_py.storage.contract import CompactedError, FutureRevisionError, KeyValue, RangeResult, Storage
from kcp_py.storage.memory import MemoryStorage
from kcp_py.storage.sqlite import SQLiteStorage
from kcp_py.storage.sqlite.worker import Worker
from kcp_py.storage.watched import WatchedStorage
from tests.registry.store.shelf import CONFIG_MAPS, NAMESPACES, A, B, Schema, Shelf, key_of, state_of, with_schemas
from tests.storage.watched.followedstorage import FollowedStorage, followed

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def _small_spans() -> Iterator[None]:
    """Spans of three objects behave as those of some hundred do, and a few objects make several."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rendered, "_READ", 3)
        patch.setattr(rendered, "_REREAD", 4)
        patch.setattr(rendered, "_LEAST_KEPT", 2)
        yield


class Counting:
    """A store that counts its ranges; everything else is the store's own."""

    def __init__(self, storage: Storage) -> None:
        self._storage = storage
        self.reads: list[str] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._storage, name)

    async def range(self, prefix: str, *, keys_only: bool = False, start: str = "", **more: Any) -> RangeResult:
        if not keys_only:
            self.reads.append(start.rpartition("/")[2])
        return await self._storage.range(prefix, keys_only=keys_only, start=start, **more)


@pytest.fixture
async def reads(shelf: Shelf) -> list[str]:
    """Where reads of the shelf's store begin."""
    counting = Counting(shelf.access.storage)
    shelf.access.storage = counting
    return counting.reads


def names_of(page: RenderedPage) -> list[str]:
    return [item["metadata"]["name"] for item in items_of(page)]


def items_of(page: RenderedPage) -> list[Any]:
    joined = b"".join(page.parts)
    assert not joined or joined.startswith(b",")
    found: list[Any] = orjson.loads(b"[" + joined[1:] + b"]")
    return found


class Reversed:
    """A form of a list whose elements are not separated."""

    key = "reversed"
    separator = b""

    async def elements(self, documents: Sequence[bytes]) -> list[bytes]:
        await asyncio.sleep(0)
        return [document[::-1] for document in documents]

    def shown(self, elements: bytes) -> bytes:
        return elements


class Counted(Reversed):
    made = 0

    async def elements(self, documents: Sequence[bytes]) -> list[bytes]:
        self.made += len(documents)
        return await super().elements(documents)


class Failing(Reversed):
    async def elements(self, documents: Sequence[bytes]) -> list[bytes]:
        if any(b'"bad"' in document for document in documents):
            raise errors.internal("bad")
        return await super().elements(documents)


async def test_a_list_is_read_once_and_answered_again_from_what_was_kept(shelf: Shelf, reads: list[str]) -> None:
    """Until something is written there is nothing to read; the revision is the store's own all the same."""
    await shelf.put_all(*"abcdefgh")
    first = await render(shelf.access, CONFIG_MAPS, Scan(A))
    assert names_of(first) == list("abcdefgh")
    assert len(reads) == 3
    later = await shelf.put("x", cluster="b")
    second = await render(shelf.access, CONFIG_MAPS, Scan(A))
    assert second == first._replace(revision=later)
    assert len(reads) == 3


@pytest.mark.parametrize("change", ["update", "create", "delete"])
async def test_after_a_write_only_its_span_is_read_again(shelf: Shelf, reads: list[str], change: str) -> None:
    """A change among thousands does not cost thousands, and spans behind it stay as they are."""
    await shelf.put_all(*"abdefghij")
    await render(shelf.access, CONFIG_MAPS, Scan(A))
    reads.clear()
    match change:
        case "update":
            await shelf.put("d", data={"x": "y"})
        case "create":
            await shelf.put("c")
        case _:
            await shelf.delete("d")
    for _ in range(2):
        page = await render(shelf.access, CONFIG_MAPS, Scan(A))
        assert names_of(page) == {"update": list("abdefghij"), "create": list("abcdefghij"), "delete": list("abefghij")}[change]
    assert len(reads) == 1


async def test_pages_of_any_size_and_namespaces_share_what_was_kept(shelf: Shelf, reads: list[str]) -> None:
    """Whole, in pages, from a key, of a namespace: all are cut from the same spans."""
    await shelf.put_all("a", "b", namespace="n1")
    await shelf.put_all("c", "d", "e", namespace="n2")
    await shelf.put_all("f", namespace="n3")
    whole = await render(shelf.access, CONFIG_MAPS, Scan(A))
    assert names_of(whole) == list("abcdef")
    reads.clear()
    assert names_of(await render(shelf.access, CONFIG_MAPS, Scan(A, "n2"))) == list("cde")
    assert names_of(await render(shelf.access, CONFIG_MAPS, Scan(A, "n15"))) == []
    assert names_of(await render(shelf.access, CONFIG_MAPS, Scan(A, "n2", key_of("d", "n2")))) == list("de")
    page = await render(shelf.access, CONFIG_MAPS, Scan(A, limit=2, counted=True))
    assert (names_of(page), page.more, page.remaining, page.last) == (["a", "b"], True, 4, key_of("b", "n1"))
    page = await render(shelf.access, CONFIG_MAPS, Scan(A, start=page.last + "\x00", limit=4, revision=page.revision, counted=True))
    assert (names_of(page), page.more, page.remaining) == (list("cdef"), False, 0)
    assert reads == []


async def test_one_cluster_never_sees_what_was_kept_of_another(shelf: Shelf) -> None:
    """Equal names in another cluster are other objects, and neighbours by prefix are not inside."""
    await shelf.put_all("a", "b", "c")
    await shelf.put_all("a", "z", cluster="ab")
    await render(shelf.access, CONFIG_MAPS, Scan(A))
    found = items_of(await render(shelf.access, CONFIG_MAPS, Scan(state_of("ab"))))
    assert [item["metadata"]["annotations"]["kcp.io/cluster"] for item in found] == ["ab", "ab"]
    assert names_of(await render(shelf.access, CONFIG_MAPS, Scan(B))) == []


async def test_the_past_is_answered_as_it_was(shelf: Shelf) -> None:
    """From the cache where it has not changed since, from the store where it has, and not at all once it is compacted."""
    then = await shelf.put_all(*"abcdef")
    await render(shelf.access, CONFIG_MAPS, Scan(A))
    now = await shelf.put("b", data={"x": "y"})
    await render(shelf.access, CONFIG_MAPS, Scan(A))
    old = await render(shelf.access, CONFIG_MAPS, Scan(A, revision=then))
    assert old.revision == then
    assert [item["metadata"]["resourceVersion"] for item in items_of(old)] == [str(then)] * 6
    with pytest.raises(FutureRevisionError):
        await render(shelf.access, CONFIG_MAPS, Scan(A, revision=now + 1))
    await shelf.access.storage.compact(now)
    with pytest.raises(CompactedError):
        await render(shelf.access, CONFIG_MAPS, Scan(A, revision=then))


async def test_what_another_schema_made_is_not_answered(shelf: Shelf) -> None:
    """Objects that the present schema has not seen are decoded and defaulted, never spliced, and never kept."""
    last = await shelf.put_all(*"abc")
    assert "data" not in items_of(await render(shelf.access, CONFIG_MAPS, Scan(A)))[0]
    resource = with_schemas(CONFIG_MAPS, Schema("x")).resource
    for since, expected in ((0, None), (last + 1, {"new": "x"}), (0, None)):
        for _ in range(2):
            page = await render(shelf.access, Served(resource, fresh_since=since), Scan(A))
            assert [item.get("data") for item in items_of(page)] == [expected] * 3


async def test_what_can_be_seen_before_it_is_acknowledged_is_listed(shelf: Shelf, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client may have read it: no list has an earlier revision then, although cached bytes of other objects are still valid."""
    await shelf.put_all(*"abcdefgh")
    await render(shelf.access, CONFIG_MAPS, Scan(A))
    committed, told = asyncio.Event(), asyncio.Event()
    submit = Worker.submit

    async def hold_back(self: Worker, job: Callable[[], Any]) -> Any:
        result = await submit(self, job)
        committed.set()
        await told.wait()
        return result

    monkeypatch.setattr(Worker, "submit", hold_back)
    write = asyncio.create_task(shelf.put("x"))
    await committed.wait()
    pages = [await render(shelf.access, CONFIG_MAPS, Scan(A)) for _ in range(2)]
    pending = not write.done()
    told.set()
    revision = await write
    assert pending
    for page in pages:
        assert names_of(page) == list("abcdefghx")
        assert page.revision == revision


async def test_other_stores_are_read_every_time() -> None:
    """Where the driver does not report writes, nothing is kept."""
    async with MemoryStorage() as storage:
        shelf = Shelf(Access(storage))
        assert shelf.access.range_cache is None
        await shelf.put_all(*"abcd")
        page = await render(shelf.access, CONFIG_MAPS, Scan(A, limit=2, counted=True))
        assert (names_of(page), page.more, page.remaining) == (["a", "b"], True, 2)
        await shelf.delete("d")
        assert names_of(await render(shelf.access, CONFIG_MAPS, Scan(A))) == ["a", "b", "c"]


def test_lists_that_need_more_than_bytes_are_left_to_scan() -> None:
    """Those of all clusters, and those of the past with objects that a CRD brings without storing them."""
    assert can_render(CONFIG_MAPS, Scan(A))
    assert not can_render(CONFIG_MAPS, Scan(None))
    assert can_render(NAMESPACES, Scan(A, revision=1))
    brought = NAMESPACES._replace(origin=Origin("1", "2026-01-01T00:00:00Z", 1))
    assert can_render(brought, Scan(A))
    assert can_render(brought, Scan(A, start=NAMESPACES.resource.keys.object_key(A.name, "", "z"), revision=1))
    assert not can_render(brought, Scan(A, revision=1))


@pytest.mark.parametrize("selector", ["", "label=x"])
async def test_forms_are_made_once(shelf: Shelf, reads: list[str], selector: str) -> None:
    """Lists in JSON and in another form take turns without a further read; a write has the forms around it made again."""
    for name in "abcdefgh":
        await shelf.put(name, metadata={"labels": {"label": "x"}})
    form = Counted()
    labels = LabelChoice(parse_label_selector(selector)) if selector else None
    for _ in range(3):
        plain = await render(shelf.access, CONFIG_MAPS, Scan(A, labels=labels))
        page = await render(shelf.access, CONFIG_MAPS, Scan(A, labels=labels), form)
        assert b"".join(page.parts) == b"".join(orjson.dumps(item)[::-1] for item in items_of(plain))
    assert (len(reads), form.made) == (3, 8)
    await shelf.delete("d")
    page = await render(shelf.access, CONFIG_MAPS, Scan(A, labels=labels), form)
    assert b"".join(page.parts).count(b'"eman"') == 7
    assert form.made < 14


async def test_an_object_without_a_form_is_in_the_way_of_its_own_lists_only(shelf: Shelf) -> None:
    """Its neighbours are listed in the form all the same, and no wrong bytes are kept."""
    for name in "abc":
        await shelf.put(name, metadata={"labels": {"label": "x"}})
    await shelf.put("d", metadata={"labels": {"label": "bad"}})
    form = Failing()
    for _ in range(2):
        page = await render(shelf.access, CONFIG_MAPS, Scan(A, labels=LabelChoice(parse_label_selector("label=x"))), form)
        assert b"".join(page.parts).count(b'"eman"') == 3
        with pytest.raises(StatusError):
            await render(shelf.access, CONFIG_MAPS, Scan(A), form)


# What must hold for every history


class Write(NamedTuple):
    name: str
    namespace: str
    delete: bool
    label: str = ""


class Read(NamedTuple):
    namespace: str
    start: str
    limit: int
    ago: int
    """How many revisions back from the newest; 0 for now."""
    counted: bool
    selector: str = ""
    reverse: bool = False
    """Whether it is a list in another form."""


class Look(NamedTuple):
    """See what can be seen before it is acknowledged."""


_names = st.sampled_from("abcdefghijkl")
_namespaces = st.sampled_from(["n1", "n2"])
_write = st.builds(Write, _names, _namespaces, st.booleans(), st.sampled_from(["", "x", "y"]))
_read = st.builds(
    Read,
    st.sampled_from(["", "n1", "n2"]),
    st.just("") | _names,
    st.integers(0, 6),
    st.integers(0, 2),
    counted=st.booleans(),
    selector=st.sampled_from(["", "", "label=x", "label!=x", "!label", "label in (x, y)"]),
    reverse=st.booleans(),
)
_history = st.lists(st.lists(_write | _read | _read | st.builds(Look), min_size=1, max_size=6), max_size=12)


class History:
    """Carries actions out, several at once, and compares every list with a scan at the revision that it says."""

    def __init__(self, shelf: Shelf) -> None:
        self._shelf = shelf
        self._newest = 0
        """What a client can know to have happened: acknowledged, or seen in a read."""

    async def act(self, action: Write | Read | Look) -> None:
        match action:
            case Write():
                if action.delete:
                    revision = await self._shelf.delete(action.name, action.namespace)
                else:
                    labels = {"labels": {"label": action.label}} if action.label else {}
                    revision = await self._shelf.put(action.name, action.namespace, metadata=labels)
                self._newest = max(self._newest, revision)
            case Read():
                await self._list(action)
            case Look():
                found = await self._shelf.access.storage.range(CONFIG_MAPS.resource.keys.cluster_prefix(A.name))
                self._newest = max([self._newest, *(item.mod_revision for item in found.items)])

    async def _list(self, read: Read) -> None:
        access = self._shelf.access
        start = key_of(read.start, read.namespace or "n1") if read.start else ""
        asked = max(self._newest - read.ago, 1) if read.ago and self._newest else 0
        selector = parse_label_selector(read.selector)
        counted = read.counted and selector.empty
        labels = None if selector.empty else LabelChoice(selector)
        what = Scan(A, read.namespace, start, read.limit, asked, counted=counted, labels=labels)
        known = self._newest
        page = await render(access, CONFIG_MAPS, what, Reversed() if read.reverse else None)
        assert page.revision == asked if asked else page.revision >= known
        if not page.revision:
            assert not page.parts  # before the first write of all: a scan at revision 0 would be one of the present
            return
        if not selector.empty:
            await self._compare_selected(page, what._replace(revision=page.revision), selector, reverse=read.reverse)
            return
        expected = await scan(access, CONFIG_MAPS, what._replace(revision=page.revision))
        assert b"".join(page.parts) == _answered(expected.items, reverse=read.reverse)
        assert (page.more, page.last) == (expected.more, expected.items[-1].key if expected.items else "")
        if read.counted:
            assert page.remaining == expected.remaining

    async def _compare_selected(self, page: RenderedPage, what: Scan, selector: LabelSelector, *, reverse: bool) -> None:
        everything = await scan(self._shelf.access, CONFIG_MAPS, what._replace(limit=0))
        chosen = [item for item in everything.items if selector.matches(orjson.loads(item.value)["metadata"].get("labels") or {})]
        end = min(what.limit, len(chosen)) if what.limit else len(chosen)
        assert b"".join(page.parts) == _answered(chosen[:end], reverse=reverse)
        assert page.last == (chosen[end - 1].key if end else "")
        is_full = bool(what.limit) and end == what.limit
        assert page.more == (is_full and chosen[end - 1].key != everything.items[-1].key)


def _answered(items: Sequence[KeyValue], *, reverse: bool) -> bytes:
    splice = CONFIG_MAPS.resource.renderer.splicer(A.name, in_list=True)
    elements = [splice(item) or b"?" for item in items]
    return b"".join(element[::-1] if reverse else b"," + element for element in elements)


@asynccontextmanager
async def opened(*, watched: bool = False) -> AsyncIterator[Shelf]:
    if watched:
        async with WatchedStorage(FollowedStorage(), "/", max_bytes=40_000) as storage:
            await followed(storage, "/")
            yield Shelf(Access(storage))
        return
    with tempfile.TemporaryDirectory() as directory:
        async with SQLiteStorage(Path(directory) / "kcp.db", span_bytes=20_000) as storage:
            yield Shelf(Access(storage))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@pytest.mark.parametrize("watched", [False, True])
@given(history=_history)
def test_every_list_is_a_scan_at_its_revision(history: list[list[Write | Read | Look]], *, watched: bool) -> None:
    """That revision is never older than the last acknowledged or visible write before the request."""

    async def run() -> None:
        async with opened(watched=watched) as shelf:
            story = History(shelf)
            for actions in history:
                await asyncio.gather(*map(story.act, actions))

    asyncio.run(run())


@pytest.mark.parametrize("watched", [False, True])
async def test_lists_among_many_writers_are_never_stale(*, watched: bool) -> None:
    """Lists equal the store, with lists and writes that follow each other as fast as they can."""
    async with opened(watched=watched) as shelf:
        await _list_among_writers(shelf)


async def test_a_shared_store_that_another_server_compacts() -> None:
    """Kept spans answer the past of a shared store only as long as the store itself would."""
    store = FollowedStorage()
    async with WatchedStorage(store, "/", max_bytes=1 << 20) as storage:
        await followed(storage, "/")
        shelf = Shelf(Access(storage))
        then = await shelf.put_all(*"abcdef")
        await storage.revision()
        await render(shelf.access, CONFIG_MAPS, Scan(A))
        now = await shelf.put("x", cluster="b")
        await storage.revision()
        assert names_of(await render(shelf.access, CONFIG_MAPS, Scan(A, revision=then))) == list("abcdef")
        await store.compact(now)
        with pytest.raises(CompactedError):
            await render(shelf.access, CONFIG_MAPS, Scan(A, revision=then))
        with pytest.raises(FutureRevisionError):
            await render(shelf.access, CONFIG_MAPS, Scan(A, revision=now + 1))


async def _list_among_writers(shelf: Shelf) -> None:
    story = History(shelf)
    done = asyncio.Event()

    async def write(name: str) -> None:
        for number in range(60):
            await story.act(Write(name, f"n{1 + number % 2}", delete=number % 3 == 2, label="xy"[number % 2]))

    async def watch(action: Read | Look) -> None:
        while not done.is_set():
            await story.act(action)
            await asyncio.sleep(0)

    lists: list[Read | Look] = [
        Read("", "", 0, 0, counted=False),
        Read("", "", 0, 0, counted=False, selector="label=x"),
        Read("", "", 0, 0, counted=False, reverse=True),
        Read("", "", 3, 0, counted=True, selector="label=y", reverse=True),
        Read("n1", "", 3, 0, counted=True, selector="label!=y"),
        Read("", "", 4, 0, counted=True),
        Read("n2", "c", 2, 1, counted=True),
        Look(),
    ]
    readers = [asyncio.create_task(watch(action)) for action in lists]
    await asyncio.gather(*map(write, "acegik"))
    done.set()
    await asyncio.gather(*readers)
