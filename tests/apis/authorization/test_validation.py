"""Access reviews are checked in upstream's words."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apis.authorization.validation import local_review_problems, review_problems, self_review_problems
from kcp_py.apis.typed.structs import struct_codec

EXACTLY_ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
RESOURCE = {"resourceAttributes": {"verb": "get", "resource": "pods"}}
URL = {"nonResourceAttributes": {"path": "/api", "verb": "get"}}
USER = {"user": "alice"}
FIELD, LABEL = "spec.resourceAttributes.fieldSelector", "spec.resourceAttributes.labelSelector"


def texts(problems):
    return [str(problem) for problem in problems]


def local(spec, namespace="n1", **metadata):
    return {"metadata": {"namespace": namespace, **metadata}, "spec": spec}


@pytest.mark.parametrize(("spec", "wanted"), [
    (RESOURCE, []),
    (URL, []),
    ({"resourceAttributes": {}}, []),
    ({"nonResourceAttributes": {}}, []),
    ({}, [f"spec: Invalid value: null: {EXACTLY_ONE}"]),
    (None, [f"spec: Invalid value: null: {EXACTLY_ONE}"]),
    ({"resourceAttributes": None, "nonResourceAttributes": None}, [f"spec: Invalid value: null: {EXACTLY_ONE}"]),
    ({**RESOURCE, **URL}, [f'spec: Invalid value: {{"Path":"/api","Verb":"get"}}: {EXACTLY_ONE}']),
    ({**RESOURCE, "nonResourceAttributes": {}}, [f'spec: Invalid value: {{"Path":"","Verb":""}}: {EXACTLY_ONE}']),
], ids=["resource", "url", "empty resource", "empty url", "nothing", "no spec", "null", "both", "both, one empty"])  # fmt: skip
def test_what_is_asked(spec, wanted):
    """A review asks about a resource or about a URL, one of them; the caller need not be named in a review of the own permissions."""
    assert texts(self_review_problems({"spec": spec})) == wanted
    assert texts(review_problems({"spec": {**(spec or {}), **USER}})) == wanted


@pytest.mark.parametrize(("subject", "good"), [
    ({"user": "alice"}, True),
    ({"groups": ["team"]}, True),
    ({"user": "alice", "groups": ["team"]}, True),
    ({}, False),
    ({"user": "", "groups": []}, False),
    ({"uid": "1", "extra": {"a": ["b"]}}, False),
])  # fmt: skip
def test_subjects(subject, good):
    """A review of another caller names a user or a group."""
    wanted = [] if good else ['spec.user: Invalid value: "": at least one of user or group must be specified']
    assert texts(review_problems({"spec": {**URL, **subject}})) == wanted
    assert texts(local_review_problems(local({"resourceAttributes": {"namespace": "n1"}, **subject}))) == wanted


def test_problems_of_a_review_are_in_order():
    """All problems are reported: question, subject, selectors, metadata."""
    spec: dict[str, Any] = {"resourceAttributes": {"fieldSelector": {}}, "nonResourceAttributes": {}}
    review = {"metadata": {"name": "x"}, "spec": spec}
    assert [problem.field for problem in review_problems(review)] == ["spec", "spec.user", f"{FIELD}.requirements", "metadata"]
    assert [problem.field for problem in self_review_problems(review)] == ["spec", f"{FIELD}.requirements", "metadata"]
    assert [problem.field for problem in local_review_problems(review)] == [
        "spec", "spec.user", f"{FIELD}.requirements", "metadata", "spec.nonResourceAttributes",
    ]  # fmt: skip


@pytest.mark.parametrize(("metadata", "good"), [
    (None, True),
    ({}, True),
    ({"managedFields": [{"manager": "x"}]}, True),
    ({"name": "", "labels": {}, "creationTimestamp": None}, True),
    ({"name": "x"}, False),
    ({"namespace": "n1"}, False),
    ({"labels": {"a": "b"}}, False),
])  # fmt: skip
def test_metadata(metadata, good):
    """Reviews have no metadata except owners of fields."""
    for problems in (review_problems, self_review_problems):
        found = problems({"metadata": metadata, "spec": {**URL, **USER}})
        assert [(problem.field, problem.detail) for problem in found] == ([] if good else [("metadata", "must be empty")])


def test_local_reviews_are_for_their_namespace():
    """A local review asks about a resource in the namespace that it is in, and about no URL."""
    good = {"resourceAttributes": {"namespace": "n1"}, **USER}
    assert texts(local_review_problems(local(good))) == []
    assert texts(local_review_problems(local(good, "n2"))) == [
        'spec.resourceAttributes.namespace: Invalid value: "n1": must match metadata.namespace'
    ]
    assert texts(local_review_problems(local({**RESOURCE, **USER}))) == [
        'spec.resourceAttributes.namespace: Invalid value: "": must match metadata.namespace'
    ]
    assert texts(local_review_problems(local({**URL, **USER}))) == [
        'spec.nonResourceAttributes: Invalid value: {"Path":"/api","Verb":"get"}: disallowed on this kind of request'
    ]
    (problem,) = local_review_problems(local(good, labels={"a": "b"}))
    assert (problem.field, problem.detail) == ("metadata", "must be empty except for namespace")


def test_a_local_review_without_metadata():
    """Without a namespace it is for a review of resources that are in none."""
    spec = {"resourceAttributes": {"verb": "get"}, **USER}
    assert texts(local_review_problems({"spec": spec})) == []
    assert texts(local_review_problems({"metadata": None, "spec": spec})) == []


@pytest.mark.parametrize(("selector", "wanted"), [
    (None, []),
    ({"rawSelector": "a=b"}, []),
    ({"requirements": [{"key": "a", "operator": "Exists"}]}, []),
    ({}, ["requirements: Required value: when PATH is specified, requirements or rawSelector is required"]),
    (
        {"rawSelector": "", "requirements": []},
        ["requirements: Required value: when PATH is specified, requirements or rawSelector is required"],
    ),
    (
        {"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Exists"}]},
        ['rawSelector: Invalid value: "a=b": may not specified at the same time as requirements'],
    ),
    ({"requirements": [{"key": "a", "operator": "In", "values": ["b"]}, {"key": "a", "operator": "NotIn", "values": ["b"]}]}, []),
    (
        {"requirements": [{"key": "a", "operator": "In"}, {"key": "a", "operator": "NotIn", "values": []}]},
        [
            "requirements[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            "requirements[1].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
        ],
    ),
    (
        {"requirements": [{"key": "a", "operator": "Exists", "values": ["b"]}, {"key": "a", "operator": "DoesNotExist", "values": ["b"]}]},
        [
            "requirements[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            "requirements[1].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
        ],
    ),
    ({"requirements": [{"key": "a", "operator": "Newer", "values": ["b"]}, {"key": "a"}]}, []),
], ids=["absent", "raw", "parsed", "empty", "empty members", "both", "values", "no values", "too many values", "unknown"])  # fmt: skip
def test_selectors(selector, wanted):
    """Selectors are raw or parsed; operators that newer clients know are left to authorizers."""
    for field, path in (("fieldSelector", FIELD), ("labelSelector", LABEL)):
        review = {"spec": {"resourceAttributes": {field: selector}, **USER}}
        assert texts(review_problems(review)) == [f"{path}.{text.replace('PATH', path)}" for text in wanted]


def test_keys_of_field_selectors():
    """A requirement for a field has a key, of any form; its values have any form, too."""
    requirements = [{"operator": "In", "values": ["/ /"]}, {"key": "metadata.name", "operator": "Exists"}]
    found = self_review_problems({"spec": {"resourceAttributes": {"fieldSelector": {"requirements": requirements}}}})
    assert texts(found) == [f"{FIELD}.requirements[0].key: Required value: must be specified"]


def test_keys_of_label_selectors():
    """A requirement for a label has the key of a label, and values of labels."""
    requirements = [{"key": "", "operator": "Exists"}, {"key": "a", "operator": "In", "values": ["b", "/ /"]}]
    found = self_review_problems({"spec": {"resourceAttributes": {"labelSelector": {"requirements": requirements}}}})
    assert list(dict.fromkeys(problem.field for problem in found)) == [
        f"{LABEL}.requirements[0].key",
        f"{LABEL}.requirements[1].values[1]",
    ]


@pytest.mark.parametrize(("spec", "wanted"), [
    (
        {"resourceAttributes": {"fieldSelector": {"requirements": [None]}}},
        [f"{FIELD}.requirements[0].key: Required value: must be specified"],
    ),
    ({"resourceAttributes": {"fieldSelector": {"requirements": [{"key": "a", "operator": None, "values": [None]}]}}}, []),
    ({"resourceAttributes": {"labelSelector": {"requirements": [{"key": "a", "operator": None, "values": None}]}}}, []),
    ({"resourceAttributes": {"namespace": None}, "nonResourceAttributes": None}, []),
    ({"resourceAttributes": None, "nonResourceAttributes": {"path": None}}, []),
], ids=["requirement", "operator", "values", "namespace", "path"])  # fmt: skip
def test_null_is_the_empty_value(spec, wanted):
    """Fields that are null in the request are empty for validation, as the decoder makes them."""
    codec = struct_codec("io.k8s.api.authorization.v1.SubjectAccessReview")
    assert codec is not None
    review = {"metadata": None, "spec": {**spec, **USER}}
    codec.decode(review)
    assert texts(review_problems(review)) == wanted
