"""How many clusters have a CRD, in memory and in a record."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.logicalcluster import Name
from kcp_py.registry.catalog.knownclusters import MOST_BYTES, MOST_NAMED, KnownClusters, known_of, record_of


def many(count: int, prefix: str = "c") -> KnownClusters:
    known = KnownClusters()
    for number in range(count):
        known.add(Name(f"{prefix}{number}"))
    return known


def state(known: KnownClusters) -> tuple[int, list[Name], bool]:
    return known.count, [*known.clusters], known.complete


def test_few_are_named_and_many_are_counted() -> None:
    """As long as all are named, it is known; clusters that come behind the bound are counted alone."""
    known = many(MOST_NAMED)
    assert state(known)[::2] == (MOST_NAMED, True)
    known.add(Name("more"))
    assert (known.count, known.complete, Name("more") in known.clusters) == (MOST_NAMED + 1, False, False)
    known.remove(Name("c0"))
    known.remove(Name("other"))
    assert (known.count, len(known.clusters), known.complete) == (MOST_NAMED - 1, MOST_NAMED - 1, True)


def test_a_record_has_the_same() -> None:
    """Also after it was stored."""
    known = {"a.x": many(3), "b.x": many(250)}
    record = record_of(known)
    found = known_of(orjson.loads(orjson.dumps(record)))
    assert found is not None
    assert {name: state(one) for name, one in found.items()} == {name: state(one) for name, one in known.items()}


def test_a_record_of_very_many_definitions_names_fewer_clusters() -> None:
    """Each is counted. There is no record where even the names of the CRDs are too large."""
    known = {f"{number}.x": many(MOST_NAMED, "cluster-") for number in range(1_000)}
    record = record_of(known)
    found = known_of(orjson.loads(orjson.dumps(record)))
    assert found is not None
    assert {(one.count, len(one.clusters), one.complete) for one in found.values()} == {(MOST_NAMED, 3, False)}
    assert len(orjson.dumps(record)) < 2 * MOST_BYTES
    assert record_of({f"{number:020}.example.com": many(1) for number in range(20_000)}) is None


@pytest.mark.parametrize(
    "definitions",
    [
        None,
        [],
        {"a.x": 1},
        {"a.x": [1]},
        {"a.x": [0, []]},
        {"a.x": [-1, []]},
        {"a.x": [1, ["a", "b"]]},
        {"a.x": [2, ["a", "a"]]},
        {"a.x": [1, ["*"]]},
        {"a.x": [1, [1]]},
        {"a.x": [1, [None]]},
        {"a.x": [1, "a"]},
        {"a.x": ["1", ["a"]]},
        {"a.x": [500, ["a"] * 200]},
    ],
)
def test_what_is_no_record_is_not_used(definitions: Any) -> None:
    """Counts that are not positive, more clusters than are counted, texts that cannot be names."""
    assert known_of({"definitions": definitions}) is None
    assert known_of({}) is None
