"""A reader of protobuf's text format, as far as cel-spec's tables use it."""

from __future__ import annotations

import re
from typing import Any

TOKEN = re.compile(
    r"""(?P<blank>\s+|\#[^\n]*)
    |(?P<string>"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')
    |(?P<word>[-+]?[A-Za-z0-9_.]+(?:(?<=[eE])[-+][0-9]+)?)
    |(?P<mark>[{}<>\[\]:;,/])""",
    re.VERBOSE,
)
ESCAPE = re.compile(rb"\\(?:([xX][0-9a-fA-F]{1,2})|([0-7]{1,3})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|(.))", re.DOTALL)
SIMPLE = {b"a": b"\a", b"b": b"\b", b"f": b"\f", b"n": b"\n", b"r": b"\r", b"t": b"\t", b"v": b"\v"}

Message = dict[str, list[Any]]


def read(text: str) -> Message:
    """A message: field name -> its values, each a message, bytes (of quoted text) or a word."""
    tokens = [(match.lastgroup, match.group()) for match in TOKEN.finditer(text) if match.lastgroup != "blank"]
    tokens.append(("end", ""))
    message, at = _fields(tokens, 0, "")
    assert at == len(tokens) - 1
    return message


def _fields(tokens: list[tuple[str | None, str]], at: int, closing: str) -> tuple[Message, int]:
    """The fields up to a closing brace; the place behind them."""
    message: Message = {}
    while tokens[at][1] != closing:
        name = tokens[at][1]
        at += 1
        if name == "[":
            parts = []
            while tokens[at][1] != "]":
                parts.append(tokens[at][1])
                at += 1
            name, at = "".join(parts), at + 1
        if tokens[at][1] == ":":
            at += 1
        if tokens[at][1] == "[":
            at += 1
            while tokens[at][1] != "]":
                value, at = _value(tokens, at)
                message.setdefault(name, []).append(value)
                at += tokens[at][1] == ","
            at += 1
        else:
            value, at = _value(tokens, at)
            message.setdefault(name, []).append(value)
        at += tokens[at][1] in {",", ";"} and bool(closing)
    return message, at


def _value(tokens: list[tuple[str | None, str]], at: int) -> tuple[Any, int]:
    """One value; the place behind it."""
    kind, text = tokens[at]
    if text in {"{", "<"}:
        closing = {"{": "}", "<": ">"}[text]
        message, at = _fields(tokens, at + 1, closing)
        return message, at + 1
    if kind != "string":
        return text, at + 1
    parts = []
    while tokens[at][0] == "string":
        parts.append(ESCAPE.sub(_unescaped, tokens[at][1][1:-1].encode()))
        at += 1
    return b"".join(parts), at


def _unescaped(match: re.Match[bytes]) -> bytes:
    """What an escape stands for."""
    two, octal, four, eight, other = match.groups()
    if two:
        return bytes([int(two[1:], 16)])
    if octal:
        return bytes([int(octal, 8)])
    if four or eight:
        return chr(int(four or eight, 16)).encode()
    return SIMPLE.get(other, other)
