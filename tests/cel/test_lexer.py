"""Text becomes tokens as cel-spec's grammar has it."""

from __future__ import annotations

import pytest

from kcp_py.cel import lexer


def kinds(text: str) -> list[str]:
    """The kinds of all tokens but the last."""
    return [token.kind for token in lexer.tokens(text)][:-1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a.b", ["name", ".", "name"]),
        ("a // comment\n b", ["name", "name"]),
        ("1 1u 0x1F 0x1fU 1.5 1e3 .5 1.5E-3", ["int", "uint", "int", "uint", "float", "float", "float", "float"]),
        ("x in true false null", ["name", "in", "true", "false", "null"]),
        ("a<=b&&c||!d", ["name", "<=", "name", "&&", "name", "||", "!", "name"]),
        ("'a' \"b\" r'c' b'd' Rb\"e\" '''f'g''' ", ["string", "string", "string", "bytes", "bytes", "string"]),
        ("inner", ["name"]),
        ("", []),
    ],
)
def test_kinds(text: str, expected: list[str]) -> None:
    """Every kind of token is told from the others, the longest match first."""
    assert kinds(text) == expected


def test_positions() -> None:
    """Positions count characters, and the last token stands behind the text."""
    assert [token.position for token in lexer.tokens("'\u00e9' + b")] == [0, 4, 6, 7]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        (r"'\a\b\f\n\r\t\v\\\?\"\'\`'", "\a\b\f\n\r\t\v\\?\"'`"),
        (r"'\x41\101\u00e9\U0001F600'", "AA\u00e9\U0001f600"),
        (r"r'\x41'", r"\x41"),
        ("'''a\n'b'\r\nc'''", "a\n'b'\nc"),
        ("''", ""),
        ('""""\'"""', "\"'"),
        (r"'\''", "'"),
        (r"'\xff'", "\u00ff"),
    ],
)
def test_strings(text: str, value: str) -> None:
    """Escapes in a string stand for code points; raw strings have none; line ends are one character."""
    (token, _) = lexer.tokens(text)
    assert lexer.string_of(token) == value


@pytest.mark.parametrize(
    ("text", "value"),
    [(r"b'\xff\377\101A\n'", b"\xff\xffAA\n"), ("b'\u00e9'", "\u00e9".encode()), (r"rb'\xff'", rb"\xff"), ("B''", b"")],
)
def test_bytes(text: str, value: bytes) -> None:
    """Escapes in bytes stand for bytes; other characters for their UTF-8."""
    (token, _) = lexer.tokens(text)
    assert lexer.bytes_of(token) == value


@pytest.mark.parametrize("text", [r"'\q'", r"'\ud800'", r"'\U00110000'", r"'\x4'", r"'\400'"])
def test_strings_refuse_unknown_escapes(text: str) -> None:
    """An escape that stands for no code point is an error."""
    (token, _) = lexer.tokens(text)
    with pytest.raises(lexer.LexicalError, match="token recognition error"):
        lexer.string_of(token)


@pytest.mark.parametrize("text", [r"b'\u0041'", r"b'\U00000041'"])
def test_bytes_refuse_code_points(text: str) -> None:
    """Bytes know no code points."""
    (token, _) = lexer.tokens(text)
    with pytest.raises(lexer.LexicalError, match="token recognition error"):
        lexer.bytes_of(token)


@pytest.mark.parametrize(("text", "position"), [("a @ b", 2), ("'open", 0), ("a = b", 2), ("'''x''", 5), ("a & b", 2), ("1 \u00b7", 2)])
def test_unknown_characters(text: str, position: int) -> None:
    """A character that begins no token is reported at its place."""
    with pytest.raises(lexer.LexicalError, match="token recognition error") as raised:
        lexer.tokens(text)
    assert raised.value.issue.position == position


def test_long_quoted_text_is_read_in_linear_time() -> None:
    """A hundred thousand characters inside quotes, open or closed, are one match or one error."""
    body = "\\\\" * 50_000
    assert kinds(f"'{body}'") == ["string"]
    with pytest.raises(lexer.LexicalError):
        lexer.tokens(f"'''{body}")


@pytest.mark.parametrize(
    ("text", "sign", "value"),
    [
        ("9223372036854775807", "", 2**63 - 1),
        ("9223372036854775808", "-", -(2**63)),
        ("0x1F", "-", -31),
        ("18446744073709551615u", "", 2**64 - 1),
        ("0xFFu", "", 255),
        ("1.5e3", "-", -1500.0),
    ],
)
def test_numbers(text: str, sign: str, value: float) -> None:
    """A number literal stands for the number, up to the limits of its type."""
    (token, _) = lexer.tokens(text)
    found = lexer.number_of(token, sign)
    assert found == value
    assert isinstance(found, float) is isinstance(value, float)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("9223372036854775808", "invalid int literal"),
        ("1" * 5000, "invalid int literal"),
        ("18446744073709551616u", "invalid uint literal"),
        ("1e999", "invalid double literal"),
    ],
)
def test_numbers_out_of_range(text: str, problem: str) -> None:
    """A number beyond the limits of its type is an error at its position."""
    token = lexer.tokens(f" {text}")[0]
    with pytest.raises(lexer.LexicalError, match=problem) as raised:
        lexer.number_of(token)
    assert raised.value.issue.position == 1
