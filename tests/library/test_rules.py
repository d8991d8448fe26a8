"""Which writes a rule matches."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.library.rules import Rule
from kcp_py.logicalcluster import parse_name

TEAM = parse_name("team-a")
SCALE = GroupResource("apps", "deployments")


@pytest.mark.parametrize(
    ("resources", "named", "matches", "ignores"),
    [
        ((), None, [("", "configmaps"), ("apps", "deployments")], []),
        (("configmaps",), {("", "configmaps")}, [("", "configmaps")], [("apps", "configmaps"), ("", "secrets")]),
        (("deployments.apps/scale",), {("apps", "deployments")}, [("apps", "deployments")], [("", "deployments")]),
        (("*.apps", "secrets"), None, [("apps", "deployments"), ("", "secrets")], [("", "configmaps"), ("batch", "jobs")]),
        (("widgets.example.com",), {("example.com", "widgets")}, [("example.com", "widgets")], [("com", "widgets")]),
    ],
)
def test_resources_are_named_as_kubectl_does(
    resources: tuple[str, ...],
    named: set[tuple[str, str]] | None,
    matches: list[tuple[str, str]],
    ignores: list[tuple[str, str]],
) -> None:
    """A group follows the plural; without one it is the core group. A star stands for all."""
    rule = Rule(resources)
    assert rule.resources == (None if named is None else {GroupResource(*one) for one in named})
    assert not any(rule.ignores(TEAM, GroupResource(*one)) for one in matches)
    assert all(rule.ignores(TEAM, GroupResource(*one)) for one in ignores)


def test_other_clusters_are_ignored() -> None:
    """Their writes do not pay for the rule."""
    rule = Rule(["configmaps"], clusters=["team-a"])
    assert not rule.ignores(TEAM, GroupResource("", "configmaps"))
    assert rule.ignores(parse_name("team-b"), GroupResource("", "configmaps"))


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ({"resources": [""]}, "is not a resource such as"),
        ({"resources": ["pods/"]}, "is not a resource such as"),
        ({"resources": ["pods."]}, "is not a resource such as"),
        ({"operations": ["WRITE"]}, "unknown operations: WRITE"),
        ({"operations": []}, "matches nothing"),
        ({"clusters": "team-a"}, "clusters is a list of names"),
        ({"clusters": ["Team A"]}, "Team A"),
        ({"namespaces": "default"}, "namespaces is a list of names"),
        ({"labels": "a in b"}, "a in b|unable to parse|expected"),
    ],
)
def test_a_rule_without_meaning_is_refused(arguments: dict[str, Any], problem: str) -> None:
    """When the function is added, and not at the first write."""
    with pytest.raises(ValueError, match=problem):
        Rule(**arguments)
