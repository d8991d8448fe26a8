"""Upstream's own cases for sets of fields, where the corpus is present."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.managedfields.fieldsets import FieldSetError, decode, difference, show, without
from tests.apimachinery.managedfields.tables import element, field_set, positions, rows
from tests.corpus import CORPUS, needs_corpus

pytestmark = needs_corpus

if CORPUS is None:
    pytest.skip("the corpus is not on this machine", allow_module_level=True)


@pytest.mark.parametrize("row", rows("fieldpath/path_test.json", "TestPathString", "table"))
def test_paths_as_texts(row: dict[str, Any]):
    """Messages name fields as upstream's do."""
    _, path, expected = row["$pos"] if "$pos" in row else (row["name"], row["fp"], row["expect"])
    assert show(tuple(map(element, path["args"]))) == expected


@pytest.mark.parametrize("row", rows("fieldpath/set_test.json", "TestSetDifference", "table"))
def test_differences(row: dict[str, Any]):
    """Both differences are upstream's."""
    one, other = field_set(row["a"]), field_set(row["b"])
    assert difference(one, other) == field_set(row["expectDifference"])
    assert without(one, other) == field_set(row["expectRecursiveDifference"])


@pytest.mark.parametrize("row", rows("fieldpath/set_test.json", "TestSetEquals", "table"))
def test_equality(row: dict[str, Any]):
    """Sets are equal as upstream's are."""
    assert (field_set(row["a"]) == field_set(row["b"])) is row["equal"]


@pytest.mark.parametrize("text", rows("fieldpath/serialize_test.json", "TestSerializeV1GoldenData", "examples"))
def test_serialized_sets(text: str):
    """What upstream writes is read and written back."""
    assert decode(orjson.loads(text)) == orjson.loads(text)


@pytest.mark.parametrize("row", list(positions("fieldpath/serialize-pe_test.json", "TestPathElementRoundTrip", "tests")))
def test_path_elements(row: list[Any]):
    """Path elements have one text."""
    text, literal = row
    assert list(decode({text: {}})) == [element(literal)]


@pytest.mark.parametrize("row", list(positions("fieldpath/serialize-pe_test.json", "TestDeserializePathElementSuccess", "tests")))
def test_other_spellings(row: list[Any]):
    """Other spellings of a path element are the same element."""
    text, literal = row
    assert list(decode({text: {}})) == [element(literal)]


@pytest.mark.parametrize("text", rows("fieldpath/serialize-pe_test.json", "TestDeserializePathElementError", "tests"))
def test_refused_path_elements(text: str):
    """What upstream does not read is refused."""
    with pytest.raises(FieldSetError):
        decode({text: {}})


def test_refused_sets():
    """JSON that is not a set of fields is refused."""
    for name, text in positions("fieldpath/serialize_test.json", "TestSetFromJSONTokenTypeErrors", "cases"):
        try:
            value = orjson.loads(text)
        except orjson.JSONDecodeError:
            continue
        with pytest.raises(FieldSetError):
            decode(value)
        assert name
