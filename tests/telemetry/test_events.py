from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcp_py.telemetry.events import LOG_EVENTS
from tests.telemetry.logged import faults, logged, standard_loggers


def test_the_table_is_what_the_code_logs():
    """Every event that is logged is in the table with its level and fields, and every event of the table is logged."""
    assert faults() == []


@pytest.mark.parametrize("name", sorted(LOG_EVENTS))
def test_names(name):
    """Names and fields are in snake_case, and each meaning is at least one sentence."""
    event = LOG_EVENTS[name]
    assert all(re.fullmatch(r"[a-z]+(?:_[a-z]+)*", word) for word in (name, *event.fields))
    assert event.levels
    assert re.fullmatch(r"[^|\n]+\.", event.meaning)


def test_the_check_sees_what_is_wrong(tmp_path: Path):
    """Texts instead of names, positional values and standard loggers are found."""
    folder = tmp_path / "package"
    folder.mkdir()
    (folder / "module.py").write_text(
        'import logging\n_log = logging.getLogger(__name__)\n_log.info("store %s", 1)\n_log.warning("store_full", size=1)\nlog.info(text)\n'
    )
    assert [(one.name, one.level, one.fields) for one in logged(folder)] == [
        (None, "info", frozenset()),
        ("store_full", "warning", {"size"}),
        (None, "info", frozenset()),
    ]
    assert list(standard_loggers(folder)) == ["package/module.py:2"]
