"""Object metadata: types, pruning, validation."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.decoding import drop_malformed_fields
from kcp_py.apimachinery.meta.objectmeta import (
    deduplicate_owner_references,
    finalizer_warnings,
    keeps_valid,
    prune_object_meta,
    type_problem,
    validate_object_meta,
    validate_object_meta_update,
)

OWNER = {"apiVersion": "v1", "kind": "Pod", "name": "a", "uid": "1"}


def problems(meta: dict[str, Any], *, namespaced: bool = True) -> list[str]:
    """Problems of the metadata except for the fields that each test leaves out."""
    full = {"name": "a", **({"namespace": "b"} if namespaced else {}), **meta}
    found = validate_object_meta(full, namespaced=namespaced, validate_name=names.dns_subdomain_problems)
    return [str(error) for error in found]


def update_problems(meta: dict[str, Any], old: dict[str, Any]) -> list[str]:
    return [str(error) for error in validate_object_meta_update(meta, old)]


def test_ordinary_metadata_is_valid():
    """Labels, annotations, finalizers and owners as controllers write them."""
    meta = {
        "labels": {"app.kubernetes.io/name": "x", "tier": ""},
        "annotations": {"Example.com/Key": "anything at all\n"},
        "finalizers": ["orphan", "example.com/cleanup"],
        "ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "uid": "2"}],
    }
    assert problems(meta) == []


def test_name_is_required():
    """Neither a name nor a generated one."""
    found = validate_object_meta({}, namespaced=False, validate_name=names.dns_subdomain_problems)
    assert [str(error) for error in found] == ["metadata.name: Required value: name or generateName is required"]


def test_name_rule_is_the_kinds():
    """The rule of the kind words the problem."""
    found = validate_object_meta({"name": "a/b"}, namespaced=False, validate_name=names.path_segment_problems)
    assert [str(error) for error in found] == ["metadata.name: Invalid value: \"a/b\": may not contain '/'"]


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        ({"namespace": ""}, "metadata.namespace: Required value"),
        ({"namespace": "A.b"}, 'metadata.namespace: Invalid value: "A.b": a lowercase RFC 1123 label must'),
        ({"generation": -1}, "metadata.generation: Invalid value: -1: must be greater than or equal to 0"),
        ({"labels": {"x": "x y"}}, 'metadata.labels: Invalid value: "x y": a valid label must be an empty string'),
        ({"labels": {"a/b/c": ""}}, 'metadata.labels: Invalid value: "a/b/c": a valid label key must consist'),
        ({"annotations": {"a b": ""}}, 'metadata.annotations: Invalid value: "a b": name part must consist'),
        ({"annotations": {"a": "x" * 262144}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        ({"annotations": {"a": "é" * 131072}}, "metadata.annotations: Too long: may not be more than 262144 bytes"),
        ({"finalizers": ["a b"]}, 'metadata.finalizers: Invalid value: "a b": name part must consist'),
        (
            {"finalizers": ["orphan", "foregroundDeletion"]},
            'metadata.finalizers: Invalid value: ["orphan","foregroundDeletion"]: finalizer orphan and foregroundDeletion',
        ),
        ({"ownerReferences": [{**OWNER, "uid": ""}]}, "metadata.ownerReferences[0].uid: Required value: must not be empty"),
        (
            {"ownerReferences": [{**OWNER, "apiVersion": "a/b/c"}]},
            'metadata.ownerReferences[0].apiVersion: Invalid value: "a/b/c": must be <group>/<version> or <version>',
        ),
        (
            {"ownerReferences": [{**OWNER, "kind": "Event"}]},
            (
                'metadata.ownerReferences[0]: Invalid value: {"apiVersion":"v1","kind":"Event","name":"a","uid":"1"}: '
                "/v1, Kind=Event is disallowed from being an owner"
            ),
        ),
        (
            {"ownerReferences": [{**OWNER, "controller": True}, {**OWNER, "name": "b", "controller": True}]},
            (
                'metadata.ownerReferences: Invalid value: [{"apiVersion":"v1","kind":"Pod","name":"a","uid":"1","controller":true},'
                '{"apiVersion":"v1","kind":"Pod","name":"b","uid":"1","controller":true}]: '
                "Only one reference can have Controller set to true. "
                'Found "true" in references for Pod/a and Pod/b'
            ),
        ),
        ({"managedFields": [None]}, "metadata.managedFields[0].operation: Required value: must not be empty"),
        ({"managedFields": [{"operation": "x"}]}, 'metadata.managedFields[0].operation: Unsupported value: "x"'),
        (
            {"managedFields": [{"operation": "Apply", "manager": "\x01"}]},
            'metadata.managedFields[0].manager: Invalid value: "\\x01": invalid character U+0001 (at position 0)',
        ),
    ],
)
def test_problems_are_worded_as_upstream_words_them(meta, text):
    """One problem each, with upstream's text."""
    found = problems(meta)
    assert len(found) == 1
    assert found[0].startswith(text)


def test_namespace_is_forbidden_for_cluster_scope():
    """A cluster-scoped object has no namespace."""
    assert problems({"namespace": "x"}, namespaced=False) == ["metadata.namespace: Forbidden: not allowed on this type"]


def test_annotations_may_fill_the_limit():
    """Exactly 262144 bytes of keys and values are allowed."""
    assert problems({"annotations": {"a": "x" * 262143}}) == []


def test_hostile_input_gets_few_problems():
    """The answer does not grow with the number of invalid labels, nor with the square of the number of controllers."""
    assert len(problems({"labels": {f"{number} x": "y" for number in range(10_000)}})) <= 110
    assert len(problems({"ownerReferences": [{**OWNER, "uid": str(number), "controller": True} for number in range(2000)]})) == 1
    assert len(problems({"managedFields": [{"operation": "Apply", "manager": "\x01" * 10_000}]})) == 2


@pytest.mark.parametrize("field", ["name", "namespace", "uid", "creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds"])
def test_system_fields_do_not_change(field):
    """Each identity field is immutable."""
    old = {"name": "a", "uid": "u"}
    assert [text.split(": ")[0] for text in update_problems({**old, field: "x"}, old)] == [f"metadata.{field}"]
    assert "field is immutable" in update_problems({**old, field: "x"}, old)[0]


def test_absent_values_are_told_as_null():
    """A removed deletionTimestamp is shown as null."""
    old = {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z"}
    assert update_problems({"name": "a"}, old) == ["metadata.deletionTimestamp: Invalid value: null: field is immutable"]


def test_no_new_finalizers_while_deleting():
    """Finalizers can only be taken off a terminating object."""
    old = {"name": "a", "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["a/b", "a/c"]}
    assert update_problems({**old, "finalizers": ["a/c"]}, old) == []
    assert update_problems({**old, "finalizers": ["z/z", "a/b", "x/y"]}, old) == [
        (
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, "
            'found new finalizers []string{"x/y", "z/z"}'
        )
    ]


def test_generation_does_not_go_back():
    """A smaller generation is refused."""
    assert update_problems({"generation": 1}, {"generation": 2}) == ["metadata.generation: Invalid value: 1: must not be decremented"]


@pytest.mark.parametrize(
    ("meta", "text"),
    [
        ({"labels": {"foo": 42}}, "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.labels of type string"),
        ({"labels": []}, "json: cannot unmarshal array into Go struct field ObjectMeta.metadata.labels of type map[string]string"),
        ({"name": 5}, "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.name of type string"),
        ({"uid": True}, "json: cannot unmarshal bool into Go struct field ObjectMeta.metadata.uid of type types.UID"),
        ({"generation": 1.5}, "json: cannot unmarshal number 1.5 into Go struct field ObjectMeta.metadata.generation of type int64"),
        ({"generation": "1"}, "json: cannot unmarshal string into Go struct field ObjectMeta.metadata.generation of type int64"),
        ({"finalizers": [{}]}, "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.finalizers of type string"),
        ({"annotations": {"a": {}}}, "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.annotations of type string"),
        (
            {"ownerReferences": {}},
            "json: cannot unmarshal object into Go struct field ObjectMeta.metadata.ownerReferences of type []v1.OwnerReference",
        ),
        (
            {"ownerReferences": [{"name": 1}]},
            "json: cannot unmarshal number into Go struct field OwnerReference.metadata.ownerReferences.name of type string",
        ),
        (
            {"creationTimestamp": 5},
            "json: cannot unmarshal number into Go struct field ObjectMeta.metadata.creationTimestamp of type string",
        ),
        ({"creationTimestamp": "x"}, 'parsing time "x" as "2006-01-02T15:04:05Z07:00": cannot parse "x" as "2006"'),
    ],
)
def test_wrong_types_get_gos_text(meta, text):
    """The first wrongly typed field is told as Go's decoder tells it."""
    assert type_problem({"metadata": meta}) == text


def test_metadata_must_be_an_object():
    """Metadata that is not an object."""
    assert (type_problem({"metadata": []}) or "").startswith("json: cannot unmarshal array")
    assert type_problem({"metadata": None}) is None
    assert type_problem({}) is None


def test_malformed_fields_are_dropped_on_read():
    """What storage holds can be read though a field is wrong."""
    meta: dict[str, Any] = {"name": "a", "labels": {"x": 1}, "uid": "u"}
    assert drop_malformed_fields(meta) == ["labels"]
    assert meta == {"name": "a", "uid": "u"}


def test_pruning_leaves_what_go_writes():
    """Unknown and empty fields go, times are normalised, nulls in maps become empty."""
    meta: dict[str, Any] = {
        "name": "a",
        "generateName": "",
        "foo": 1,
        "labels": {"a": None, "b": "c"},
        "annotations": {},
        "finalizers": [],
        "creationTimestamp": None,
        "deletionTimestamp": "2026-01-01T01:00:00+01:00",
        "deletionGracePeriodSeconds": 0,
        "generation": 0,
        "managedFields": [{"manager": "x"}],
        "ownerReferences": [{"kind": "A", "bar": 1, "controller": None}],
    }
    assert prune_object_meta(meta) == ["foo", "ownerReferences[0].bar"]
    assert meta == {
        "name": "a",
        "labels": {"a": "", "b": "c"},
        "deletionTimestamp": "2026-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 0,
        "managedFields": [{"manager": "x"}],
        "ownerReferences": [{"apiVersion": "", "kind": "A", "name": "", "uid": ""}],
    }


def test_finalizer_warnings():
    """Only new finalizers without a domain are warned about."""
    meta = {"finalizers": ["orphan", "old", "new", "example.com", "example.com/x"]}
    assert finalizer_warnings(meta, {"finalizers": ["old"]}) == [
        (
            'metadata.finalizers: "example.com": prefer a domain-qualified finalizer name including a path (/) '
            "to avoid accidental conflicts with other finalizer writers"
        ),
        ('metadata.finalizers: "new": prefer a domain-qualified finalizer name to avoid accidental conflicts with other finalizer writers'),
    ]


def test_owner_references_are_deduplicated():
    """Repetitions go with a warning; the same owner with other flags stays."""
    meta: dict[str, Any] = {"ownerReferences": [OWNER, {**OWNER, "controller": True}, dict(OWNER)]}
    warning = deduplicate_owner_references(meta)
    assert warning.startswith(".metadata.ownerReferences contains duplicate entries; API server dedups")
    assert warning.endswith("duplicate UID(s) observed: 1")
    assert meta == {"ownerReferences": [OWNER, {**OWNER, "controller": True}]}
    assert deduplicate_owner_references(meta) == ""


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(
    [
        "name",
        "generateName",
        "namespace",
        "uid",
        "labels",
        "annotations",
        "ownerReferences",
        "finalizers",
        "generation",
        "managedFields",
        "creationTimestamp",
        "deletionTimestamp",
        "deletionGracePeriodSeconds",
        "resourceVersion",
        "selfLink",
        "other",
    ]
)


@given(st.dictionaries(FIELDS, JSON | st.dictionaries(st.text(max_size=5), st.text(max_size=5)) | st.lists(st.text(max_size=5))))
def test_any_metadata_is_told_or_handled(meta):
    """Whatever JSON stands in metadata: either its type is refused, or everything else works on it."""
    if type_problem({"metadata": meta}) is not None:
        drop_malformed_fields(meta)
    assert type_problem({"metadata": meta}) is None
    prune_object_meta(meta)
    again = copy.deepcopy(meta)
    assert prune_object_meta(again) == []
    assert again == meta
    deduplicate_owner_references(meta)
    finalizer_warnings(meta)
    validate_object_meta(meta, namespaced=True, validate_name=names.dns_subdomain_problems)
    validate_object_meta_update(meta, {})
    named = {**meta, "name": "a", "namespace": "b"}
    is_valid = not validate_object_meta(named, namespaced=True, validate_name=names.dns_subdomain_problems)
    assert validate_object_meta_update(named, {}, is_valid=is_valid) == validate_object_meta_update(named, {})


CHANGES: list[dict[str, Any]] = [
    {},
    {"generation": 4},
    {"generation": 2},
    {"generation": None},
    {"labels": {"a": "!"}},
    {"annotations": {"a b": ""}},
    {"finalizers": ["x.io/a", "x.io/b"]},
    {"ownerReferences": [OWNER, {**OWNER, "controller": True}]},
    {"uid": "2"},
    {"name": "b"},
    {"generateName": "!"},
    {"deletionTimestamp": "2024-01-01T00:00:00Z"},
    {"deletionTimestamp": None},
    {"managedFields": [{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "time": "x", "fieldsV1": {}}]},
    {"managedFields": [{"manager": "\0", "operation": "Update", "fieldsType": "FieldsV1"}]},
    {"managedFields": [{"manager": "m", "operation": "Other", "fieldsType": "FieldsV1"}]},
    {"managedFields": [{"manager": "m", "operation": "Update", "fieldsType": "V2"}]},
    {"managedFields": [{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "subresource": "x" * 300}]},
    {"managedFields": None},
]


@given(st.lists(st.sampled_from(CHANGES), max_size=2), st.lists(st.sampled_from(CHANGES), max_size=2))
def test_what_is_known_to_stay_valid_is_valid(earlier: list[dict[str, Any]], later: list[dict[str, Any]]):
    """Where `keeps_valid` says so of valid metadata, validation finds nothing."""
    base: dict[str, Any] = {"name": "a", "namespace": "b", "uid": "1", "generation": 3, "labels": {"a": "b"}}
    base["managedFields"] = [{"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}}]

    def changed(meta: dict[str, Any], changes: list[dict[str, Any]]) -> dict[str, Any]:
        for change in changes:
            meta = {name: value for name, value in (meta | change).items() if value is not None}
        return meta

    old = changed(base, earlier)
    new = changed(old, later)
    if not problems(old) and keeps_valid(new, old):
        assert problems(new) == []
        assert update_problems(new, old) == []


def test_generation_and_known_owners_may_change():
    """What most updates change of metadata needs no validation; another value and another manager need it."""
    entry = {"manager": "m", "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": {"f:a": {}}, "time": "2024-01-01T00:00:00Z"}
    old = {"name": "a", "generation": 3, "labels": {"a": "b"}, "managedFields": [entry]}
    assert keeps_valid(old | {"generation": 4, "managedFields": [entry | {"time": "x", "fieldsV1": {}}]}, old)
    assert not keeps_valid(old | {"generation": 2}, old)
    assert not keeps_valid(old | {"labels": {"a": "c"}}, old)
    assert not keeps_valid(old | {"annotations": {}}, old)
    assert not keeps_valid({"name": "a", "generation": 1}, {"name": "a", "uid": "1"})
    assert not keeps_valid(old | {"managedFields": [entry, entry | {"manager": "n"}]}, old)
