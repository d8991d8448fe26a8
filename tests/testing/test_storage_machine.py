"""The machine and the model find drivers that break the contract."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from kcp_py.storage.contract import Compare, KeyValue, Operation, Put, RangeResult, WatchBatch
from kcp_py.storage.memory import MemoryStorage
from kcp_py.testing.storage_machine import storage_machine
from kcp_py.testing.storage_model import StorageModel


class _IgnoresStart(MemoryStorage):
    async def range(self, prefix: str, *, start: str = "", **options: Any) -> RangeResult:
        del start
        return await super().range(prefix, **options)


class _ForgetsCompares(MemoryStorage):
    async def transact(self, compares: Sequence[Compare], operations: Sequence[Operation]) -> int:
        return await super().transact(compares[:1], operations)


class _LosesEvents(MemoryStorage):
    async def watch(self, prefix: str, *, start_revision: int) -> AsyncGenerator[WatchBatch, None]:
        async for batch in super().watch(prefix, start_revision=start_revision):
            yield WatchBatch(batch.events[:2], batch.revision)


class _ForgetsAtRestart(MemoryStorage):
    async def __aexit__(self, *exc_info: object) -> None:
        await super().__aexit__(*exc_info)
        self.__init__()  # type: ignore[misc]


@pytest.mark.parametrize("driver", [_IgnoresStart, _ForgetsCompares, _LosesEvents, _ForgetsAtRestart])
def test_broken_drivers_are_found(driver: type[MemoryStorage]) -> None:
    """Each of these faults is found within few histories."""
    with pytest.raises(AssertionError):
        run_state_machine_as_test(
            storage_machine(driver),
            settings=settings(
                max_examples=200,
                stateful_step_count=40,
                deadline=None,
                database=None,
                derandomize=True,
                phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            ),
        )


def test_model_example() -> None:
    """The model gives the answers of the contract's own example."""
    model = StorageModel()
    first = model.transact([Compare("/a", mod_revision=0)], [Put("/a", b"1")])
    assert first == 1
    assert model.transact([Compare("/a", mod_revision=first)], [Put("/a", b"2")]) == 2
    assert model.get("/a") == KeyValue("/a", b"2", 2, 1)
    assert model.range("/", revision=first).items == [KeyValue("/a", b"1", 1, 1)]
    (event,) = model.events("/", first + 1)
    assert (event.value, event.previous) == (b"2", KeyValue("/a", b"1", 1, 1))
