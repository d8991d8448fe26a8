"""Numbers of one process are read by the others, and by them alone."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcp_py.aio.sharedcounts import PLACES, SharedCounts, key_of
from tests.forks import forked

_PROGRAM = """
import os
from kcp_py.aio.sharedcounts import SharedCounts, key_of

def main():
    shared = SharedCounts(2)
    pid = os.fork()
    if pid == 0:
        shared.of(1).set(key_of("a", 1), 41)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
    assert shared.of(0).total(key_of("a", 1)) == 41
"""


def test_others_see_a_number() -> None:
    """The total of a process has the numbers of all others, not its own."""
    shared = SharedCounts(3)
    parts = [shared.of(number) for number in range(3)]
    key = key_of("watches", "a")
    parts[0].set(key, 2)
    parts[1].set(key, 5)
    assert [part.total(key) for part in parts] == [5, 2, 7]
    assert [part.largest(key) for part in parts] == [5, 2, 5]
    assert parts[0].total(key_of("watches", "b")) == 0
    assert parts[0].largest(key_of("connections", "a")) == 0


def test_a_fork_sees_a_number() -> None:
    """The memory and the keys are the same in a process that was forked."""
    with forked(_PROGRAM) as run:
        assert run() == 0


def test_a_process_that_ended_has_nothing() -> None:
    """Its numbers are 0 for the others, and those of other processes stay."""
    shared = SharedCounts(3)
    first, second, third = (shared.of(number) for number in range(3))
    for number in range(100):
        first.set(key_of(number), 1)
        second.set(key_of(number), 2)
    shared.clear(0)
    assert {third.total(key_of(number)) for number in range(100)} == {2}


def test_keys_that_fit_nowhere() -> None:
    """A key without a place is not seen by others, or replaces the smallest number where this is wanted."""
    shared = SharedCounts(2)
    own, other = shared.of(0), shared.of(1)
    keys = [number * PLACES + 7 for number in range(1, 10)]
    for number, key in enumerate(keys[:8], 1):
        own.set(key, 10 * number)
    own.set(keys[8], 3)
    assert [other.total(key) for key in keys] == [10, 20, 30, 40, 50, 60, 70, 80, 0]
    own.set(keys[8], 3, replace=True)
    assert [other.total(key) for key in keys] == [0, 20, 30, 40, 50, 60, 70, 80, 3]
    own.set(keys[4], 0)
    own.set(keys[0], 1)
    assert [other.total(key) for key in keys] == [1, 20, 30, 40, 0, 60, 70, 80, 3]


@given(steps=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 5), st.integers(0, 3))))
def test_totals_are_those_of_dictionaries(steps: list[tuple[int, int, int]]) -> None:
    """With few keys, a total is the sum of what the other processes have set last."""
    shared = SharedCounts(3)
    parts = [shared.of(number) for number in range(3)]
    model: list[dict[int, int]] = [{}, {}, {}]
    for process, name, value in steps:
        parts[process].set(key_of(name), value)
        model[process][name] = value
    for process, part in enumerate(parts):
        for name in range(6):
            found = [one.get(name, 0) for number, one in enumerate(model) if number != process]
            assert (part.total(key_of(name)), part.largest(key_of(name))) == (sum(found), max(found))
