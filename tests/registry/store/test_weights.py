"""The memory of decoded JSON, as it is estimated and as it is."""

from __future__ import annotations

import tracemalloc
from typing import Any

import orjson
import pytest

from kcp_py.registry.store.weights import decoded_weight

MANY = range(300)


@pytest.mark.parametrize(
    ("value", "most"),
    [
        ([{} for _ in MANY], 4.0),
        ([[] for _ in MANY], 4.0),
        ([[1000] for _ in MANY], 2.5),
        ([{"b": 1000 + at} for at in MANY], 2.0),
        ([{"b": 1000 + at, "c": "x", "d": True, "e": None, "f": 2.5, "g": "yyyyyyyy"} for at in MANY], 2.5),
        ([{"b": {"c": {"d": {}}}} for _ in MANY], 2.0),
        ([1000 + at for at in MANY], 3.5),
        ([0.5 + at for at in MANY], 3.5),
        (["x" * (at % 7 + 2) for at in MANY], 2.0),
        (["é" + "x" * 20 for _ in MANY], 2.5),
        (["\U0001f600" + "x" * 20 for _ in MANY], 2.0),
        ({f"kk{at}": 1 for at in MANY}, 3.5),
        ({f"kk{at}" * 20: 1 for at in MANY}, 2.0),
        (['"":' * 10 for _ in MANY], 2.5),
        ({"text": "x" * 3000}, 1.5),
    ],
)
def test_estimates(value: Any, most: float) -> None:
    """An estimate is hardly less than the memory that is taken, and not many times that."""
    encoded = orjson.dumps(value)
    tracemalloc.start()
    try:
        kept = [orjson.loads(encoded) for _ in range(50)]
        taken = tracemalloc.get_traced_memory()[0] / len(kept)
    finally:
        tracemalloc.stop()
    assert 0.9 * taken < decoded_weight(encoded) < most * taken


def test_parts_are_weighed_alike() -> None:
    """What a part weighs may be subtracted."""
    part = orjson.dumps({"f:a": {}, "f:b": {"f:c": {}}})
    whole = orjson.dumps({"fields": orjson.loads(part)})
    assert decoded_weight(whole) - decoded_weight(part) == decoded_weight(b'{"fields":}')
