"""Keys of extra fields in names of headers."""

from __future__ import annotations

import pytest

from kcp_py.request.headertexts import extra_key, header_text


@pytest.mark.parametrize(
    ("encoded", "key"),
    [
        (b"scopes", "scopes"),
        (b"acme.com%2fproject", "acme.com/project"),
        (b"%41%C3%ab", "A\u00eb"),
        (b"%ff", "\ufffd"),
        (b"a+b", "a+b"),
        (b"%", "%"),
        (b"%2", "%2"),
        (b"%zz%2f", "%zz%2f"),
        (b"%-1", "%-1"),
        (b"% 1", "% 1"),
        (b"", ""),
    ],
)
def test_keys(encoded: bytes, key: str) -> None:
    """Percent-encoded bytes are decoded; a name with a malformed one stays as it is."""
    assert extra_key(encoded) == key


def test_values() -> None:
    """Values are UTF-8, and other bytes are replaced."""
    assert header_text("zo\u00eb".encode()) == "zo\u00eb"
    assert header_text(b"a\xff") == "a\ufffd"
