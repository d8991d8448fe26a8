from __future__ import annotations

from kcp_py.server.warnings import warning_headers


def _values(texts):
    return [value.decode() for name, value in warning_headers(texts) if name == b"warning"]


def test_format():
    """A warning has code 299, no agent, and a quoted text."""
    assert _values(['unknown field "spec.foo"', "back\\slash"]) == [
        '299 - "unknown field \\"spec.foo\\""',
        '299 - "back\\\\slash"',
    ]


def test_repeated_and_empty_texts_are_dropped():
    """Each text is sent once, in the order in which it first came."""
    assert _values(["b", "a", "b", ""]) == ['299 - "b"', '299 - "a"']


def test_control_characters_cannot_split_the_header():
    """A text with a line break or another control character is not sent."""
    assert _values(["a\r\nX-Evil: 1", "b\x00", "c\x85", "d"]) == ['299 - "d"']


def test_long_texts_are_cut_beyond_the_limit():
    """Above 4096 characters in sum, every text is cut to 256."""
    assert _values(["x" * 4096]) == [f'299 - "{"x" * 4096}"']
    assert _values(["x" * 4000, "y" * 97]) == [f'299 - "{"x" * 256}"', f'299 - "{"y" * 97}"']
    many = _values([f"{number:03}{'z' * 300}" for number in range(100)])
    assert len(many) == 16
    assert all(len(text) == len('299 - ""') + 256 for text in many)
