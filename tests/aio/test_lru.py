"""A mapping of bounded size."""

from __future__ import annotations

from collections import OrderedDict

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kcp_py.aio.lru import LRU

KEYS = st.sampled_from("abcde")


def test_the_entry_that_was_not_used_for_longest_is_evicted() -> None:
    """Reading an entry keeps it; looking at it with `peek` does not."""
    values: LRU[str, int] = LRU(2)
    values.set("a", 1)
    values.set("b", 2)
    assert values.get("a") == 1
    assert values.peek("b") == 2
    values.set("c", 3)
    assert values.get("b") is None
    assert (values.get("a"), values.get("c"), len(values)) == (1, 3, 2)


def test_a_value_that_is_too_heavy_is_not_kept() -> None:
    """It replaces the earlier value of its key and evicts no other entry."""
    values: LRU[str, bytes] = LRU(5, weigh=len)
    values.set("a", b"xx")
    values.set("b", b"xx")
    values.set("a", b"x" * 6)
    assert (values.get("a"), values.get("b")) == (None, b"xx")


def test_setdefault_keeps_the_first_value() -> None:
    """The value that another task added in the meantime is returned."""
    values: LRU[str, int] = LRU(2)
    assert values.setdefault("a", 1) == 1
    assert values.setdefault("a", 2) == 1


class WeightedMachine(RuleBasedStateMachine):
    """A weighted LRU agrees with a list of its entries in the order of their use."""

    CAPACITY = 10

    def __init__(self) -> None:
        super().__init__()
        self.values: LRU[str, int] = LRU(self.CAPACITY, weigh=lambda value: value)
        self.model: OrderedDict[str, int] = OrderedDict()

    @rule(key=KEYS, value=st.integers(1, 12))
    def set(self, key: str, value: int) -> None:
        self.values.set(key, value)
        self.model.pop(key, None)
        if value <= self.CAPACITY:
            self.model[key] = value
        while sum(self.model.values()) > self.CAPACITY:
            self.model.popitem(last=False)

    @rule(key=KEYS)
    def get(self, key: str) -> None:
        assert self.values.get(key) == self.model.get(key)
        if key in self.model:
            self.model.move_to_end(key)

    @rule(key=KEYS)
    def pop(self, key: str) -> None:
        assert self.values.pop(key) == self.model.pop(key, None)

    @rule()
    def clear(self) -> None:
        self.values.clear()
        self.model.clear()

    @invariant()
    def agrees(self) -> None:
        assert {key: self.values.peek(key) for key in "abcde"} == {key: self.model.get(key) for key in "abcde"}
        assert len(self.values) == len(self.model)


TestWeightedLRU = WeightedMachine.TestCase
