"""String formats, by the definitions of Go's registry."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.formats import find_format, is_recognized

# A text on which a backtracking pattern would take very long.
EVIL = ["a" * 1000, "a " * 500, "a." * 500, "." * 1000, '"a"' * 300, "\\" * 1000, "a" * 500 + "@" + "a" * 400 + "!("]

CASES: dict[str, tuple[list[str], list[str]]] = {
    "date-time": (
        ["2026-01-02T03:04:05Z", "2026-01-02t03:04:05.123456z", "2026-01-02T03:04:05+01:00", "2024-02-29T00:00:00Z"],
        ["2026-01-02", "2026-01-02 03:04:05Z", "2026-01-02T03:04:05", "2026-02-29T00:00:00Z", "2026-01-02T24:00:00Z", "T", ""],
    ),
    "date": (["2026-01-02", "0000-01-01"], ["2026-1-2", "2026-13-01", "02-01-2026", ""]),
    "duration": (
        ["5m", "1h30m", "-1.5h", "0", "300ms", "4 days", "1 week 2 hours", "3 nano"],
        ["", "5", "m", "five minutes", "1 fortnight", "1h30m" * 50 + "-1h", "10 20 " * 80],
    ),
    "uri": (
        ["http://example.com", "https://example.com:8080/a?b=c", "/absolute/path", "mailto:x@example.com", "http://[::1]:80/"],
        ["", "relative/path", "http://a b.com", "http://example.com:port/", "/%zz", "a\x00b"],
    ),
    "email": (
        ["a@example.com", "A B <a.b@example.com>", '"quoted x"@example.com', "a+tag@localhost"],
        ["", "a", "@example.com", "a@", "a@@b.c", "a b@example.com", "x" * 2000 + "@example.com", *EVIL],
    ),
    "hostname": (
        ["example.com", "localhost", "a-b.example.london", "1.example.com", "ünicode.example.com"],
        ["", "-a.com", "a-.com", "a..com", "a.c", "exa mple.com", "a" * 64 + ".com", "a_b.com", ".".join(["abc"] * 80)],
    ),
    "ipv4": (["1.2.3.4", "01.2.3.04", "00.0.0.0", "::ffff:1.2.3.4"], ["1.2.3", "1.2.3.256", "1.2.3.", "1.2.3.+4", "::1", ""]),
    "ipv6": (["::1", "2001:db8::8a2e:370:7334", "::ffff:1.2.3.4"], ["1.2.3.4", "::g", "fe80::1%eth0", "::1%", ""]),
    "cidr": (["10.0.0.0/8", "2001:db8::/32"], ["10.0.0.0", "10.0.0.0/33", "10.0.0.0/08", "::1/129"]),
    "mac": (["01:23:45:67:89:ab", "0123.4567.89ab", "01-23-45-67-89-AB"], ["01:23:45:67:89", "01:23:45:67:89:zz"]),
    "uuid": (["a8098c1a-f86e-11da-bd1a-00112444be1e", "A8098C1AF86E11DABD1A00112444BE1E"], ["a8098c1a", ""]),
    "uuid3": (["bcd02e22-68f0-3046-a512-327cca9def8f"], ["025b0d74-00a2-4048-bf57-227c5111bb34"]),
    "uuid4": (["025b0d74-00a2-4048-bf57-227c5111bb34"], ["bcd02e22-68f0-3046-a512-327cca9def8f"]),
    "uuid5": (["886313e1-3b8a-5372-9b90-0c9aee199e5d"], ["025b0d74-00a2-4048-bf57-227c5111bb34"]),
    "isbn": (["0321751043", "978-0321751041"], ["836217463"]),
    "isbn10": (["0321751043"], ["978-0321751041"]),
    "isbn13": (["978-0321751041"], ["0321751043"]),
    "creditcard": (["4111-1111-1111-1111"], ["9999-9999-9999-999", "4111-1111-1111-1112"]),
    "ssn": (["111-11-1111", "111 11 1111"], ["999 99 999", "111111111"]),
    "hexcolor": (["#FFFFFF", "fff"], ["#fffffffz", "ffff"]),
    "rgbcolor": (["rgb(100,100,100)", "rgb( 0 , 1, 255 )"], ["rgb(300,0,0)", "100,100,100"]),
    "byte": (["ZWxlcGhhbnQ=", "YWJj"], ["ZWxlcGhhbnQ", "a", "", "abc$", "YW\nJj", "YWJj\n", "YW\r\nJj", "a-_b", "YQ==YQ=="]),
    "password": (["", "anything"], []),
    "bsonobjectid": (["507f1f77bcf86cd799439011"], ["507f", ""]),
    "k8s-short-name": (["a-b"], ["a.b", "A", "a" * 64]),
    "k8s-long-name": (["a.b"], ["A.b", ""]),
}


@pytest.mark.parametrize("name", CASES)
def test_formats(name):
    """Each format takes its valid forms and refuses others, under its name with or without dashes."""
    rule = find_format(name)
    assert rule is not None
    assert rule is find_format(name.replace("-", ""))
    valid, invalid = CASES[name]
    assert [text for text in valid if not rule(text)] == []
    assert [text for text in invalid if rule(text)] == []


def test_unknown_formats_have_no_rule():
    """An undefined format has no effect and causes a warning; numeric formats are defined."""
    assert find_format("made-up") is None
    assert not is_recognized("made-up", "string")
    assert all(is_recognized(name, kind) for kind in ("", "string") for name in ("date-time", "uuid"))
    assert all(is_recognized(name, "integer") for name in ("int32", "int64"))
    assert all(is_recognized(name, "number") for name in ("float", "double"))
    assert not any(is_recognized("int32", kind) for kind in ("", "string", "number", "boolean", "object", "array"))


@pytest.mark.parametrize("text", ["a" * 100_000, "1" * 100_000, "1 " * 50_000, "<" * 100_000, "a." * 50_000, "%" * 100_000, "." * 100_000])
def test_hostile_texts_are_answered_in_linear_time(text):
    """No format's expression backtracks without end: the test would not finish."""
    for name in CASES:
        rule = find_format(name)
        assert rule is not None
        rule(text)
