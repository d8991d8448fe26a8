"""The Table columns of roles and bindings (kubernetes `pkg/printers/internalversion/printers.go`)."""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.meta.table import AGE, CREATED_AT, NAME, Column, LastingCell
from kcp_py.apis.typed.cells import Object, lasting, object_at, objects_at, text


def _role(obj: Object) -> str:
    reference = object_at(obj, "roleRef")
    return f"{text(reference.get('kind'))}/{text(reference.get('name'))}"


def _subjects(kind: str) -> LastingCell:
    def find(obj: Object) -> str:
        found = [subject for subject in objects_at(obj, "subjects") if subject.get("kind") == kind]
        if kind == "ServiceAccount":
            return ", ".join(f"{text(subject.get('namespace'))}/{text(subject.get('name'))}" for subject in found)
        return ", ".join(text(subject.get("name")) for subject in found)

    return lasting(find)


ROLE: Final = (NAME, CREATED_AT)
BINDING: Final = (
    NAME,
    Column(
        "Role",
        "string",
        "",
        "RoleRef can reference a Role in the current namespace or a ClusterRole in the global namespace.",
        0,
        lasting(_role),
    ),
    AGE,
    Column("Users", "string", "", "Users in the roleBinding", 1, _subjects("User")),
    Column("Groups", "string", "", "Groups in the roleBinding", 1, _subjects("Group")),
    Column("ServiceAccounts", "string", "", "ServiceAccounts in the roleBinding", 1, _subjects("ServiceAccount")),
)
