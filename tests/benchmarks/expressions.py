"""One CEL rule, compared with Python."""

from __future__ import annotations

import timeit
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

from kcp_py.cel.environment import Environment
from kcp_py.cel.libraries.standard import STANDARD
from kcp_py.cel.program import compile_expression
from kcp_py.cel.types import INT, STRING, Field, list_of, object_of
from kcp_py.cel.values import Budget
from tests.benchmarks.row import Row


async def cel_row(directory: Path) -> AsyncIterator[Row]:
    """A validation rule over a list of 50 items, compared with an equivalent Python function."""
    del directory
    item = object_of("Item", {name: Field(STRING, name) for name in ("name", "image", "mode")})
    fields = {"replicas": Field(INT, "replicas"), "maxReplicas": Field(INT, "maxReplicas"), "items": Field(list_of(item), "items")}
    environment = Environment({"self": object_of("Self", fields)}, [STANDARD])
    rule = "self.replicas <= self.maxReplicas && self.items.all(i, i.name.startsWith('a'))"
    program = compile_expression(rule, environment)
    value = {"replicas": 1, "maxReplicas": 2, "items": [{"name": f"a{index}", "image": "i", "mode": "m"} for index in range(50)]}

    def written(self: dict[str, Any]) -> bool:
        if self["replicas"] > self["maxReplicas"]:
            return False
        for entry in self["items"]:  # noqa: SIM110 -- a generator is half as fast
            if not entry["name"].startswith("a"):
                return False
        return True

    ours = min(timeit.repeat(lambda: program.evaluate(Budget(1_000_000), value), number=20_000, repeat=5)) / 20_000 * 1e6
    bare = min(timeit.repeat(lambda: written(value), number=20_000, repeat=5)) / 20_000 * 1e6
    yield Row("CEL rule over 50 items", f"{ours:.1f} us", f"{bare:.1f} us", f"{bare / ours:.0%}", "<= 5 us")


EXPRESSION_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "cel": cel_row,
}
