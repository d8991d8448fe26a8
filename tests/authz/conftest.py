"""A control plane with users, and the objects that give them permissions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx
import pytest

from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, options

GROUP: Final = "rbac.authorization.k8s.io"
RBAC: Final = f"/clusters/team-a/apis/{GROUP}/v1"
REVIEWS: Final = "/clusters/team-a/apis/authorization.k8s.io/v1"
MAPS: Final = "/clusters/team-a/api/v1/namespaces/default/configmaps"
ALICE: Final = "Bearer alice"
BOB: Final = "Bearer bob"
OPERATOR: Final = "Bearer operator"
USERS: Final = 'alice,alice,a1,"dev"\nbob,bob,b1\noperator,olga,o1,"system:kcp:admin"\n'


def rule(verbs: str, resources: str, *, groups: str = "", names: str = "") -> dict[str, Any]:
    """A rule for resources. Several values are separated by spaces; the core group is `-`."""
    found = {"verbs": verbs.split(), "apiGroups": [one.replace("-", "") for one in (groups or "-").split()], "resources": resources.split()}
    return {**found, "resourceNames": names.split()} if names else found


def role(name: str, *rules: dict[str, Any], **more: Any) -> dict[str, Any]:
    """A Role or a ClusterRole."""
    return {"metadata": {"name": name}, "rules": list(rules), **more}


def binding(name: str, role: str, *subjects: str, kind: str = "ClusterRole") -> dict[str, Any]:
    """A RoleBinding or ClusterRoleBinding to subjects such as `User:alice`, `Group:dev` and `ServiceAccount:namespace:name`."""
    return {
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [_subject(*subject.split(":", 1)) for subject in subjects],
    }


def _subject(kind: str, name: str) -> dict[str, Any]:
    if kind != "ServiceAccount":
        return {"kind": kind, "apiGroup": GROUP, "name": name}
    namespace, _, account = name.partition(":")
    return {"kind": kind, "namespace": namespace, "name": account}


async def let_in(api: Api, *subjects: str, cluster: str = "team-a") -> None:
    """Give subjects the permission to enter a cluster, and no other one."""
    path = f"/clusters/{cluster}/apis/{GROUP}/v1/clusterrolebindings"
    await api.ok("POST", path, binding("members", "system:kcp:workspace:access", *subjects))


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """Requests of the administrator, and with the token of another user of that one."""
    users = tmp_path / "users.csv"
    users.write_text(USERS)
    async with (
        ControlPlane(options(tmp_path, token_auth_file=users)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)
