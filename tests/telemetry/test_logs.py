from __future__ import annotations

import io

import orjson
import pytest
import structlog

from kcp_py.telemetry.logs import MAX_PROBLEMS, AccessLog, configure_embedded_logging, configure_logging


@pytest.fixture(autouse=True)
def _restore():
    yield
    structlog.reset_defaults()
    structlog.configure()


def test_json_lines():
    """An event is one line of JSON with its level, time and values."""
    out = io.BytesIO()
    configure_logging("info", "json", out)
    log = structlog.get_logger("x")
    log.debug("hidden")
    log.info("started", port=6443)
    try:
        orjson.loads("{}")["inner"]
    except KeyError:
        log.exception("failed")
    first, second = map(orjson.loads, out.getvalue().splitlines())
    assert (first["event"], first["level"], first["port"]) == ("started", "info", 6443)
    assert first["timestamp"].endswith("Z")
    assert "KeyError: 'inner'" in second["exception"]


def test_auto_is_json_where_there_is_no_terminal():
    """A file gets JSON."""
    out = io.BytesIO()
    configure_logging("warning", "auto", out)
    structlog.get_logger().warning("careful", path=object)
    assert orjson.loads(out.getvalue())["event"] == "careful"


def test_text(capsys):
    """A person gets text."""
    configure_logging("info", "text")
    structlog.get_logger().info("started", port=6443)
    assert "started" in capsys.readouterr().err


@pytest.mark.parametrize(("no_color", "coloured"), [("", True), ("1", False)])
def test_no_color(monkeypatch, no_color, coloured):
    """A terminal gets colours unless NO_COLOR is set to anything."""

    class Terminal(io.BytesIO):
        def isatty(self):
            return True

    monkeypatch.setenv("NO_COLOR", no_color)
    terminal = Terminal()
    configure_logging("info", "auto", terminal)
    structlog.get_logger().info("started", port=6443)
    assert b"started" in terminal.getvalue()
    assert (b"\x1b[" in terminal.getvalue()) is coloured


@pytest.mark.anyio
async def test_access_lines_are_bundled():
    """Lines wait for each other, but not for ever, and a flood is written out in between."""
    written: list[bytes] = []
    log = AccessLog(written.append)
    log.record({"code": 200})
    log.record({"code": 404})
    assert written == []
    log.flush()
    assert written == [b'{"code":200}\n{"code":404}\n']
    log.flush()
    assert len(written) == 1
    for _ in range(600):
        log.record({"code": 200})
    assert len(written) == 2
    log.flush()
    assert b"".join(written).count(b"\n") == 602


@pytest.mark.anyio
async def test_access_log_of_a_stream(tmp_path):
    """Lines are in the file once they are written, not in a buffer before it."""
    with (tmp_path / "access.log").open("wb") as stream:
        log = AccessLog.to_stream(stream)
        log.record({"code": 200})
        log.flush()
        assert (tmp_path / "access.log").read_bytes() == b'{"code":200}\n'


@pytest.mark.parametrize("broken", [BrokenPipeError, OSError, ValueError])
def test_a_log_that_cannot_be_written_fails_nobody(broken):
    """A closed pipe or a full disk does not make the logged call fail."""

    class Broken(io.BytesIO):
        def write(self, _data):
            raise broken

    configure_logging("info", "json", Broken())
    structlog.get_logger().info("started")
    AccessLog.to_stream(Broken(), "json")._write(b"line")


@pytest.mark.anyio
async def test_problems_are_bounded():
    """A flood of problems is not written to the disk: beyond a bound for some seconds they are counted, and the next line says how many."""
    now = 0.0
    written: list[bytes] = []
    log = AccessLog(written.append, every=False, now=lambda: now)
    assert [log.admit() for _ in range(MAX_PROBLEMS + 7)] == [True] * MAX_PROBLEMS + [False] * 7
    now = 11.0
    assert log.admit()
    log.record({"status": 500})
    log.record({"status": 500})
    log.flush()
    assert written == [b'{"status":500,"suppressed":7}\n{"status":500}\n']


def test_a_program_without_logs_of_its_own_gets_warnings_alone(capfd):
    """An embedded server prints nothing on standard output, and does not touch what the program has set up."""
    structlog.reset_defaults()
    configure_embedded_logging()
    log = structlog.get_logger("x")
    log.debug("hidden")
    log.info("hidden")
    log.warning("careful")
    out, err = capfd.readouterr()
    assert out == ""
    assert "careful" in err
    assert "hidden" not in err
    own = io.BytesIO()
    configure_logging("info", "json", own)
    configure_embedded_logging()
    log.info("mine")
    assert b"mine" in own.getvalue()
