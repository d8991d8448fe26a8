"""Kubeconfigs that take up a context."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kcp_py.kubeconfig import kubeconfig_of
from kcp_py.kubeconfig.merging import KubeconfigFormError, merge


def made(token="t1", server="https://kcp:6443/clusters/team-a", **more):
    """A kubeconfig of alice in team-a."""
    names = {"cluster_name": "team-a", "user_name": "alice@team-a", "context_name": "alice@team-a"}
    return kubeconfig_of({"server": server}, {"token": token}, **{**names, **more})


OTHER: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Config",
    "preferences": {"colors": True},
    "unknown": {"kept": 1},
    "clusters": [{"name": "prod", "cluster": {"server": "https://prod", "extensions": [{"name": "x"}]}, "further": 1}],
    "contexts": [{"name": "prod", "context": {"cluster": "prod", "user": "me"}}],
    "users": [{"name": "me", "user": {"token": "secret"}}],
    "current-context": "prod",
}


def names_of(document):
    return [[entry["name"] for entry in document[plural]] for plural in ("clusters", "users", "contexts")]


@pytest.mark.parametrize("empty", [{}, {"clusters": None, "contexts": None, "users": None, "current-context": ""}])
def test_an_empty_file_gets_the_context(empty):
    """It becomes the current one."""
    merged = merge(empty, made(namespace="shop"))
    assert merged.document["current-context"] == merged.context == "alice@team-a"
    assert merged.document["contexts"][0]["context"] == {"cluster": "team-a", "user": "alice@team-a", "namespace": "shop"}


def test_other_entries_stay():
    """Entries, fields that are not known and the current context are as before, and the given document is not changed."""
    before = copy.deepcopy(OTHER)
    merged = merge(OTHER, made())
    assert before == OTHER
    for key in ("preferences", "unknown", "current-context"):
        assert merged.document[key] == OTHER[key]
    assert merged.document["clusters"][0] == OTHER["clusters"][0]
    assert names_of(merged.document) == [["prod", "team-a"], ["me", "alice@team-a"], ["prod", "alice@team-a"]]


def test_a_renewal_replaces_what_the_first_merge_wrote():
    """The new credential is in the place of the old one, and extensions of other programs stay."""
    first = merge(OTHER, made()).document
    first["users"][1]["user"]["extensions"] = [{"name": "mine"}]
    merged = merge(first, made("t2"))
    assert names_of(merged.document) == names_of(first)
    assert merged.document["users"][1]["user"] == {"extensions": [{"name": "mine"}], "token": "t2"}


@pytest.mark.parametrize(
    "taken",
    [
        {"clusters": [{"name": "team-a", "cluster": {"server": "https://elsewhere"}}]},
        {"contexts": [{"name": "alice@team-a", "context": {"cluster": "prod", "user": "me"}}]},
        {
            "users": [{"name": "alice@team-a", "user": {"token": "another"}}],
            "contexts": [{"name": "mine", "context": {"cluster": "prod", "user": "alice@team-a"}}],
        },
    ],
    ids=["cluster", "context", "user"],
)
def test_names_that_are_taken_get_an_ending(taken):
    """Entries of others are never replaced: the three names get the same number."""
    merged = merge(taken, made())
    assert merged.context == "alice@team-a-2"
    for plural, entries in taken.items():
        assert merged.document[plural][: len(entries)] == entries
    assert [names[-1] for names in names_of(merged.document)] == ["team-a-2", "alice@team-a-2", "alice@team-a-2"]
    assert names_of(merge(merged.document, made("t2")).document) == names_of(merged.document)


def test_one_user_serves_several_contexts():
    """The credentials of the caller are one entry, whatever clusters they are merged for."""
    first = merge({}, made(user_name="kcp-admin", context_name="team-a"))
    second = merge(
        first.document, made(user_name="kcp-admin", context_name="team-b", cluster_name="team-b", server="https://kcp/clusters/b")
    )
    assert names_of(second.document) == [["team-a", "team-b"], ["kcp-admin"], ["team-a", "team-b"]]


def test_a_current_context_that_is_gone_is_replaced():
    """The file would not be usable otherwise."""
    assert merge({"current-context": "gone"}, made()).document["current-context"] == "alice@team-a"


@pytest.mark.parametrize(
    "wrong",
    [
        {"clusters": {"a": 1}},
        {"users": ["x"]},
        {"contexts": [{"context": {}}]},
        {"users": [{"name": 1}]},
        {"clusters": [{"name": "a", "cluster": 3}]},
    ],
)
def test_other_documents_are_refused(wrong):
    """Nothing is guessed about files of another form."""
    with pytest.raises(KubeconfigFormError):
        merge(wrong, made())
