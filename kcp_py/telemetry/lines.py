"""Log lines: one event as one line of JSON or as text for a terminal.

Values may contain text of clients. No value can end a line, move the cursor of a terminal or imitate another line: every character that is
not printable (`str.isprintable`: control characters, line and paragraph separators, bidirectional overrides, lone surrogates) is escaped.
Credentials in texts are always replaced.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, MutableMapping
from functools import cache
from typing import Any, BinaryIO, Final, Literal

HIDDEN: Final = "[redacted]"

Level = Literal["debug", "info", "warning", "error"]
Style = Literal["auto", "json", "console", "text"]
"""`auto` is `console` on a terminal and `json` elsewhere; `text` is an alias of `console`."""
Render = Callable[[Mapping[str, Any]], bytes]
Dumps = Callable[[Mapping[str, Any]], bytes]
"""Writes a line as JSON without a newline. Raises `TypeError` or `ValueError` for what it cannot write."""

_CREDENTIALS: Final = re.compile(
    r"(?i)(?P<scheme>\b(?:bearer|basic|negotiate|digest)\s+)[^\s\"',;)}\]]+"  # of an Authorization header
    r"|(?P<user>://)[^\s/@\"']+@"  # user and password in a URL
    r"|(?P<query>(?:https?|wss?)://[^\s?\"']+\?)[^\s\"')\]]+"  # the query of a URL
    r"|(?P<key>-----BEGIN [A-Z ]*PRIVATE KEY-----).*?(?:-----END [A-Z ]*PRIVATE KEY-----|\Z)",
    re.DOTALL,
)
_SECRET_FIELD: Final = re.compile(r"(?i)(?:^|_)(?:authorization|cookie|password|passwd|secret|token|private_key)$")
_COLOURS: Final = {"debug": "\x1b[2m", "info": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m", "critical": "\x1b[31m"}
_PLAIN: Final = re.compile(r"[^\s\"'=\\]+")
_LEADING: Final = ("timestamp", "level", "event", "exception")


def renderer(style: Style, stream: BinaryIO, dumps: Dumps | None = None) -> Render:
    """The renderer of events for a stream. Colours are used only on terminals without NO_COLOR.

    Args:
        style: the format of lines.
        stream: the output.
        dumps: writes JSON; orjson by default.
    """
    terminal = stream.isatty()
    if style == "json" or (style == "auto" and not terminal):
        return json_line if dumps is None else lambda line: json_line(line, dumps)
    colours = terminal and not os.environ.get("NO_COLOR")
    return lambda line: console_line(line, colours=colours)


def redact(line: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Replace credentials in the texts of a line, and values whose field is named after one. Changes and returns `line`."""
    for key, value in line.items():
        if _SECRET_FIELD.search(key):
            line[key] = HIDDEN
        elif isinstance(value, str):
            line[key] = _CREDENTIALS.sub(_replacement, value)
        elif isinstance(value, BaseException):
            line[key] = _CREDENTIALS.sub(_replacement, repr(value))
    return line


def _replacement(match: re.Match[str]) -> str:
    kept = match["scheme"] or match["user"] or match["query"] or match["key"]
    return f"{kept}{HIDDEN}{'@' if match['user'] else ''}"


@cache
def _orjson() -> Dumps:
    # It takes 2 MB, with what it imports, which a process with another `dumps` does without.
    import orjson  # noqa: PLC0415

    return lambda line: orjson.dumps(line, default=repr, option=orjson.OPT_NON_STR_KEYS)


def json_line(line: Mapping[str, Any], dumps: Dumps | None = None) -> bytes:
    """A line of JSON with its newline. Values without a JSON form are written as their `repr`.

    Args:
        line: the fields.
        dumps: as that of `renderer`.
    """
    try:
        written = (dumps or _orjson())(line)
    except (TypeError, ValueError):
        # Integers beyond 64 bits, lone surrogates, recursion.
        written = json.dumps({_without_surrogates(str(key)): _plain_value(value) for key, value in line.items()}).encode()
    if not written.isascii() or b"\x7f" in written:
        written = "".join(character if character.isprintable() else _escaped(character) for character in written.decode()).encode()
    return written + b"\n"


def _plain_value(value: Any) -> Any:
    if isinstance(value, (bool, int, float, type(None))):
        return value
    return _without_surrogates(value if isinstance(value, str) else repr(value))


def _without_surrogates(text: str) -> str:
    """The text with lone surrogates in hexadecimal, because strict decoders refuse escaped surrogates."""
    return text.encode("utf-8", "backslashreplace").decode()


def _escaped(character: str) -> str:
    return json.dumps(character)[1:-1] if ord(character) != 0x7F else "\\u007f"


def console_line(line: Mapping[str, Any], *, colours: bool = False) -> bytes:
    """Text for a person: time, level, event, then the fields as `name=value`, and a traceback indented below.

    Args:
        line: with `timestamp`, `level` and `event`; `exception` is a traceback.
        colours: whether the level is coloured.
    """
    level = str(line.get("level", ""))
    shown = f"{level:<7}"
    if colours and level in _COLOURS:
        shown = f"{_COLOURS[level]}{shown}\x1b[0m"
    parts = [_printable(str(line.get("timestamp", ""))), shown, _printable(str(line.get("event", "")))]
    parts += [f"{_printable(str(key))}={_value(value)}" for key, value in line.items() if key not in _LEADING]
    text = " ".join(part for part in parts if part)
    if trace := line.get("exception"):
        text += "".join(f"\n    {_printable(row)}" for row in str(trace).splitlines())
    return f"{text}\n".encode()


def _value(value: Any) -> str:
    text = value if isinstance(value, str) else str(value)
    return text if _PLAIN.fullmatch(text) and text.isprintable() else f'"{_printable(text, quoted=True)}"'


def _printable(text: str, *, quoted: bool = False) -> str:
    if quoted:
        text = text.replace("\\", "\\\\").replace('"', '\\"')
    if text.isprintable():
        return text
    return "".join(character if character.isprintable() else _escaped(character) for character in text)
