"""Every parser with inputs made to hurt: the same ones in every run, as many in every run."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import HealthCheck, Phase, given, note, settings
from hypothesis import strategies as st

from tests.fuzz import TARGETS
from tests.fuzz.target import Target

EXAMPLES = 40
"""For each target. Longer: `make fuzz`."""


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_inputs_to_start_from(target: Target) -> None:
    """The seeds of the inputs cause no failures."""
    for seed in target.seeds:
        target.run(seed)
        target.check(seed)


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_no_input_hurts(target: Target) -> None:
    """Only declared errors come out, results hold, and the work is bounded by the size of the input."""

    @settings(
        max_examples=EXAMPLES,
        derandomize=True,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )
    @given(st.randoms(use_true_random=False))
    def holds(random: Random) -> None:
        data = target.make(random)
        note(f"{target.name}: {data!r}")
        target.check(data)

    holds()
