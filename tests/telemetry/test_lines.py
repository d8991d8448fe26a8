from __future__ import annotations

import re

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from kcp_py.telemetry.lines import console_line, json_line, redact

TEXTS = st.text(st.characters(codec=None))
VALUES = st.one_of(TEXTS, st.integers(), st.floats(), st.none(), st.booleans(), st.binary(), st.builds(ValueError, TEXTS))


@given(value=VALUES, name=TEXTS)
@example(value="\ud800", name="\udfff")
@example(value=["\ud800"], name="path")
def test_any_value_is_one_line(value, name):
    """Whatever a value is, its line is one line of printable characters, and JSON lines can be decoded."""
    line = {"timestamp": "t", "level": "info", "event": "request", "path": value, name: value}
    written = json_line(line)
    assert orjson.loads(written)["event"] == "request" or name == "event"
    shown = console_line(line).decode()
    for text in (written.decode(), shown):
        assert text.endswith("\n")
        assert text[:-1].isprintable()


@given(text=TEXTS)
def test_tracebacks_cannot_forge_lines(text):
    """Every row of a traceback is indented, so that no row passes for a line of the log."""
    shown = console_line({"timestamp": "t", "level": "error", "event": "request_failed", "exception": f"Traceback\n{text}"}).decode()
    first, *rows = shown[:-1].split("\n")
    assert first == "t error   request_failed"
    assert all(row.startswith("    ") and row.isprintable() for row in rows)


def test_console():
    """Values that are not one plain word are quoted."""
    line = {"timestamp": "2026-01-01T00:00:00Z", "level": "info", "event": "started", "port": 1, "text": 'a "b"=c', "empty": ""}
    assert console_line(line) == b'2026-01-01T00:00:00Z info    started port=1 text="a \\"b\\"=c" empty=""\n'
    assert console_line(line, colours=True).startswith(b"2026-01-01T00:00:00Z \x1b[32minfo   \x1b[0m started")


def test_terminal_sequences_are_escaped():
    """Neither C0 nor C1 control characters nor bidirectional overrides reach a terminal."""
    text = "\x1b[2J\x9b2J\u202e\u2028\x7f\ud800"
    shown = '"\\u001b[2J\\u009b2J\\u202e\\u2028\\u007f\\ud800"'
    # Strict decoders refuse an escaped lone surrogate.
    assert json_line({"a": text}) == f'{{"a": {shown}}}\n'.replace(r"\ud800", r"\\ud800").encode()
    assert console_line({"level": "info", "event": "e", "a": text}).decode() == f"info    e a={shown}\n"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("Authorization: Bearer abc.def-_", "Authorization: Bearer [redacted]"),
        ("basic dXNlcjpwYXNz sent", "basic [redacted] sent"),
        ("https://user:pass@example.com/x", "https://[redacted]@example.com/x"),
        ("POST https://hook.example.com/x?token=abc failed", "POST https://hook.example.com/x?[redacted] failed"),
        ("-----BEGIN EC PRIVATE KEY-----\nabc\n-----END EC PRIVATE KEY-----\nrest", "-----BEGIN EC PRIVATE KEY-----[redacted]\nrest"),
        ("no secret: bearer", "no secret: bearer"),
    ],
)
def test_credentials_are_replaced(text, shown):
    """Credentials in a text are not logged, wherever the text is from; nor in an exception."""
    assert redact({"error": text}) == {"error": shown}
    assert "abc" not in str(redact({"error": ValueError("Bearer abc")}))


@pytest.mark.parametrize("name", ["token", "access_token", "password", "Authorization", "client_secret", "cookie"])
def test_fields_named_after_credentials_are_hidden(name):
    """A field that is named after a credential never shows its value."""
    assert redact({name: "x"}) == {name: "[redacted]"}


def test_values_that_json_does_not_know():
    """Large integers and objects are written; a line is never lost for its values."""
    assert re.search(rb'"n": ?"?100000000000000000000', json_line({"n": 10**20}))
    assert b"<object" in json_line({"o": object()})
