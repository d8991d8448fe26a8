"""Members that are decoded without the others."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import takewhile
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
    """The members of an object that are left where only these paths are looked for.

    Raises:
        ValueError: a value on the way is not an object.
    """
    paths = list(paths)
    if () in paths:
        return value
    if type(value) is not dict:
        raise ValueError(value)
    names = {path[0] for path in paths} & value.keys()
    return {name: pruned(value[name], [path[1:] for path in paths if path[0] == name]) for name in names}


def looked_for(path: Path) -> Path:
    """The part of a path that is looked for: four names, up to the first one with other characters than those of ASCII."""
    return tuple(takewhile(str.isascii, path[:4]))


@given(st.dictionaries(NAMES, VALUES, max_size=4), PATHS)
def test_only_what_paths_lead_to_is_decoded(obj: dict[str, Any], paths: list[Path]) -> None:
    """With the values that the whole object has there; another value on the way is an error."""
    decode, document = decoder(frozenset(paths)), orjson.dumps(obj)
    try:
        expected = pruned(orjson.loads(document), map(looked_for, paths))
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


@pytest.mark.parametrize("name", ["ä", "日本", "é\n"])
def test_names_of_all_characters_are_found(name: str) -> None:
    """And the empty name is another one, also next to the bytes of a member."""
    document = orjson.dumps({"": 1, name: {"x": 2}, "raw": {"y": 3}})
    for path in ((name,), (name, "x")):
        assert decoder(frozenset({path}))(document)[name] == {"x": 2}
        found = decoder(frozenset({path}), raw="raw")(document)
        assert (found[""], found[name], bytes(memoryview(found["raw"]))) == (1, {"x": 2}, b'{"y":3}')
    inner = orjson.dumps({"a": {"": 1, name: 2}})
    assert decoder(frozenset({("a", name)}))(inner) == {"a": {"": 1, name: 2}}


def test_the_last_of_equal_names_counts() -> None:
    """As for whole objects."""
    document = b'{"a":{"b":1,"b":2},"a":{"b":3,"c":4,"b":5}}'
    assert decoder(frozenset({("a", "b")}))(document) == {"a": {"b": 5}}
    assert bytes(memoryview(decoder(frozenset(), raw="a")(document)["a"])) == b'{"b":3,"c":4,"b":5}'


def test_very_many_objects_on_the_way_are_decoded_as_a_whole() -> None:
    """So that a decoder stays small."""
    document = b'{"a0":{"b":{"c":1},"x":2},"y":3}'
    few, many = ([(f"a{number}", "b", "c") for number in range(count)] for count in (8, 9))
    assert decoder(frozenset(few))(document) == {"a0": {"b": {"c": 1}}}
    assert decoder(frozenset(many))(document) == {"a0": {"b": {"c": 1}, "x": 2}}


def test_all_members_of_an_object() -> None:
    """The empty path leads to the object itself."""
    assert decoder(frozenset({(), ("a",)}))(b'{"a":1,"b":[2]}') == {"a": 1, "b": [2]}
