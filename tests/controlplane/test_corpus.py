"""The corpus of real definitions and objects, over HTTP in process."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.controlplane.corpus_exceptions import unexplained
from tests.controlplane.corpus_judgement import control_plane, judge
from tests.controlplane.corpus_table import TABLE, render
from tests.corpus import needs_corpus

pytestmark = [pytest.mark.anyio, needs_corpus, pytest.mark.slow]


async def test_everything_is_judged_as_upstream_judges_it(tmp_path: Path) -> None:
    """Definitions alone and together, objects of all labels, in every served version: whatever differs has a known reason."""
    async with control_plane(tmp_path) as api:
        judgement = await judge(api)
    assert list(unexplained(judgement)) == []
    assert judgement.agreed["crs: accepted"] >= 1860
    assert judgement.agreed["crds and crds-huge: established together"] >= 616
    assert TABLE.read_text("utf-8") == render(judgement), "docs/corpus.md is out of date: run `make update`"
