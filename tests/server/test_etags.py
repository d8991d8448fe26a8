"""Entity tags in requests."""

from __future__ import annotations

import pytest

from kcp_py.server.etags import is_current

TAG = '"AB12"'


@pytest.mark.parametrize(
    ("header", "strong", "weak"),
    [
        pytest.param(b"", False, False, id="no header"),
        pytest.param(b'"AB12"', True, True, id="the tag"),
        pytest.param(b'"00" ,\t"AB12"', True, True, id="one of several"),
        pytest.param(b'W/"AB12"', False, True, id="a weak tag"),
        pytest.param(b"*", False, True, id="any tag"),
        pytest.param(b'"AB1"', False, False, id="another tag"),
        pytest.param(b"AB12", False, False, id="without quotes"),
        pytest.param(b'"\xff"', False, False, id="not ASCII"),
    ],
)
def test_the_current_tag_is_recognized(header: bytes, *, strong: bool, weak: bool) -> None:
    """Weak comparison also accepts weak tags and the asterisk."""
    assert is_current(header, TAG, weak=False) is strong
    assert is_current(header, TAG, weak=True) is weak
