"""Strategic merge patch."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.patches import strategic_merge_patch

MERGED = {"x-kubernetes-patch-strategy": "merge", "x-kubernetes-patch-merge-key": "name"}
DEFINITIONS: dict[str, Any] = {
    "item": {
        "properties": {
            "name": {"type": "string"},
            "list": {"type": "array", "items": {"$ref": "#/definitions/item"}, **MERGED},
            "v3": {"type": "array", "items": {"allOf": [{"$ref": "#/components/schemas/item"}], "default": {}}, **MERGED},
            "atomic": {"type": "array", "items": {"type": "object"}},
            "scalars": {"type": "array", "items": {"type": "string"}, "x-kubernetes-patch-strategy": "merge"},
            "keyless": {"type": "array", "items": {"type": "object"}, "x-kubernetes-patch-strategy": "merge"},
            "map": {"type": "object", "additionalProperties": {"type": "string"}},
            "replaced": {"type": "object", "x-kubernetes-patch-strategy": "replace"},
            "kept": {"$ref": "#/definitions/item", "x-kubernetes-patch-strategy": "retainKeys"},
            "loop": {"$ref": "#/definitions/loop"},
            "nested": {"allOf": [{"$ref": "#/definitions/item"}]},
        }
    },
    "loop": {"$ref": "#/definitions/loop"},
}


def apply(original: Any, patch: Any) -> Any:
    before = copy.deepcopy((original, patch))
    try:
        return strategic_merge_patch.apply(original, patch, DEFINITIONS["item"], DEFINITIONS)
    finally:
        assert (original, patch) == before


@pytest.mark.parametrize(
    ("original", "patch", "merged"),
    [
        (
            {"list": [{"name": "a", "map": {"x": "1"}}]},
            {"list": [{"name": "a", "map": {"y": "2"}}, {"name": "b"}]},
            {"list": [{"name": "a", "map": {"x": "1", "y": "2"}}, {"name": "b"}]},
        ),
        ({"v3": [{"name": "a", "map": {"x": "1"}}]}, {"v3": [{"name": "a", "map": {"x": None}}]}, {"v3": [{"name": "a", "map": {}}]}),
        (
            {"nested": {"list": [{"name": "a"}]}},
            {"nested": {"list": [{"name": "b"}]}},
            {"nested": {"list": [{"name": "b"}, {"name": "a"}]}},
        ),
        ({"atomic": [{"name": "a"}]}, {"atomic": [{"name": "b"}]}, {"atomic": [{"name": "b"}]}),
        ({"scalars": ["a", "b"]}, {"scalars": ["c", "a"]}, {"scalars": ["c", "a", "b"]}),
        ({"scalars": ["a", "b", "a"]}, {"$deleteFromPrimitiveList/scalars": ["a"]}, {"scalars": ["b"]}),
        ({"atomic": [1, 2]}, {"$deleteFromPrimitiveList/atomic": [1]}, {"atomic": [2]}),
        ({"list": [{"name": "a"}, {"name": "b"}]}, {"list": [{"name": "a", "$patch": "delete"}]}, {"list": [{"name": "b"}]}),
        ({"list": [{"name": "a"}]}, {"list": [{"$patch": "replace"}, {"name": "b"}]}, {"list": [{"name": "b"}]}),
        ({"map": {"a": "1"}}, {"map": {"$patch": "replace", "b": "2"}}, {"map": {"b": "2"}}),
        ({"map": {"a": "1"}}, {"map": {"$patch": "delete"}}, {"map": {}}),
        ({"name": "x"}, {"map": {"$patch": "replace", "b": "2"}}, {"name": "x"}),
        ({"replaced": {"a": 1}}, {"replaced": {"b": 2}}, {"replaced": {"b": 2}}),
        (
            {"kept": {"name": "a", "map": {"x": "1"}}},
            {"kept": {"$retainKeys": ["map"], "map": {"y": "2"}}},
            {"kept": {"map": {"x": "1", "y": "2"}}},
        ),
        ({"name": "a"}, {"name": None, "map": {"a": None, "b": "c"}}, {"map": {"b": "c"}}),
        ({"name": "a"}, {"name": {"b": 1}}, {"name": {"b": 1}}),
        ({}, {"list": [{"name": "a", "$patch": "delete"}, {"name": "b", "map": None}]}, {"list": [{"name": "b"}]}),
        ({"loop": {"a": {"b": 1}}}, {"loop": {"a": {"c": 2}}}, {"loop": {"a": {"b": 1, "c": 2}}}),
        (
            {"list": [{"name": n} for n in "abcd"]},
            {"$setElementOrder/list": [{"name": "d"}, {"name": "b"}, {"name": "e"}], "list": [{"name": "e"}]},
            {"list": [{"name": "a"}, {"name": "c"}, {"name": "d"}, {"name": "b"}, {"name": "e"}]},
        ),
        ({"scalars": ["a", "b", "c"]}, {"$setElementOrder/scalars": ["c", "a"]}, {"scalars": ["b", "c", "a"]}),
        ({}, {"$setElementOrder/list": [], "list": []}, {"list": []}),
        ({"list": [{"name": "a"}]}, {"$patch": "delete"}, {}),
        (
            {"list": [{"name": n} for n in "abc"]},
            {"$setElementOrder/list": [{"name": "b"}, {"name": "d"}], "list": [{"name": "a", "$patch": "delete"}, {"name": "d"}]},
            {"list": [{"name": "b"}, {"name": "c"}, {"name": "d"}]},
        ),
        ({}, {"map": {"$patch": None, "b": "2"}}, {"map": {"b": "2"}}),
        ({"name": "a"}, None, {"name": "a"}),
        ({}, {"kept": {"$retainKeys": ["name"], "name": "a"}}, {"kept": {"$retainKeys": ["name"], "name": "a"}}),
        (
            {"list": []},
            {"list": [{"name": "a", "map": {"$patch": "delete"}, "other": None}]},
            {"list": [{"name": "a", "map": {"$patch": "delete"}}]},
        ),
    ],
)
def test_merging(original, patch, merged):
    """Strategies and directives, one by one."""
    assert apply(original, patch) == merged


@pytest.mark.parametrize(
    ("original", "patch", "code", "problem"),
    [
        ({}, [], 400, "json: cannot unmarshal array into Go value of type map[string]interface {}"),
        ({"map": {}}, {"map": {"$patch": "x"}}, 400, "unknown patch type: x in map: "),
        (
            {"list": [{"name": "a"}]},
            {"list": [{"name": "a", "$patch": "merge"}]},
            400,
            "merging lists cannot yet be specified in the patch",
        ),
        (
            {"list": [{"name": "a"}]},
            {"list": [{"$patch": "delete"}]},
            400,
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        ({"list": [{"name": "a"}]}, {"list": [{"map": {}}]}, 400, "map: map[map:map[]] does not contain declared merge key: name"),
        ({"list": [{"name": "a"}]}, {"list": ["a"]}, 400, "list element types are not identical: [[map[name:a]] [a]]"),
        ({"map": {}}, {"map": {"$patch": 1}}, 400, "unknown patch type: %!s(int64=1) in map: map[$patch:1]"),
        ({"map": {}}, {"map": {"$patch": None}}, 400, "unknown patch type: %!s(<nil>) in map: map[$patch:<nil>]"),
        (
            {"list": []},
            {"$setElementOrder/list": [{"name": "a"}], "list": [{"name": "a"}, {"$patch": "replace"}]},
            400,
            "The order in patch list:\n[map[name:a] map[$patch:replace]]\n doesn't match $setElementOrder list:\n[map[name:a]]\n",
        ),
        (
            {"list": [[1]]},
            {"list": [[2]]},
            422,
            "the server rejected our request due to an error in our request: lists of lists are not supported",
        ),
        ({"list": [{"name": {}}]}, {"list": [{"name": {}}]}, 400, "map[] is not a scalar"),
        ({"keyless": [{"name": "a"}]}, {"keyless": [{"name": "b"}]}, 400, "cannot merge lists without merge key"),
        ({"kept": {}}, {"kept": {"$retainKeys": ["map"], "name": "a"}}, 400, "invalid patch format of retainKeys"),
        ({"kept": {}}, {"kept": {"$retainKeys": "map"}}, 400, "invalid patch format of retainKeys"),
        ({}, {"$setElementOrder": []}, 400, "invalid patch format of setElementOrder list"),
        ({}, {"$setElementOrder/list": {}}, 400, "expected a []interface {}, but received a map[string]interface {}"),
        ({}, {"$deleteFromPrimitiveList": []}, 400, "invalid patch format of primitive list"),
        ({"list": [{"name": "a"}]}, {"$setElementOrder/list": [{"name": "b"}], "list": [{"name": "a"}]}, 400, "The order in patch list:"),
        ({"other": {"a": 1}}, {"other": {"b": 1}}, 400, 'unable to find api field "other"'),
    ],
)
def test_refusals(original, patch, code, problem):
    """Malformed patches are the client's fault."""
    with pytest.raises(StatusError) as caught:
        apply(original, patch)
    assert caught.value.code == code
    assert caught.value.message.startswith(problem)


def test_large_lists_merge_in_linear_work():
    """Lists of fifty thousand elements are merged without comparing each with each."""
    elements = [{"name": str(number)} for number in range(50_000)]
    patch = {"list": elements[::-1], "$setElementOrder/list": elements[::-1]}
    assert apply({"list": elements}, patch) == {"list": elements[::-1]}


def without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    return value


def sorted_lists(value: Any) -> Any:
    """Merge lists in the order of their keys: the table compares them so."""
    if isinstance(value, dict):
        return {key: sorted_lists(item) for key, item in value.items()}
    if isinstance(value, list):
        return sorted(map(sorted_lists, value), key=lambda item: json.dumps(item, sort_keys=True))
    return value


def test_public_table(corpus_tables):
    """Upstream's own table of two-way and three-way patches holds."""
    folder = corpus_tables / "strategic-merge-patch"
    definitions = yaml.safe_load((folder / "swagger-merge-item.json").read_text())["definitions"]
    cases = json.loads((folder / "raw_cases.json").read_text())
    assert cases
    for case in cases:
        for original, patch, merged in (("Original", "TwoWay", "Modified"), ("Current", "ThreeWay", "Result")):
            if case.get(patch) is None or (case.get("ExpectedError") and patch == "ThreeWay"):
                continue
            arguments = (case.get(original) or {}, case[patch], definitions["mergeItem"], definitions)
            if case.get("ExpectedError"):
                with pytest.raises(StatusError, match=case["ExpectedError"].partition(":")[0]):
                    strategic_merge_patch.apply(*arguments)
                continue
            result = strategic_merge_patch.apply(*arguments)
            wanted = case.get("TwoWayResult") if patch == "TwoWay" and case.get("TwoWayResult") else case[merged]
            assert sorted_lists(without_nulls(result)) == sorted_lists(without_nulls(wanted)), case["description"]


SCALARS = st.none() | st.sampled_from(["a", "b", "delete", "replace"]) | st.integers(0, 2)
KEYS = st.sampled_from(
    [
        "name",
        "list",
        "atomic",
        "scalars",
        "keyless",
        "map",
        "replaced",
        "kept",
        "loop",
        "other",
        "$patch",
        "$retainKeys",
        "$setElementOrder/list",
        "$setElementOrder/scalars",
        "$deleteFromPrimitiveList/scalars",
        "$deleteFromPrimitiveList/list",
    ]
)
JSON = st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4), max_leaves=12)


@given(st.dictionaries(KEYS, JSON, max_size=5), st.dictionaries(KEYS, JSON, max_size=5))
def test_any_patch_is_applied_or_refused(original, patch):
    """No patch changes its inputs or raises anything but StatusError."""
    try:
        merged = apply(original, patch)
    except StatusError as error:
        assert error.code in {400, 422}  # noqa: PT017  # the other outcome is not an error
    else:
        assert isinstance(merged, dict)
