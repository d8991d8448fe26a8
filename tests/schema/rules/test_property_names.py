"""How properties are spelled in expressions."""

from __future__ import annotations

import pytest

from kcp_py.schema.rules.property_names import escape


@pytest.mark.parametrize(
    ("name", "escaped"),
    [
        ("plain", "plain"),
        ("a.b", "a__dot__b"),
        ("a-b/c", "a__dash__b__slash__c"),
        ("__x__", "__underscores__x__underscores__"),
        ("namespace", "__namespace__"),
        ("1st", None),
        ("a b", None),
        ("ä", None),
        ("", None),
    ],
)
def test_names_are_escaped(name: str, escaped: str | None):
    """Or cannot be spelled."""
    assert escape(name) == escaped
