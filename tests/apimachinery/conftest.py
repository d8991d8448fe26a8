"""Public tables that some tests compare with, when they are at hand; no test of this folder is timed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from hypothesis import settings

settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")


@pytest.fixture(scope="session")
def corpus_tables() -> Path:
    """The folder of tables of the corpus: `KCP_PY_CORPUS`, or `../shared/corpus` beside the repository."""
    root = os.environ.get("KCP_PY_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus"
    tables = Path(root) / "tables"
    if not tables.is_dir():
        pytest.skip("the corpus is not at hand (KCP_PY_CORPUS)")
    return tables
