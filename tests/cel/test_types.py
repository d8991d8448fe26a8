"""Types print as cel-go prints them and compare by their structure."""

from __future__ import annotations

from kcp_py.cel.types import INT, STRING, TIMESTAMP, list_of, map_of, object_of, opaque, optional_of, type_of, type_parameter


def test_names() -> None:
    """Parameters stand in parentheses."""
    assert str(map_of(STRING, list_of(INT))) == "map(string, list(int))"
    assert str(optional_of(TIMESTAMP)) == "optional_type(timestamp)"
    assert str(type_of(INT)) == "type(int)"
    assert str(opaque("net.IP")) == "net.IP"
    assert str(type_parameter("A")) == "A"


def test_sizes_and_list_semantics_do_not_count() -> None:
    """A list with a bound is of the same type as one without."""
    assert list_of(INT, max_size=3, list_type="set") == list_of(INT)
    assert object_of("a", {}) == object_of("a", {})
    assert object_of("a", {}) != object_of("b", {})
