"""Roles of users, groups and service accounts in a logical cluster: its RBAC bindings, read and changed through its API."""

from __future__ import annotations

import difflib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlencode

from kcp_py.apis.rbac.policy import ACCESS_ROLE, GROUP, inherited_objects
from kcp_py.cli.clusterapi import ATTEMPTS, PAGE
from kcp_py.cli.exits import CommandError
from kcp_py.cli.remote import RemoteError, RemoteServer
from kcp_py.request.user import SERVICE_ACCOUNT_PREFIX

ADMIN_ROLE: Final = "cluster-admin"
_PREFIX: Final = "kcp-py:"
"""How the names of the bindings begin that the commands make; the name of the role follows."""


class Subject(NamedTuple):
    """A subject of a binding. A user name of a service account is that service account, as for the server."""

    kind: str
    """User, Group or ServiceAccount."""
    name: str
    namespace: str = ""
    """Of a service account."""

    @classmethod
    def user(cls, name: str) -> Subject:
        namespace, colon, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
        if name.startswith(SERVICE_ACCOUNT_PREFIX) and colon:
            return cls("ServiceAccount", account, namespace)
        return cls("User", name)

    @classmethod
    def parse(cls, subject: Mapping[str, Any]) -> Subject:
        """From its JSON form."""
        if subject["kind"] == "User":
            return cls.user(subject["name"])
        return cls(subject["kind"], subject["name"], subject.get("namespace", ""))

    def to_json(self) -> dict[str, str]:
        if self.kind == "ServiceAccount":
            return {"kind": self.kind, "name": self.name, "namespace": self.namespace}
        return {"kind": self.kind, "apiGroup": GROUP, "name": self.name}

    @property
    def full_name(self) -> str:
        """The name for output: of a service account with its namespace; quoted if a terminal could not print it as it is."""
        name = f"{self.namespace}/{self.name}" if self.kind == "ServiceAccount" else self.name
        return name if name.isprintable() else json.dumps(name)

    def __str__(self) -> str:
        return f"{'service account' if self.kind == 'ServiceAccount' else self.kind.lower()} {self.full_name}"


class Binding(NamedTuple):
    """A ClusterRoleBinding or RoleBinding of a cluster."""

    cluster: str
    obj: Mapping[str, Any]

    @property
    def name(self) -> str:
        return str(self.obj["metadata"]["name"])

    @property
    def namespace(self) -> str:
        """Empty for a ClusterRoleBinding."""
        return str(self.obj["metadata"].get("namespace", ""))

    @property
    def role_kind(self) -> str:
        return str(self.obj["roleRef"]["kind"])

    @property
    def role_name(self) -> str:
        return str(self.obj["roleRef"]["name"])

    @property
    def role(self) -> str:
        """The role for output: the name of a ClusterRole, `Role/NAME` for a Role."""
        return self.role_name if self.role_kind == "ClusterRole" else f"{self.role_kind}/{self.role_name}"

    @property
    def gives_access(self) -> bool:
        """Whether it is there only to let its subjects enter the cluster."""
        return not self.namespace and self.role == ACCESS_ROLE

    @property
    def subjects(self) -> list[Subject]:
        return [Subject.parse(subject) for subject in self.obj.get("subjects") or ()]

    @property
    def path(self) -> str:
        return f"{_collection(self.cluster, self.namespace)}/{quote(self.name, safe='')}"

    @property
    def is_default(self) -> bool:
        """Whether every cluster inherits a binding of this name, so that a deleted one comes back."""
        return (self.namespace, self.name) in _inherited_subjects()

    def is_inherited(self, subject: Subject) -> bool:
        """Whether the inherited form of the binding has this subject."""
        return subject in _inherited_subjects().get((self.namespace, self.name), ())

    @property
    def scope(self) -> str:
        """Where the role counts, as messages say it."""
        return scope_of(self.cluster, self.namespace)


def scope_of(cluster: str, namespace: str) -> str:
    """Where a role counts, as messages say it. An empty namespace is the whole cluster."""
    return f"in namespace {namespace} of logical cluster {cluster}" if namespace else f"in logical cluster {cluster}"


@cache
def _inherited_subjects() -> Mapping[tuple[str, str], Sequence[Subject]]:
    """Namespace and name of a binding that clusters inherit -> its subjects."""
    objects = (obj for resource in ("clusterrolebindings", "rolebindings") for obj in inherited_objects()[resource])
    return {
        (obj["metadata"].get("namespace", ""), obj["metadata"]["name"]): [Subject.parse(one) for one in obj.get("subjects") or ()]
        for obj in objects
    }


def list_bindings(server: RemoteServer, cluster: str) -> list[Binding]:
    """All bindings of a cluster: the ClusterRoleBindings, then the RoleBindings of all namespaces."""
    root = _root(cluster)
    return [Binding(cluster, obj) for plural in ("clusterrolebindings", "rolebindings") for obj in _list(server, f"{root}/{plural}")]


def get_role(server: RemoteServer, cluster: str, name: str) -> dict[str, Any]:
    """A ClusterRole of a cluster.

    Raises:
        CommandError: there is none of that name; the text names those that there are.
    """
    roles = f"{_root(cluster)}/clusterroles"
    try:
        return server.request("GET", f"{roles}/{quote(name, safe='')}")
    except RemoteError as error:
        if error.status != 404:
            raise
    names = [role["metadata"]["name"] for role in _list(server, roles)]
    nearest = difflib.get_close_matches(name, names, n=1)
    hint = f"; did you mean {nearest[0]}?" if nearest else ""
    there = ", ".join(one for one in names if not one.startswith("system:"))
    raise CommandError(f"logical cluster {cluster} has no ClusterRole {name}; there are {there}, and those of system:{hint}")


def lets_enter(role: Mapping[str, Any]) -> bool:
    """Whether a ClusterRole contains the permission to enter its cluster: the verb `access` on the URL `/`."""
    return any(
        {"access", "*"} & set(rule.get("verbs") or ()) and {"/", "/*", "*"} & set(rule.get("nonResourceURLs") or ())
        for rule in role.get("rules") or ()
    )


def grant_role(server: RemoteServer, cluster: str, role: str, subjects: Sequence[Subject], *, namespace: str = "") -> Iterator[str]:
    """Give subjects a ClusterRole in a cluster or in one namespace of it, and the permission to enter the cluster if the role lacks it.

    Yields:
        A line about each change, and about each subject that had the role already.

    Raises:
        CommandError: there is no such role or namespace, the server refused, or a binding of the name binds another role.
    """
    enters = lets_enter(get_role(server, cluster, role)) and not namespace
    scope = scope_of(cluster, namespace)
    added = _add_subjects(server, cluster, role, subjects, namespace=namespace)
    for subject in subjects:
        yield f"{subject} granted {role} {scope}" if subject in added else f"{subject} has {role} {scope} already"
    # Service accounts enter their own cluster without the role.
    guests = [] if enters else [subject for subject in subjects if subject.kind != "ServiceAccount"]
    if guests:
        for subject in _add_subjects(server, cluster, ACCESS_ROLE, guests):
            yield f"{subject} may enter logical cluster {cluster}"


def _add_subjects(server: RemoteServer, cluster: str, role: str, subjects: Sequence[Subject], *, namespace: str = "") -> Sequence[Subject]:
    """Add subjects to the binding that the commands keep for a ClusterRole; the subjects that it did not have."""
    kind = "RoleBinding" if namespace else "ClusterRoleBinding"
    new = {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {"name": f"{_PREFIX}{role}", **({"namespace": namespace} if namespace else {})},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": role},
        "subjects": [subject.to_json() for subject in subjects],
    }
    path = Binding(cluster, new).path
    for _ in range(ATTEMPTS):
        try:
            found = Binding(cluster, server.request("GET", path))
        except RemoteError as error:
            if error.status != 404:
                raise
            if _unless_conflict(server, "POST", _collection(cluster, namespace), new):
                return subjects
            continue
        if found.role != role:
            raise CommandError(f"{kind} {found.name} of logical cluster {cluster} binds {found.role}, not {role}; delete it first")
        missing = [subject for subject in subjects if subject not in found.subjects]
        if not missing or _write_subjects(server, found, [*(found.obj.get("subjects") or ()), *(one.to_json() for one in missing)]):
            return missing
    raise _crossed(found)


def remove_subject(server: RemoteServer, binding: Binding, subject: Subject) -> None:
    """Remove a subject from a binding, and delete the binding if that leaves it without subjects.

    A binding that clusters inherit is kept without subjects: deleted, it would come back in its inherited form.
    """
    for _ in range(ATTEMPTS):
        remaining = [one for one in binding.obj.get("subjects") or () if Subject.parse(one) != subject]
        if remaining or binding.is_default:
            done = _write_subjects(server, binding, remaining)
        else:
            done = _unless_conflict(server, "DELETE", binding.path, {"preconditions": _version(binding)})
        if done:
            return
        try:
            binding = Binding(binding.cluster, server.request("GET", binding.path))
        except RemoteError as error:
            if error.status == 404:
                return
            raise
    raise _crossed(binding)


def _write_subjects(server: RemoteServer, binding: Binding, subjects: Sequence[Mapping[str, Any]]) -> bool:
    """Replace the subjects of a binding unless it changed since it was read; whether it was replaced."""
    return _unless_conflict(server, "PATCH", binding.path, {"metadata": _version(binding), "subjects": subjects})


def _unless_conflict(server: RemoteServer, method: str, path: str, body: Mapping[str, Any]) -> bool:
    try:
        server.request(method, path, body)
    except RemoteError as error:
        if error.status == 409 or (error.status == 404 and method != "POST"):
            return False
        raise
    return True


def _version(binding: Binding) -> dict[str, str]:
    return {member: binding.obj["metadata"][member] for member in ("uid", "resourceVersion")}


def _crossed(binding: Binding) -> CommandError:
    return CommandError(f"the binding {binding.name} of logical cluster {binding.cluster} is being changed by other clients; try again")


def _root(cluster: str) -> str:
    return f"/clusters/{cluster}/apis/{GROUP}/v1"


def _collection(cluster: str, namespace: str) -> str:
    root = _root(cluster)
    return f"{root}/namespaces/{quote(namespace, safe='')}/rolebindings" if namespace else f"{root}/clusterrolebindings"


def _list(server: RemoteServer, path: str) -> Iterator[dict[str, Any]]:
    """The objects of a collection, page by page."""
    token = ""
    while True:
        query = urlencode({"limit": PAGE, **({"continue": token} if token else {})})
        page = server.request("GET", f"{path}?{query}")
        yield from page.get("items") or []
        token = page.get("metadata", {}).get("continue", "")
        if not token:
            return
