"""`Binding`: a parsed RoleBinding or ClusterRoleBinding, and the subjects by which the bindings of a user are found.

Source: kubernetes `pkg/registry/rbac/validation/rule.go` (`appliesTo`, `describeSubject`), `plugin/pkg/auth/authorizer/rbac/rbac.go`.
"""

from __future__ import annotations

from collections.abc import Mapping
from sys import intern
from typing import Any, Final, NamedTuple

from kcp_py.golang.quoting import go_quote
from kcp_py.request.user import SERVICE_ACCOUNT_PREFIX, UserInfo

Place = tuple[str, str]
"""Namespace, empty for ClusterRoles and ClusterRoleBindings, and name."""
Subject = tuple[str, str, str]
"""Namespace of the binding, `User` or `Group`, and name. A service account is the user of its name."""

_ROLE_KINDS: Final = ("Role", "ClusterRole")


class Binding(NamedTuple):
    """A RoleBinding or ClusterRoleBinding."""

    place: Place
    role_kind: str
    role_name: str
    role: Place | None
    """Place of the role; None where the reference has an unknown kind, or a ClusterRoleBinding refers to a Role."""
    subjects: Mapping[Subject, str]
    """The subjects in the order of the object. The value is how messages print a service account, and empty for other subjects."""

    def describe(self, user: UserInfo) -> str:
        """The reason of a decision: the binding, its role, and the first of its subjects that is the user.

        Args:
            user: one of the subjects.
        """
        namespace, name = self.place
        kind, printed = ("RoleBinding", f"{name}/{namespace}") if namespace else ("ClusterRoleBinding", name)
        if len(self.subjects) == 1:
            (first,) = self.subjects
        else:
            found = {subject for subject in subjects_of(user, namespace) if subject in self.subjects}
            first = found.pop() if len(found) == 1 else next(subject for subject in self.subjects if subject in found)
        bound = self.subjects[first] or f"{first[1]} {go_quote(first[2])}"
        return f"{kind} {go_quote(printed)} of {self.role_kind} {go_quote(self.role_name)} to {bound}"

    def role_error(self) -> str:
        """The text of the error about a role that does not exist."""
        if self.role_kind not in _ROLE_KINDS:
            return f"unsupported role reference kind: {go_quote(self.role_kind)}"
        return f"{self.role_kind.lower()}.rbac.authorization.k8s.io {go_quote(self.role_name)} not found"


def subjects_of(user: UserInfo, namespace: str) -> list[Subject]:
    """The user and its groups as subjects of bindings in a namespace, or of ClusterRoleBindings where it is empty."""
    return [(namespace, "User", user.name), *[(namespace, "Group", group) for group in user.groups]]


def parse_binding(place: Place, binding: Mapping[str, Any]) -> Binding:
    """Parse a stored binding. Subjects that no caller can be are left out.

    Raises:
        AttributeError, TypeError: a field has another type than in the schema.
    """
    reference = binding.get("roleRef") or {}
    # Thousands of indexes are kept, and most of their bindings are to the same roles.
    kind, name = intern(reference.get("kind") or ""), intern(reference.get("name") or "")
    namespace = place[0]
    # A binding of the cluster that refers to a Role must not get the ClusterRole of that name.
    role = (namespace, name) if kind == "Role" and namespace else ("", name) if kind == "ClusterRole" else None
    subjects: dict[Subject, str] = {}
    for one in binding.get("subjects") or ():
        found = _subject(namespace, one or {})
        if found is not None:
            subjects.setdefault(*found)
    return Binding(place, kind, name, role, subjects)


def _subject(namespace: str, subject: Mapping[str, Any]) -> tuple[Subject, str] | None:
    """A key and a value of `Binding.subjects`; None for a subject that no caller can be."""
    kind, name = subject.get("kind"), subject.get("name") or ""
    if kind in {"User", "Group"}:
        return (namespace, intern(kind), name), ""
    account_namespace = subject.get("namespace") or namespace
    if kind != "ServiceAccount" or not account_namespace:
        return None
    # Upstream prints the name before the namespace.
    return (
        namespace,
        "User",
        f"{SERVICE_ACCOUNT_PREFIX}{account_namespace}:{name}",
    ), f"ServiceAccount {go_quote(f'{name}/{account_namespace}')}"
