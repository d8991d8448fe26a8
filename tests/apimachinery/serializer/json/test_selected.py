"""Members that are decoded without the others."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.serializer.json.selected import Path, decoder

NAMES = st.sampled_from(["a", "b", '"', "ä\n", ""])
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=20,
)
PATHS = st.lists(st.lists(NAMES, min_size=1, max_size=6).map(tuple), max_size=4)


def pruned(value: Any, paths: Iterable[Path]) -> Any:
    """The members of an object that are left where only these paths are looked for, four names deep.

    Raises:
        ValueError: a value on the way is not an object.
    """
    paths = [path[:4] for path in paths]
    if () in paths:
        return value
    if type(value) is not dict:
        raise ValueError(value)
    names = {path[0] for path in paths} & value.keys()
    return {name: pruned(value[name], [path[1:] for path in paths if path[0] == name]) for name in names}


@given(st.dictionaries(NAMES, VALUES, max_size=4), PATHS)
def test_only_what_paths_lead_to_is_decoded(obj: dict[str, Any], paths: list[Path]) -> None:
    """With the values that the whole object has there; another value on the way is an error."""
    decode, document = decoder(frozenset(paths)), orjson.dumps(obj)
    try:
        expected = pruned(orjson.loads(document), paths)
    except ValueError:
        with pytest.raises(ValueError, match="Expected `object`"):
            decode(document)
    else:
        assert orjson.dumps(decode(document), option=orjson.OPT_SORT_KEYS) == orjson.dumps(expected, option=orjson.OPT_SORT_KEYS)


@given(VALUES, VALUES)
def test_a_member_stays_as_its_bytes(value: Any, other: Any) -> None:
    """Whatever it is, next to members that are decoded."""
    document = orjson.dumps({"x": other, "raw": value, "y": 1})
    found = decoder(frozenset({("y",)}), raw="raw")(document)
    assert found.keys() == {"raw", "y"}
    assert bytes(memoryview(found["raw"])) == orjson.dumps(value)


def test_other_values_are_errors() -> None:
    """Other values, text behind the object, and nesting without an end."""
    decode = decoder(frozenset({("a",)}))
    for document in (b"[]", b"null", b'{"a":1}x', b'{"a":', b'{"a":NaN}'):
        with pytest.raises(ValueError, match=r"Expected|malformed|truncated"):
            decode(document)
    with pytest.raises(RecursionError):
        decode(b'{"b":' + b"[" * 100_000 + b"]" * 100_000 + b"}")


def test_the_last_of_equal_names_counts() -> None:
    """As for whole objects."""
    document = b'{"a":{"b":1,"b":2},"a":{"b":3,"c":4,"b":5}}'
    assert decoder(frozenset({("a", "b")}))(document) == {"a": {"b": 5}}
    assert bytes(memoryview(decoder(frozenset(), raw="a")(document)["a"])) == b'{"b":3,"c":4,"b":5}'


def test_all_members_of_an_object() -> None:
    """The empty path leads to the object itself."""
    assert decoder(frozenset({(), ("a",)}))(b'{"a":1,"b":[2]}') == {"a": 1, "b": [2]}
