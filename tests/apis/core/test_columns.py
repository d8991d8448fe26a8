"""What `kubectl get` shows of built-in kinds."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.apis.builtin.resources import kind_rules
from kcp_py.bootstrap.kinds import builtin_kinds

NOW = parse_time("2026-01-01T00:10:00Z")
METADATA = {"name": "n", "creationTimestamp": "2026-01-01T00:00:00Z"}
RBAC = "rbac.authorization.k8s.io"


def cells(group: str, plural: str, **members: Any) -> dict[str, Any]:
    return {
        column.name: column.cell({"metadata": METADATA, **members}, NOW) for column in kind_rules()[GroupResource(group, plural)].columns
    }


@pytest.mark.parametrize(("group", "plural", "members", "wanted"), [
    ("", "configmaps", {"data": {"a": "b"}, "binaryData": {"c": ""}}, {"Name": "n", "Data": 2, "Age": "10m"}),
    ("", "secrets", {"type": "Opaque", "data": {"a": ""}}, {"Name": "n", "Type": "Opaque", "Data": 1, "Age": "10m"}),
    ("", "namespaces", {"status": {"phase": "Active"}}, {"Name": "n", "Status": "Active", "Age": "10m"}),
    ("", "serviceaccounts", {}, {"Name": "n", "Age": "10m"}),
    ("", "limitranges", {}, {"Name": "n", "Created At": "2026-01-01T00:00:00Z"}),
    ("", "resourcequotas", {"status": {"hard": {"pods": "5", "limits.cpu": "2000m"}, "used": {"pods": "1"}}}, {
        "Name": "n", "Request": "pods: 1/5", "Limit": "limits.cpu: 0/2", "Age": "10m",
    }),
    ("coordination.k8s.io", "leases", {"spec": {"holderIdentity": "me"}}, {"Name": "n", "Holder": "me", "Age": "10m"}),
    (RBAC, "roles", {}, {"Name": "n", "Created At": "2026-01-01T00:00:00Z"}),
    (RBAC, "rolebindings", {
        "roleRef": {"kind": "Role", "name": "r"},
        "subjects": [
            {"kind": "User", "name": "u"}, {"kind": "User", "name": "v"}, {"kind": "ServiceAccount", "namespace": "x", "name": "s"},
        ],
    }, {"Name": "n", "Role": "Role/r", "Age": "10m", "Users": "u, v", "Groups": "", "ServiceAccounts": "x/s"}),
    ("core.kcp.io", "logicalclusters", {"status": {"phase": "Ready", "URL": "https://h/clusters/a"}}, {
        "Name": "n", "Phase": "Ready", "URL": "https://h/clusters/a", "Age": "10m",
    }),
], ids=lambda value: value if isinstance(value, str) else "")  # fmt: skip
def test_cells(group, plural, members, wanted):
    """The cells of each kind are upstream's."""
    assert cells(group, plural, **members) == wanted


@pytest.mark.parametrize("group", ["", "events.k8s.io"])
def test_events(group):
    """Events show the same in both groups."""
    names = {"involvedObject": "regarding", "message": "note", "source": "deprecatedSource", "count": "deprecatedCount"} if group else {}
    members = {
        "involvedObject": {"kind": "Widget", "name": "w"},
        "message": " hello\n",
        "type": "Normal",
        "reason": "Made",
        "source": {"component": "maker", "host": "h"},
        "count": 3,
        "eventTime": "2026-01-01T00:09:00.000000Z",
    }
    assert cells(group, "events", **{names.get(name, name): value for name, value in members.items()}) == {
        "Last Seen": "60s", "Type": "Normal", "Reason": "Made", "Object": "widget/w", "Subobject": "", "Source": "maker, h",
        "Message": "hello", "First Seen": "60s", "Count": 3, "Name": "n",
    }  # fmt: skip


@pytest.mark.parametrize("kind", builtin_kinds(), ids=lambda kind: f"{kind.plural}.{kind.group}")
def test_empty_objects_have_cells(kind):
    """An object with nothing but metadata, or with nulls, can be shown."""
    for column in kind_rules()[GroupResource(kind.group, kind.plural)].columns:
        for members in ({}, dict.fromkeys(("data", "spec", "status", "subjects", "series", "roleRef", "secrets"))):
            column.cell({"metadata": {}, **members}, NOW)
