"""Lines without structlog are those with it."""

from __future__ import annotations

import io
import json
from typing import get_args

import pytest
import structlog

from kcp_py.telemetry.lines import Style
from kcp_py.telemetry.logs import configure_logging
from kcp_py.telemetry.plainlog import PlainLog

FIELDS = {"process": "owner", "child_pid": 7, "error": "Bearer abc\n", "password": "secret"}


def without_time(lines: bytes) -> bytes:
    """Lines with nines in the place of digits of the time, which come first."""
    return b"".join(bytes(57 if 48 <= byte <= 57 and at < 45 else byte for at, byte in enumerate(line)) for line in lines.splitlines(True))


@pytest.mark.parametrize("style", get_args(Style))
def test_lines_are_those_of_structlog(style: Style) -> None:
    """Both write the same events with the same fields, in each format."""
    plain, other = io.BytesIO(), io.BytesIO()
    log = PlainLog("info", style, plain)
    configure_logging("info", style, other)
    try:
        structured = structlog.get_logger()
        for one in (log, structured):
            one.info("process_started", **FIELDS)
            one.warning("process_killed", **FIELDS)
            one.error("process_ended", **FIELDS)
    finally:
        structlog.reset_defaults()
        # A server in a later test would set up the logs of a process that has not done so.
        structlog.configure()
    assert without_time(plain.getvalue()) == without_time(other.getvalue())
    assert plain.getvalue().count(b"process_killed") == 1
    assert b"secret" not in plain.getvalue()
    assert b"abc" not in plain.getvalue()


def test_lower_levels_are_left_out() -> None:
    """Events below the level are not written."""
    stream = io.BytesIO()
    log = PlainLog("warning", "json", stream)
    log.info("process_started")
    log.warning("process_killed")
    (line,) = stream.getvalue().splitlines()
    assert (json.loads(line)["level"], json.loads(line)["event"]) == ("warning", "process_killed")


def test_a_closed_stream_is_no_error() -> None:
    """A line that cannot be written is lost."""
    stream = io.BytesIO()
    log = PlainLog("info", "json", stream)
    stream.close()
    log.info("process_started")
