"""JSON patch."""

from __future__ import annotations

import copy
import json
from functools import partial
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
        ({}, {"op": "add", "path": "/a"}, {"a": None}),
        ({"a": 1}, {"op": "copy", "from": "/b", "path": "/c"}, {"a": 1, "c": None}),
        ({"b": 1}, {"op": "remove", "path": "a/b"}, {}),
        ([1, 2], {"op": "remove", "path": "/01"}, [1]),
        ([1, 2], {"op": "remove", "path": "/+0"}, [2]),
    ],
)
def test_liberties_of_upstream(document, operation, result):
    """Negative indices, indices in any form that Go reads; replacing, copying and testing missing values; adding without a value."""
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
        ({"a": {}}, {"op": "move", "from": "/a", "path": "/a/b"}),
        ([1], {"op": "remove", "path": "/1"}),
        ([1], {"op": "remove", "path": "/-2"}),
        ([1], {"op": "remove", "path": "/\u0660"}),
        ([1], {"op": "add", "path": "/3", "value": 1}),
        ([1], {"op": "replace", "path": "/-", "value": 1}),
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


@pytest.mark.parametrize(
    ("document", "operation", "text"),
    [
        ({}, {"op": "add", "path": "/a/b", "value": 1}, 'add operation does not apply: doc is missing path: "/a/b": missing value'),
        ({}, {"op": "add", "path": "", "value": {}}, 'add operation does not apply: doc is missing path: "": missing value'),
        (
            {"a": []},
            {"op": "add", "path": "/a/x", "value": 1},
            "error in add for path: '/a/x': value was not a proper array index: 'x': strconv.Atoi: parsing \"x\": invalid syntax",
        ),
        (
            {"a": []},
            {"op": "add", "path": "/a/2", "value": 1},
            "error in add for path: '/a/2': Unable to access invalid index: 2: invalid index referenced",
        ),
        ({}, {"op": "remove", "path": "/a"}, "error in remove for path: '/a': Unable to remove nonexistent key: a: missing value"),
        (
            {"a": []},
            {"op": "replace", "path": "/a/0", "value": 1},
            "replace operation does not apply: doc is missing key: /a/0: missing value",
        ),
        ({}, {"op": "move", "from": "/a", "path": "/b"}, "error in move for path: 'a': Unable to remove nonexistent key: a: missing value"),
        (
            {"a": {}},
            {"op": "move", "from": "/a", "path": "/a/b"},
            "move operation does not apply: doc is missing destination path: /a/b: missing value",
        ),
        (
            {"a": []},
            {"op": "copy", "from": "/a/0", "path": "/b"},
            "error in copy for from: '/a/0': Unable to access invalid index: 0: invalid index referenced",
        ),
        ({}, {"op": "copy", "from": "", "path": "/b"}, "copy operation does not apply: doc is missing from path: : missing value"),
        ({"a": 1}, {"op": "test", "path": "/a", "value": 2}, "testing value /a failed: test failed"),
        ({"a": 1}, {"op": "test", "path": "/a/b"}, "test operation does not apply: is missing path: /a/b: missing value"),
        ({}, {"op": "Add", "path": "/a"}, "Unexpected kind: Add"),
        ({}, None, "Unexpected kind: unknown"),
    ],
)
def test_failures_say_what_upstreams_library_says(document, operation, text):
    """The detail after the generic text is that of evanphx/json-patch."""
    assert refused(document, [operation]).message == f"the server rejected our request due to an error in our request: {text}"


@pytest.mark.parametrize(
    ("operations", "strict", "text"),
    [
        ({}, True, "error decoding patch: json: cannot unmarshal object into Go value of type []handlers.jsonPatchOp"),
        (["x"], True, "error decoding patch: json: cannot unmarshal string into Go value of type handlers.jsonPatchOp"),
        ([{"op": 1}], True, "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string"),
        ("x", False, "json: cannot unmarshal string into Go value of type jsonpatch.Patch"),
        ([[]], False, "json: cannot unmarshal array into Go value of type jsonpatch.Operation"),
    ],
)
def test_other_documents_are_no_patches(operations, strict, text):
    """A patch is a list of objects with texts in them; strict decoding says so in other words."""
    with pytest.raises(StatusError) as caught:
        (json_patch.check_types if strict else partial(json_patch.apply, {}))(operations)
    assert (caught.value.code, caught.value.message) == (400, text)


def test_null_is_an_empty_patch():
    """As upstream: a null where a list should be has no operations."""
    json_patch.check_types(None)
    assert json_patch.apply({"a": 1}, None) == {"a": 1}


def test_work_out_of_proportion_is_recognised():
    """Many operations and repeated copies are work for a thread, however small patch and document are."""
    copied = {"op": "copy", "from": "/a", "path": "/b"}
    assert not json_patch.is_heavy([copied, {"op": "test", "path": "/b"}, None])
    assert json_patch.is_heavy([copied, copied])
    assert json_patch.is_heavy([{"op": "remove", "path": "/0"}] * 101)
    assert not json_patch.is_heavy({})


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
    "missing 'value' parameter": "no value is null",
    "missing 'from' location": "what is missing is copied as null",
    "test op should reject the array value, it has leading zeros": "indices are read as Go reads numbers",
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
        elif any(operation["op"] == "add" and operation["path"] == "" for operation in case["patch"]):
            assert "doc is missing path" in refused(case["doc"], case["patch"]).message  # upstream replaces the whole, but adds none
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
