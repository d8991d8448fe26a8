"""The rules of ClusterAccessGrants that a schema cannot express. Who may write them is admission's question."""

from __future__ import annotations

from typing import Any, Final

from kcp_py.apimachinery.fielderrors import FieldError, forbidden, invalid, required
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta import names
from kcp_py.apimachinery.meta.selectorvalidation import selector_problems
from kcp_py.apis.rbac.strategy import missing_verb_problems, rule_problems
from kcp_py.logicalcluster import InvalidClusterError, parse_name
from kcp_py.registry.strategy import Strategy
from kcp_py.request.user import (
    ALL_AUTHENTICATED,
    ALL_UNAUTHENTICATED,
    ANONYMOUS,
    FOREIGN_SERVICE_ACCOUNT_PREFIX,
    SERVICE_ACCOUNT_PREFIX,
    SERVICE_ACCOUNTS,
)

GRANTS: Final = GroupResource("access.kcp-py.dev", "clusteraccessgrants")

_EVERYONE: Final = (ALL_AUTHENTICATED, ALL_UNAUTHENTICATED)
_SELECTIONS: Final = ("all", "names", "selector")


class GrantStrategy(Strategy):
    """The rules of the kind."""

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        spec = obj["spec"]
        missing = "must have at least one entry"
        problems = [required(f"spec.{field}", missing) for field in ("subjects", "rules") if not spec[field]]
        for index, subject in enumerate(spec["subjects"]):
            problems += _subject_problems(subject, f"spec.subjects[{index}]")
        problems += rule_problems(spec["rules"], "spec.rules", namespaced=False)
        problems += missing_verb_problems(spec["rules"], "spec.rules")
        return problems + _cluster_problems(spec["clusters"])

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        del old
        return self.validate(obj)


def _subject_problems(subject: dict[str, Any], path: str) -> list[FieldError]:
    kind, name = subject["kind"], subject["name"]
    if kind != "ServiceAccount":
        problems = [
            forbidden(f"{path}.{field}", f"is for subjects of the kind ServiceAccount, not {kind}")
            for field in ("namespace", "cluster")
            if subject.get(field)
        ]
        if reason := _refused(kind, name):
            problems.append(invalid(f"{path}.name", name, reason))
        return problems
    problems = [invalid(f"{path}.name", name, text) for text in names.dns_subdomain_problems(name)]
    if namespace := subject.get("namespace"):
        problems += [invalid(f"{path}.namespace", namespace, text) for text in names.dns_label_problems(namespace)]
    else:
        problems.append(required(f"{path}.namespace"))
    return problems + (_name_problems(subject["cluster"], f"{path}.cluster") if subject.get("cluster") else [])


def _refused(kind: str, name: str) -> str:
    """Why a user or a group cannot be a subject; empty where it can.

    The names of service accounts are the same in every cluster, and mean other accounts in each.
    """
    if kind == "User":
        if name.startswith((SERVICE_ACCOUNT_PREFIX, FOREIGN_SERVICE_ACCOUNT_PREFIX)):
            return "service accounts are subjects of the kind ServiceAccount"
        return "permissions over several clusters are not for anonymous callers" if name == ANONYMOUS.name else ""
    if name == SERVICE_ACCOUNTS or name.startswith(f"{SERVICE_ACCOUNTS}:"):
        return "the groups of service accounts exist in every logical cluster; name single accounts"
    return "permissions over several clusters are not for every caller" if name in _EVERYONE else ""


def _cluster_problems(clusters: dict[str, Any]) -> list[FieldError]:
    path = "spec.clusters"
    given = [field for field in _SELECTIONS if field in clusters and clusters[field] is not False]
    if len(given) != 1:
        return [invalid(path, sorted(clusters), f"must have exactly one of {', '.join(_SELECTIONS)}")]
    if given == ["selector"]:
        return selector_problems(clusters["selector"], f"{path}.selector")
    if given == ["names"]:
        if not clusters["names"]:
            return [required(f"{path}.names", "must have at least one entry")]
        return [one for index, name in enumerate(clusters["names"]) for one in _name_problems(name, f"{path}.names[{index}]")]
    return []


def _name_problems(name: str, path: str) -> list[FieldError]:
    try:
        parse_name(name)
    except InvalidClusterError:
        return [invalid(path, name, "is not the name of a logical cluster")]
    return []
