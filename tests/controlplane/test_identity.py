"""Who callers are and what they may do, from the options and from the arguments of a library user."""

from __future__ import annotations

from pathlib import Path

import httpx
import pytest

from kcp_py.authz import DENIED, NO_OPINION, Decision
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import ClusterSelection
from kcp_py.request.requestinfo import RequestInfo
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
