"""JSON patch."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.patches import json_patch


def refused(document: Any, operations: Any) -> StatusError:
    before = copy.deepcopy((document, operations))
    with pytest.raises(StatusError) as caught:
        json_patch.apply(document, operations)
    assert (document, operations) == before
    return caught.value


def applied(document: Any, *operations: dict[str, Any]) -> Any:
    before = copy.deepcopy((document, operations))
    result = json_patch.apply(document, list(operations))
    assert (document, operations) == before
    return result


def test_operations_in_turn():
    """Each operation sees what the ones before it did."""
    assert applied(
        {"metadata": {"labels": {"a": "b"}}, "list": [1, 2]},
        {"op": "test", "path": "/metadata/labels/a", "value": "b"},
        {"op": "add", "path": "/metadata/labels/x~1y~0z", "value": "c"},
        {"op": "copy", "from": "/metadata/labels", "path": "/copied"},
        {"op": "replace", "path": "/copied/a", "value": "d"},
        {"op": "move", "from": "/list/0", "path": "/list/-"},
        {"op": "remove", "path": "/metadata/labels/a"},
    ) == {"metadata": {"labels": {"x/y~z": "c"}}, "list": [2, 1], "copied": {"a": "d", "x/y~z": "c"}}


@pytest.mark.parametrize(
    ("document", "operation", "result"),
    [
        ([1, 2, 3], {"op": "remove", "path": "/-1"}, [1, 2]),
        ([1, 2, 3], {"op": "add", "path": "/-1", "value": 4}, [1, 2, 3, 4]),
        ([1, 2, 3], {"op": "replace", "path": "/-3", "value": 4}, [4, 2, 3]),
        ({}, {"op": "replace", "path": "/a", "value": 1}, {"a": 1}),
        ({}, {"op": "test", "path": "/a", "value": None}, {}),
        ({"a": 1}, {"op": "replace", "path": "", "value": {"b": 2}}, {"b": 2}),
        ({"": {"": 1}}, {"op": "remove", "path": "//"}, {"": {}}),
    ],
)
def test_liberties_of_upstream(document, operation, result):
    """Negative indices, replacing what is missing, testing for absence."""
    assert applied(document, operation) == result


@pytest.mark.parametrize(
    ("document", "operation"),
    [
        ({}, {"op": "add", "path": "/metadata/labels", "value": 1}),
        ({"a": None}, {"op": "add", "path": "/a/b", "value": 1}),
        ({"a": 1}, {"op": "remove", "path": "/b"}),
        ({"a": 1}, {"op": "remove", "path": ""}),
        ({"a": 1}, {"op": "test", "path": "/a", "value": True}),
        ({"a": [True]}, {"op": "test", "path": "/a", "value": [1]}),
        ({"a": 1}, {"op": "test", "path": "/a/b", "value": None}),
        ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}),
        ({"a": 1}, {"op": "copy", "from": "/b", "path": "/c"}),
        ([1], {"op": "remove", "path": "/1"}),
        ([1], {"op": "remove", "path": "/-2"}),
        ([1], {"op": "remove", "path": "/01"}),
        ([1], {"op": "remove", "path": "/+0"}),
        ([1], {"op": "remove", "path": "/\u0660"}),
        ([1], {"op": "add", "path": "/3", "value": 1}),
        ([1], {"op": "replace", "path": "/-", "value": 1}),
        ({}, {"op": "add", "path": "/a"}),
        ({}, {"op": "add", "value": 1}),
        ({}, {"op": "add", "path": "a", "value": 1}),
        ({}, {"op": "frobnicate", "path": "/a"}),
        ({}, {"path": "/a"}),
        ({}, {"op": "replace", "path": "", "value": 1}),
    ],
)
def test_failures_are_unprocessable(document, operation):
    """What cannot be applied is 422 with upstream's generic text in front."""
    error = refused(document, [operation])
    assert (error.code, error.reason) == (422, "Invalid")
    assert error.message.startswith("the server rejected our request due to an error in our request")


@pytest.mark.parametrize("operations", [{}, None, "x", [1], [[]]])
def test_other_documents_are_no_patches(operations):
    """A patch is a list of objects."""
    assert refused({}, operations).code == 400


def test_operations_are_limited():
    """More than ten thousand operations are 413."""
    operation = {"op": "test", "path": "", "value": {}}
    json_patch.apply({}, [operation] * 10_000)
    error = refused({}, [operation] * 10_001)
    assert (error.code, error.message) == (
        413,
        "Request entity too large: The allowed maximum operations in a JSON patch is 10000, got 10001",
    )


def test_copies_are_limited():
    """Doubling copies end at three megabytes."""
    operations = [{"op": "copy", "from": "/a", "path": "/a/-"} for _ in range(40)]
    assert "exceeding the limit 3145728" in refused({"a": ["x" * 100]}, operations).message


def test_depth_is_limited():
    """Moving things into each other cannot nest deeper than a decoder allows."""
    operations = []
    for _ in range(300):
        operations += [
            {"op": "move", "from": "/a", "path": "/b"},
            {"op": "add", "path": "/a", "value": {}},
            {"op": "move", "from": "/b", "path": "/a/b"},
        ]
    assert "max depth" in refused({"a": {}}, operations).message


def test_moved_elements_are_limited():
    """Ten thousand insertions at the front of a huge list are refused."""
    operations = [{"op": "add", "path": "/0", "value": 1}] * 10_000
    assert "list elements" in refused([0] * 100_000, operations).message


def test_unknown_members_are_strict_errors():
    """Members that no operation has are told for strict field validation."""
    assert json_patch.unknown_fields([{"op": "add", "path": "/a", "value": 1, "foo": 2}, {"bar": 1}]) == [
        'json patch unknown field "[0].foo"',
        'json patch unknown field "[1].bar"',
    ]


DEVIATIONS = {
    "Out of bounds (lower)": "negative indices count from the end",
    "missing 'value' parameter": "test without a value is a test for absence",
}


@pytest.mark.parametrize("name", ["tests.json", "spec_tests.json"])
def test_public_table(corpus_tables, name):
    """The json-patch-tests table holds, except where upstream takes liberties."""
    cases = [
        case for case in json.loads((corpus_tables / "json-patch-tests" / name).read_text()) if "patch" in case and not case.get("disabled")
    ]
    assert cases
    for case in cases:
        if "error" in case:
            if case["error"] not in DEVIATIONS:
                assert refused(case["doc"], case["patch"]).code in {400, 422}
        else:
            result = applied(case["doc"], *case["patch"])
            assert result == case.get("expected", result)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["", "a", "b", "0"]), inner, max_size=3),
    max_leaves=8,
)
PATHS = st.lists(st.sampled_from(["", "a", "b", "0", "1", "-", "-1"]), max_size=3).map(lambda parts: "".join(f"/{part}" for part in parts))
OPERATIONS = st.fixed_dictionaries(
    {"op": st.sampled_from(["add", "remove", "replace", "move", "copy", "test"]), "path": PATHS}, optional={"from": PATHS, "value": JSON}
)


@given(JSON, st.lists(OPERATIONS, max_size=6))
def test_inputs_are_never_changed(document, operations):
    """Whatever happens, document and patch stay as they are, and the result does not hang on them."""
    before = copy.deepcopy((document, operations))
    try:
        result = json_patch.apply(document, operations)
    except StatusError as error:
        assert error.code == 422  # noqa: PT017  # the other outcome is not an error
    else:
        one_by_one = copy.deepcopy(document)
        for operation in operations:
            one_by_one = copy.deepcopy(json_patch.apply(one_by_one, [operation]))
        assert result == one_by_one
    assert (document, operations) == before
