"""Conditions under which a webhook is asked."""

from __future__ import annotations

import pytest

from kcp_py.authz.webhook.conditions import MAX_CONDITIONS, MatchError, compile_conditions
from kcp_py.authz.webhook.review import review_spec
from kcp_py.logicalcluster import Name
from kcp_py.request.requestinfo import parse_query, parse_request
from kcp_py.request.user import UserInfo

ALICE = UserInfo("alice", "", ("dev", "ops"), {"scopes": ("a",)})
RESOURCE = "/api/v1/namespaces/default/secrets"
SELECTED = f"{RESOURCE}?labelSelector=tier=gold&fieldSelector=metadata.name!=x"


def matches(url: str, *conditions: str) -> bool:
    compiled, problems = compile_conditions(conditions, "matchConditions")
    assert not problems
    path, _, query = url.partition("?")
    return compiled.match(review_spec(ALICE, Name("team-a"), parse_request("GET", path, parse_query(query.encode()))))


@pytest.mark.parametrize(
    ("url", "condition", "expected"),
    [
        (RESOURCE, "has(request.resourceAttributes)", True),
        ("/api", "has(request.resourceAttributes)", False),
        ("/api", "has(request.nonResourceAttributes) && request.nonResourceAttributes.path == '/api'", True),
        (RESOURCE, "request.resourceAttributes.namespace == 'default' && request.resourceAttributes.verb == 'list'", True),
        (RESOURCE, "request.resourceAttributes.subresource == '' && request.resourceAttributes.group == ''", True),
        (RESOURCE, "request.resourceAttributes.resource in ['pods', 'nodes']", False),
        (RESOURCE, "'ops' in request.groups && request.user == 'alice' && request.uid == ''", True),
        (RESOURCE, "request.extra['scopes'] == ['a']", True),
        (RESOURCE, "request.extra['authorization.kcp.io/cluster-name'][0].startsWith('team-')", True),
        (RESOURCE, "!('system:serviceaccounts:kube-system' in request.groups)", True),
        (RESOURCE, "has(request.resourceAttributes.labelSelector)", False),
        (SELECTED, "request.resourceAttributes.labelSelector.requirements.exists(r, r.key == 'tier' && r.operator == 'In')", True),
        (SELECTED, "request.resourceAttributes.labelSelector.requirements[0].values == ['gold']", True),
        (SELECTED, "request.resourceAttributes.fieldSelector.requirements[0].operator == 'NotIn'", True),
        (SELECTED, "request.resourceAttributes.?fieldSelector.?rawSelector.orValue('') == ''", True),
    ],
)
def test_a_condition(url: str, condition: str, expected: object) -> None:
    """`request` is the spec of a SubjectAccessReview, with empty values where upstream has them."""
    assert matches(url, condition) is expected


def test_all_conditions_must_hold() -> None:
    """Without conditions all requests match. One that does not hold counts more than one without a value."""
    assert matches("/api")
    assert not matches("/api", "true", "false")
    assert not matches("/api", "request.resourceAttributes.verb == 'get'", "false")
    with pytest.raises(MatchError, match="cel evaluation error: expression"):
        matches("/api", "true", "request.resourceAttributes.verb == 'get'")


@pytest.mark.parametrize(
    ("conditions", "expected"),
    [
        ([""], "matchConditions[0].expression: Required value"),
        (["  "], "matchConditions[0].expression: Required value"),
        (
            ["request.user == 'admin'", "request.user == 'admin'"],
            "matchConditions[1].expression: Duplicate value: \"request.user == 'admin'\"",
        ),
        (
            ["test"],
            (
                'matchConditions[0].expression: Invalid value: "test": compilation failed: '
                "ERROR: <input>:1:1: undeclared reference to 'test' (in container '')\n | test\n | ^"
            ),
        ),
        (
            ["request.user"],
            'matchConditions[0].expression: Invalid value: "request.user": must evaluate to bool but got string',
        ),
        (["true"] * (MAX_CONDITIONS + 1), "matchConditions: Too many: 65: must have at most 64 items"),
    ],
)
def test_conditions_that_are_refused(conditions: list[str], expected: str) -> None:
    """The texts are upstream's."""
    _, problems = compile_conditions(conditions, "matchConditions")
    assert [str(problem) for problem in problems] == [expected]


def test_an_unknown_field_is_refused() -> None:
    """The fields are declared."""
    _, problems = compile_conditions(["request.nonsense == 'x'"], "matchConditions")
    assert "undefined field 'nonsense'" in str(problems[0])
