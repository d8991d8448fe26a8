"""`Target`: one parser, how its inputs are made, and what must hold for each of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from types import FrameType
from typing import Any

BASE_CALLS = 20_000
"""Function calls that any input may cost."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """One parser.

    Attributes:
        name: what the command line and the ids of tests call it.
        make: an input; everything that is left to chance is asked of the argument.
        run: feeds the parser and raises for what must not be: an error that is not a declared one, a result that does not hold.
        seeds: inputs that must hold by themselves, most of them valid.
        calls_per_byte: function calls that each byte of an input may cost above `BASE_CALLS`.
    """

    name: str
    make: Callable[[Random], bytes]
    run: Callable[[bytes], None]
    seeds: Sequence[bytes] = field(default=())
    calls_per_byte: int = 100

    def check(self, data: bytes) -> None:
        """Run one input and count what it costs.

        Raises:
            AssertionError: it costs more calls than its size allows.
        """
        calls = 0

        def count(_frame: FrameType, _event: str, _argument: Any) -> None:
            nonlocal calls
            calls += 1

        before = sys.getprofile()
        sys.setprofile(count)
        try:
            self.run(data)
        finally:
            sys.setprofile(before)
        # Returns are events as calls are.
        allowed = 2 * (BASE_CALLS + self.calls_per_byte * len(data))
        assert calls <= allowed, f"{self.name}: {calls} calls and returns for {len(data)} bytes, more than {allowed}"
