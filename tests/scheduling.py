"""How pytest-xdist shares the tests among its processes: as with `--dist loadgroup`, in a time that is linear in their number.

For each test that ends, the scheduler of pytest-xdist 3.8 counts all tests that the process has had, and searches the list of all tests.
With 18,000 tests that takes the controller half of its time.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import SupportsIndex

from xdist.scheduler import LoadGroupScheduling
from xdist.workermanage import WorkerController


class LinearScheduling(LoadGroupScheduling):  # type: ignore[misc]
    """Forgets the tests that have ended, and knows the places of the others."""

    def add_node_collection(self, node: WorkerController, collection: Sequence[str]) -> None:
        super().add_node_collection(node, collection)
        # One that differs from the first is refused.
        if node in self.registered_collections:
            self.registered_collections[node] = _Collection(collection)

    def mark_test_complete(self, node: WorkerController, item_index: int, duration: float = 0) -> None:
        del duration
        assigned = self.assigned_work[node]
        name = self.registered_collections[node][item_index]
        group = self._split_scope(name)
        assigned[group][name] = True
        # Others of the group may be left to run.
        if all(assigned[group].values()):
            del assigned[group]
        self._reschedule(node)


class _Collection(list[str]):
    """Names of tests, each once."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__(names)
        self._places = {name: place for place, name in enumerate(names)}

    def index(self, value: str, start: SupportsIndex = 0, stop: SupportsIndex = 0) -> int:
        del start, stop
        return self._places[value]
