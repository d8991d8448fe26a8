"""Public tables that some tests compare with, when they are at hand; no test of this folder is timed."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

from tests.corpus import TABLES

settings.register_profile("without deadline", deadline=None)
settings.load_profile("without deadline")


@pytest.fixture(scope="session")
def corpus_tables() -> Path:
    """The folder of tables of the corpus."""
    if not TABLES.is_dir():
        pytest.skip("the corpus is not at hand (KCP_PY_CORPUS)")
    return TABLES
