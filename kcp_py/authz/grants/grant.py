"""`Grant`: a ClusterAccessGrant as decisions need it, and the users that its subjects mean. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from kcp_py.apimachinery.meta.selectors import LabelSelector, label_selector_of
from kcp_py.authz.rbac.rules import PolicyRule, RuleSets, parse_rules, rule_sets
from kcp_py.logicalcluster import ROOT, ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.user import CLUSTER_NAME_EXTRA, FOREIGN_SERVICE_ACCOUNT_PREFIX, SERVICE_ACCOUNT_PREFIX, UserInfo

Labels = Mapping[str, str]
Subject = tuple[str, str]
"""`User`, `Group` or `ServiceAccount`, and the name; of a service account `cluster:namespace:name`."""


class Selector(NamedTuple):
    """The clusters of a grant: all, or some by name, or those with matching labels."""

    everything: bool = False
    names: frozenset[str] = frozenset()
    labels: LabelSelector | None = None

    def selects(self, cluster: str, labels: Labels | None) -> bool:
        """Whether a cluster is among them.

        Args:
            cluster: its name.
            labels: those of its LogicalCluster object; None where it has none.
        """
        return self.everything or cluster in self.names or (self.labels is not None and labels is not None and self.labels.matches(labels))


class Grant(NamedTuple):
    """One object."""

    name: str
    subjects: frozenset[Subject]
    rules: tuple[PolicyRule, ...]
    tables: tuple[RuleSets, ...]
    """Of the rules, in their order."""
    selector: Selector

    @property
    def names_objects(self) -> bool:
        """Whether a rule is for objects of some names alone."""
        return any(table.resource_names for table in self.tables)

    def allows(self, info: RequestInfo) -> bool:
        """Whether a rule allows a request for a resource, in clusters that the grant selects."""
        return any(table.allows_resource(info) for table in self.tables)


def parse_grant(name: str, value: bytes) -> Grant | None:
    """A stored object; None for one that is not valid: other software has stored it."""
    try:
        spec = orjson.loads(value)["spec"]
        rules = tuple(rule._replace(non_resource_urls=()) for rule in parse_rules(spec["rules"]))
        subjects = frozenset(map(_subject, spec["subjects"]))
        return Grant(name, subjects, rules, tuple(map(rule_sets, rules)), _selector(spec["clusters"]))
    except (AttributeError, KeyError, TypeError, ValueError):
        return None


def _subject(subject: Mapping[str, Any]) -> Subject:
    if subject["kind"] == "ServiceAccount":
        return "ServiceAccount", f"{subject.get('cluster') or ROOT}:{subject['namespace']}:{subject['name']}"
    return subject["kind"], subject["name"]


def home_of(subject: Subject) -> str:
    """The cluster of a service account."""
    return subject[1].rsplit(":", 2)[0]


def _selector(clusters: Mapping[str, Any]) -> Selector:
    if clusters.get("all") is True:
        return Selector(everything=True)
    if names := clusters.get("names"):
        return Selector(names=frozenset(names))
    return Selector(labels=label_selector_of(clusters.get("selector")))


def subjects_of(user: UserInfo, cluster: ClusterSelection) -> Iterator[Subject]:
    """The subjects that mean a user.

    A service account has another name in its own cluster than elsewhere. It is the same subject there, and its groups, which exist in every
    cluster, mean nothing.

    Args:
        user: the caller.
        cluster: of the request.
    """
    name = user.name
    if name.startswith(SERVICE_ACCOUNT_PREFIX):
        if user.extra.get(CLUSTER_NAME_EXTRA) == (cluster,):
            yield "ServiceAccount", f"{cluster}:{name.removeprefix(SERVICE_ACCOUNT_PREFIX)}"
        return
    if name.startswith(FOREIGN_SERVICE_ACCOUNT_PREFIX):
        yield "ServiceAccount", name.removeprefix(FOREIGN_SERVICE_ACCOUNT_PREFIX)
        return
    if CLUSTER_NAME_EXTRA in user.extra:
        # The cluster vouches for the user, by its own provider or by a certificate. It could choose the name of any other user.
        return
    yield "User", name
    for group in user.groups:
        yield "Group", group
