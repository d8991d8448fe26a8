"""Grants as values, and which subjects mean a user."""

from __future__ import annotations

import json
from typing import Any

import pytest

from kcp_py.authz.grants.grant import parse_grant, subjects_of
from kcp_py.logicalcluster import ROOT, WILDCARD, ClusterSelection, Name
from kcp_py.request.user import CLUSTER_NAME_EXTRA, UserInfo

TEAM = Name("team-a")
GROUPS = ("system:authenticated", "dev")
AT_HOME = UserInfo("system:serviceaccount:shop:ci", "", ("system:serviceaccounts", *GROUPS), {CLUSTER_NAME_EXTRA: ("team-a",)})
ABROAD = UserInfo("system:kcp:serviceaccount:team-a:shop:ci", "", ("system:authenticated",))


@pytest.mark.parametrize(("user", "cluster", "expected"), [
    (UserInfo("alice", "", GROUPS), TEAM, {("User", "alice"), ("Group", "dev"), ("Group", "system:authenticated")}),
    (AT_HOME, TEAM, {("ServiceAccount", "team-a:shop:ci")}),
    (AT_HOME, Name("team-b"), set()),
    (AT_HOME, WILDCARD, set()),
    (AT_HOME._replace(extra={}), TEAM, set()),
    (AT_HOME._replace(extra={CLUSTER_NAME_EXTRA: ("team-a", "root")}), TEAM, set()),
    (ABROAD, Name("team-b"), {("ServiceAccount", "team-a:shop:ci")}),
    (ABROAD, WILDCARD, {("ServiceAccount", "team-a:shop:ci")}),
    (ABROAD._replace(name="system:kcp:serviceaccount:system:admin:shop:ci"), ROOT, {("ServiceAccount", "system:admin:shop:ci")}),
])  # fmt: skip
def test_subjects_of_users(user: UserInfo, cluster: ClusterSelection, expected: set[tuple[str, str]]) -> None:
    """A service account is one subject at home and abroad; without its cluster it has no subject, and its groups mean nothing."""
    assert set(subjects_of(user, cluster)) == expected


def test_a_service_account_lives_in_root_by_default() -> None:
    """Subjects of the kind ServiceAccount name their cluster, or mean root."""
    subjects = [{"kind": "ServiceAccount", "namespace": "shop", "name": "ci", **more} for more in ({}, {"cluster": "team-a"})]
    spec = {"subjects": subjects, "rules": [], "clusters": {"all": True}}
    found = parse_grant("x", json.dumps({"spec": spec}).encode())
    assert found is not None
    assert found.subjects == {("ServiceAccount", "root:shop:ci"), ("ServiceAccount", "team-a:shop:ci")}


@pytest.mark.parametrize(
    "spec", [None, [], {}, {"subjects": [{}], "rules": [], "clusters": {}}, {"subjects": 1, "rules": 2, "clusters": 3}]
)
def test_objects_that_are_no_grants_are_ignored(spec: Any) -> None:
    """Other software may have written them into the store."""
    assert parse_grant("x", json.dumps({"spec": spec}).encode()) is None


def test_a_selection_of_nothing_selects_nothing() -> None:
    """A stored grant without a usable selection is one without clusters."""
    found = parse_grant("x", json.dumps({"spec": {"subjects": [], "rules": [], "clusters": {}}}).encode())
    assert found is not None
    assert not found.selector.selects("team-a", {})


def test_users_of_a_cluster_are_no_subjects() -> None:
    """The provider of a cluster, or a certificate of a cluster, could give its users any name that a grant names."""
    user = UserInfo("alice", "", ("team-a",), {CLUSTER_NAME_EXTRA: ("team-a",)})
    assert list(subjects_of(user, Name("team-a"))) == []
