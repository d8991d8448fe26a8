"""Owners of fields that many objects have in common."""

from __future__ import annotations

from typing import Any

import orjson

from kcp_py.apimachinery.managedfields.entries import Managed, decode_entries
from kcp_py.registry.store.commonowners import CommonOwners


def entry(manager: str, fields: dict[str, Any], second: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "manager": manager,
        "operation": "Update",
        "apiVersion": "example.com/v1",
        "time": f"2024-01-01T00:00:0{second}Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": fields,
        **more,
    }


def read(*entries: dict[str, Any]) -> tuple[Managed, list[dict[str, Any]]]:
    """Entries as an object of its own has them."""
    copied: list[dict[str, Any]] = orjson.loads(orjson.dumps(entries))
    managed = decode_entries(copied, stored=True)
    managed.versions = "types"
    return managed, copied


SPEC: dict[str, Any] = {"f:spec": {"f:size": {}}}


def test_equal_owners_are_one() -> None:
    """Objects of the same managers have their sets, managers and texts in common, and times of their own."""
    common = CommonOwners(100_000)
    first, its = read(entry("me", SPEC), entry("you", {"f:status": {}}))
    second, others = read(entry("me", SPEC, 1), entry("you", {"f:status": {}}, 2))
    assert common.share(first, its)[1] == 0
    shared, saved = common.share(second, others)
    assert saved > 0
    for (mine, owned), (theirs, other) in zip(shared.owners.items(), first.owners.items(), strict=True):
        assert mine is theirs
        assert owned is other
    assert shared.times == second.times != first.times
    assert [one["fieldsV1"] for one in others] == [SPEC, {"f:status": {}}]
    assert others[0]["fieldsV1"] is its[0]["fieldsV1"]
    assert others[0]["manager"] is its[0]["manager"]


def test_what_is_shared_says_the_same() -> None:
    """The entries keep their bytes, and are what the result would be read from."""
    common = CommonOwners(100_000)
    common.share(*read(entry("me", SPEC)))
    managed, entries = read(entry("me", SPEC, 3, subresource="status"), entry("me", SPEC, 4))
    before = orjson.dumps(entries)
    shared, _ = common.share(managed, entries)
    assert orjson.dumps(entries) == before
    again = decode_entries(entries, stored=True)
    assert (shared.owners, shared.times, shared.in_order) == (again.owners, again.times, again.in_order)
    assert shared.versions == "types"


def test_order_counts() -> None:
    """Equal sets in another order are not shared, because stored bytes follow their order."""
    common = CommonOwners(100_000)
    common.share(*read(entry("me", {"f:a": {}, "f:b": {}})))
    managed, entries = read(entry("me", {"f:b": {}, "f:a": {}}))
    assert common.share(managed, entries)[1] == 0
    assert orjson.dumps(entries[0]["fieldsV1"]) == b'{"f:b":{},"f:a":{}}'


def test_managers_without_a_name_keep_their_form() -> None:
    """Nothing is added to an entry."""
    common = CommonOwners(100_000)
    one = entry("", SPEC)
    del one["manager"], one["time"]
    for _ in range(2):
        managed, entries = read(one)
        common.share(managed, entries)
        assert orjson.dumps(entries[0]) == orjson.dumps(one)


def test_memory_is_bounded() -> None:
    """Owners that were not met lately are forgotten, and save nothing then."""
    common = CommonOwners(2000)
    for number in range(20):
        common.share(*read(entry(f"manager-{number}", SPEC)))
    assert common.share(*read(entry("manager-0", SPEC)))[1] == 0
    assert common.share(*read(entry("manager-0", SPEC)))[1] > 0
