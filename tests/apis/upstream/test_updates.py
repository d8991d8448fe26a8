"""What an update must not change of upstream kinds."""

from __future__ import annotations

import pytest

from kcp_py.apis.upstream.updates import IMMUTABLE, changed_problems
from kcp_py.bootstrap.upstream_kinds import upstream_kinds, upstream_models


@pytest.mark.parametrize(
    ("name", "old", "new", "problems"),
    [
        (
            ("apps", "deployments"),
            {"spec": {"selector": {"matchLabels": {"a": "b"}}, "replicas": 1}},
            {"spec": {"selector": {"matchLabels": {"a": "c"}}, "replicas": 2}},
            ['spec.selector: Invalid value: {"matchLabels":{"a":"c"}}: field is immutable'],
        ),
        (("apps", "deployments"), {"spec": {"selector": {}}}, {"spec": {}}, []),
        (("batch", "jobs"), {"spec": {"template": {"a": 1}}}, {"spec": {"template": {"a": 2}}}, ["spec.template: "]),
        (("batch", "jobs"), {"spec": {"suspend": True, "template": {"a": 1}}}, {"spec": {"template": {"a": 2}}}, []),
        (("scheduling.k8s.io", "priorityclasses"), {"value": 1}, {"value": 2}, ["value: Forbidden: may not be changed in an update."]),
        (("", "pods"), {"spec": {"nodeName": "a"}}, {"spec": {"nodeName": "b"}}, []),
    ],
)
def test_what_must_not_change(name, old, new, problems):
    """The field is named in upstream's words; empty and missing values are equal."""
    found = [str(problem) for problem in changed_problems(name, new, old)]
    assert len(found) == len(problems)
    assert all(text.startswith(start) for text, start in zip(found, problems, strict=True))


def test_every_field_is_one_of_its_kind():
    """No rule is written for a field that is not there."""
    kinds = {(kind.group, kind.plural): kind.model for kind in upstream_kinds().values()}
    for name, fields in IMMUTABLE.items():
        for field in fields:
            schema = upstream_models()[kinds[name]]
            for part in field.split("."):
                reference = schema["properties"][part].get("$ref", "").rpartition("/")[2]
                schema = upstream_models()[reference] if reference else schema["properties"][part]
