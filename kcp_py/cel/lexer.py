"""Text -> tokens (cel-spec, "Syntax"; cel-go's `CEL.g4`)."""

from __future__ import annotations

import math
import re
from typing import TYPE_CHECKING, Final, NamedTuple

from kcp_py.cel.errors import Issue
from kcp_py.cel.values import INT_MAX, INT_MIN, UINT_MAX, UInt

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["END", "LexicalError", "Token", "bytes_of", "number_of", "string_of", "tokens"]

END: Final = "<EOF>"


class Token(NamedTuple):
    """One token.

    Attributes:
        kind: `name`, `int`, `uint`, `float`, `string`, `bytes`, `<EOF>`; of operators and keywords the text itself.
        text: as written.
        position: offset in characters.
    """

    kind: str
    text: str
    position: int


class LexicalError(Exception):
    """A character that begins no token, an invalid escape, or a number out of range."""

    def __init__(self, message: str, position: int) -> None:
        """Keep what and where."""
        self.issue = Issue(message, position)
        super().__init__(message)


# Quoted text is one alternative for each kind of quote: in each the branches exclude one another, so matching is linear.
_THREE_QUOTES: Final = r""""{3}(?:[^\\"]|\\[\s\S]|"(?!""))*"{3}""" + r"""|'{3}(?:[^\\']|\\[\s\S]|'(?!''))*'{3}"""
_ONE_QUOTE: Final = r'''"(?:[^\\"\n\r]|\\[^\n\r])*"''' + r"""|'(?:[^\\'\n\r]|\\[^\n\r])*'"""
_QUOTED: Final = f"{_THREE_QUOTES}|{_ONE_QUOTE}"
_RAW_QUOTED: Final = r"""\"\"\"(?:[^"]|"(?!""))*\"\"\"|'''(?:[^']|'(?!''))*'''|"[^"\n\r]*"|'[^'\n\r]*'"""
_TOKEN: Final = re.compile(
    rf"""(?P<blank>[\t\ \r\n\f]+|//[^\n]*)
    |(?P<bytes>[bB](?:[rR](?:{_RAW_QUOTED})|(?:{_QUOTED}))|[rR][bB](?:{_RAW_QUOTED}))
    |(?P<string>[rR](?:{_RAW_QUOTED})|{_QUOTED})
    |(?P<float>[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+|\.[0-9]+(?:[eE][+-]?[0-9]+)?)
    |(?P<uint>(?:0x[0-9a-fA-F]+|[0-9]+)[uU])
    |(?P<int>0x[0-9a-fA-F]+|[0-9]+)
    |(?P<name>[A-Za-z_][A-Za-z0-9_]*)
    |(?P<operator>==|!=|<=|>=|&&|\|\||[<>\[\]{{}}().,\-!?:+*/%])""",
    re.VERBOSE,
)
_KEYWORDS: Final = frozenset({"true", "false", "null", "in"})
_ESCAPE: Final = re.compile(r"\\(?:[xX]([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2})|([\s\S]))")
_SIMPLE: Final = {
    "a": "\a",
    "b": "\b",
    "f": "\f",
    "n": "\n",
    "r": "\r",
    "t": "\t",
    "v": "\v",
    "\\": "\\",
    "?": "?",
    '"': '"',
    "'": "'",
    "`": "`",
}
_LAST_CODE_POINT: Final = 0x10FFFF
_SURROGATES: Final = range(0xD800, 0xE000)


def tokens(text: str) -> list[Token]:
    """All tokens of `text`, blanks and comments left out, `END` last.

    Raises:
        LexicalError: a character begins no token.
    """
    found: list[Token] = []
    position, end = 0, len(text)
    while position < end:
        match = _TOKEN.match(text, position)
        if match is None:
            msg = f"Syntax error: token recognition error at: '{text[position]}'"
            raise LexicalError(msg, position)
        kind = match.lastgroup or ""
        written = match.group()
        if kind == "operator" or (kind == "name" and written in _KEYWORDS):
            kind = written
        if kind != "blank":
            found.append(Token(kind, written, position))
        position = match.end()
    found.append(Token(END, END, end))
    return found


def number_of(token: Token, sign: str = "") -> int | float:
    """The number that a literal stands for.

    Args:
        token: of the kind `int`, `uint` or `float`.
        sign: `-` where one precedes the literal; not for `uint`.

    Raises:
        LexicalError: the number is not in the range of its type.
    """
    if token.kind == "int":
        number = _integer(sign + token.text)
        if INT_MIN <= number <= INT_MAX:
            return number
        raise LexicalError("invalid int literal", token.position)
    if token.kind == "uint":
        number = _integer(token.text[:-1])
        if number <= UINT_MAX:
            return UInt(number)
        raise LexicalError("invalid uint literal", token.position)
    value = float(sign + token.text)
    if math.isfinite(value):
        return value
    raise LexicalError("invalid double literal", token.position)


def _integer(text: str) -> int:
    """The value of a decimal or hexadecimal literal; absurdly long ones are out of every range."""
    if len(text) > 40:
        return UINT_MAX + 1
    return int(text, 16 if "0x" in text else 10)


def string_of(token: Token) -> str:
    r"""The text that a string literal stands for; `\x41` and `\101` are code points.

    Raises:
        LexicalError: an unknown escape, or one for an invalid code point.
    """
    body, raw = _body(token)
    return body if raw else _ESCAPE.sub(_unescape(token, _code_point), body)


def bytes_of(token: Token) -> bytes:
    r"""The bytes that a bytes literal stands for; `\x41` and `\101` are bytes, `\u` is not allowed.

    Raises:
        LexicalError: an escape that stands for nothing.
    """
    body, raw = _body(token)
    if raw:
        return body.encode()
    # Escapes become single characters of a private plane's surrogates, which no source text holds, so that they survive the encoding.
    return _ESCAPE.sub(_unescape(token, _byte), body).encode("utf-8", "surrogateescape")


def _body(token: Token) -> tuple[str, bool]:
    """What stands between the quotes, and whether escapes are to be left alone."""
    text = token.text
    prefix = len(text) - len(text.lstrip("rRbB"))
    raw = "r" in text[:prefix].lower()
    text = text[prefix:]
    quote = 3 if text[:3] in {'"""', "'''"} and len(text) >= 6 else 1
    return text[quote:-quote].replace("\r\n", "\n").replace("\r", "\n"), raw


def _unescape(token: Token, character: Callable[[re.Match[str]], str | None]) -> Callable[[re.Match[str]], str]:
    """A replacement for `_ESCAPE.sub` that refuses what `character` does not know."""

    def replace(match: re.Match[str]) -> str:
        replacement = character(match)
        if replacement is None:
            msg = f"Syntax error: token recognition error at: '{match.group()}'"
            raise LexicalError(msg, token.position)
        return replacement

    return replace


def _code_point(match: re.Match[str]) -> str | None:
    """The character of one escape in a string."""
    two, four, eight, octal, other = match.groups()
    if other is not None:
        return _SIMPLE.get(other)
    value = int(octal, 8) if octal else int(two or four or eight, 16)
    return None if value > _LAST_CODE_POINT or value in _SURROGATES else chr(value)


def _byte(match: re.Match[str]) -> str | None:
    """The character that encodes to the byte of one escape."""
    two, four, eight, octal, other = match.groups()
    if other is not None:
        return _SIMPLE.get(other)
    if four or eight:
        return None
    value = int(octal, 8) if octal else int(two, 16)
    return chr(value) if value < 0x80 else chr(0xDC00 + value)
