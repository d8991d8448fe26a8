"""Who callers are and what they may do, from the options and from the arguments of a library user."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from kcp_py.authz import DENIED, NO_OPINION, Decision
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
from kcp_py.request.sight import Sight, SightChange
from kcp_py.request.user import UserInfo
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

REVIEWS = "/clusters/team-a/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
LIST_PODS = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}


class NoSecrets:
    """Refuses secrets to all callers, and has a remark about everything else."""

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        del user, cluster
        return DENIED._replace(reason="no secrets") if info.resource == "secrets" else NO_OPINION._replace(reason="asked")


async def test_authorizers_of_a_program_are_asked_first(tmp_path: Path) -> None:
    """Before the administrator's group, for requests and for reviews; a reason alone leaves the decision to the others."""
    async with (
        ControlPlane(options(tmp_path), authorizers=(NoSecrets(),)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        refused = await api.fails(403, "GET", "/clusters/team-a/api/v1/secrets")
        assert refused["message"].endswith(": no secrets")
        await api.ok("GET", "/clusters/team-a/api/v1/configmaps")
        asked = {"spec": {"resourceAttributes": {"verb": "list", "resource": "secrets"}}}
        assert (await api.ok("POST", REVIEWS, asked))["status"] == {"allowed": False, "denied": True, "reason": "no secrets"}


@pytest.mark.parametrize(("required", "code"), [(True, 403), (False, 201)])
async def test_access_can_be_free(tmp_path: Path, *, required: bool, code: int) -> None:
    """Without the check every authenticated caller has what the inherited policy gives it in each cluster."""
    async with (
        ControlPlane(options(tmp_path, require_cluster_access=required)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        answer = await api("POST", REVIEWS, LIST_PODS, token="Bearer user")
        assert answer.status_code == code
        assert (await api("GET", "/clusters/team-a/api/v1/configmaps", token="Bearer user")).status_code == 403


class OneCluster(Sight):
    """Shows the cluster `team-a` alone."""

    scope = "one"
    known_since = changed_at = 0

    def sees(self, cluster: str, revision: int = 0) -> bool:
        del revision
        return cluster == "team-a"

    def shows(self, cluster: str, revision: int) -> bool:
        return self.sees(cluster, revision)

    def few(self, revision: int = 0) -> tuple[str, ...]:
        del revision
        return ("team-a",)

    def listen(self, listener: Callable[[SightChange], None]) -> Callable[[], None]:
        del listener
        return lambda: None


class SomeClusters:
    """Allows jane everything in one cluster, also where she asks for all clusters."""

    async def authorize(self, user: UserInfo, cluster: ClusterSelection, info: RequestInfo) -> Decision | None:
        del cluster, info
        return Decision(allowed=True, sight=OneCluster()) if user.name == "jane" else None


async def test_the_tap_is_for_callers_who_may_read_all_clusters(tmp_path: Path) -> None:
    """An authorizer that allows every path shows some clusters by that, and the tap knows no clusters."""
    async with (
        ControlPlane(options(tmp_path), authorizers=(SomeClusters(),)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        api = Api(client, control_plane)
        await api.ok("GET", "/clusters/*/api/v1/configmaps", token="Bearer user")
        for path in ("builtins", "names?cluster=team-b&group=x", "resources?cluster=team-b"):
            await api.fails(403, "GET", f"/clusters/*/tap/v1/{path}", token="Bearer user")
