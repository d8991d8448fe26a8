"""The configured authorizers of a whole server, and their replacement while it runs."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.authz.configuration.document import ConfigurationError
from kcp_py.controlplane import ControlPlane
from tests.authz.conftest import ALICE, MAPS, RBAC, REVIEWS, USERS, binding, let_in, role, rule
from tests.authz.webhook.conftest import ALLOW, DENY, NO_OPINION, hook
from tests.egress.https import http
from tests.egress.webhook import Hook
from tests.server.handlers.conftest import Api, Watch, options

pytestmark = pytest.mark.anyio
__all__ = ["hook"]

HEAD = "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n"
BY_ROLES = "- {type: RBAC, name: rbac}\n"
PODS = {"spec": {"resourceAttributes": {"verb": "list", "resource": "pods"}}}
MINE = f"{REVIEWS}/selfsubjectaccessreviews"


def by(hook: Hook, *, policy: str = "NoOpinion", condition: str = "true") -> str:
    return (
        "- type: Webhook\n  name: hook\n  webhook:\n    timeout: 30s\n    subjectAccessReviewVersion: v1\n"
        f"    matchConditionSubjectAccessReviewVersion: v1\n    failurePolicy: {policy}\n"
        f"    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {hook.kubeconfig()}}}\n"
        f'    matchConditions: [{{expression: "{condition}"}}]\n'
    )


def write(file: Path, text: str) -> None:
    """Replace a file at once: the server may read it at any time."""
    new = file.with_suffix(".new")
    new.write_text(text)
    new.replace(file)


@asynccontextmanager
async def serving(folder: Path, **more: Any) -> AsyncIterator[Api]:
    users = folder / "users.csv"
    users.write_text(USERS)
    async with (
        ControlPlane(options(folder, token_auth_file=users, **more)) as control_plane,
        httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client,
    ):
        yield Api(client, control_plane)


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(30):
        while not await condition():
            await asyncio.sleep(0.02)


async def metrics(api: Api) -> str:
    return (await api("GET", "/metrics")).text


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "authorization.yaml"


async def test_the_order_of_authorizers(tmp_path: Path, file: Path, hook: Hook) -> None:
    """The first one with an opinion decides; `system:masters` and public paths are asked about nowhere."""
    write(file, HEAD + by(hook) + BY_ROLES)
    async with serving(tmp_path, authorization_config=file) as api:
        await let_in(api, "User:alice")
        await api.ok("POST", f"{RBAC}/clusterroles", role("maps", rule("list", "configmaps")))
        await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("maps", "maps", "User:alice"))
        assert (await api("GET", "/readyz", token=ALICE)).status_code == 200
        assert hook.asked == []
        hook.answer = DENY
        assert (await api.fails(403, "GET", MAPS, token=ALICE))["message"].endswith(": not by the hook")
        hook.answer = NO_OPINION
        await api.ok("GET", MAPS, token=ALICE, params={"labelSelector": "a=b"})
        assert hook.asked[-1]["resourceAttributes"]["labelSelector"] == {"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}
        refused = await api.fails(403, "GET", f"{MAPS}/one", token=ALICE)
        assert refused["message"].endswith(": hook: never heard of it")


async def test_reviews(tmp_path: Path, file: Path, hook: Hook) -> None:
    """`kubectl auth can-i` asks the webhook; the rules of a caller are incomplete."""
    write(file, HEAD + BY_ROLES + by(hook))
    async with serving(tmp_path, authorization_config=file) as api:
        await let_in(api, "User:alice")
        assert (await api.ok("POST", MINE, PODS, token=ALICE))["status"] == {"allowed": True, "reason": "by the hook"}
        hook.answer = DENY
        asked = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/debug"}}}
        assert (await api.ok("POST", MINE, asked, token=ALICE))["status"] == {
            "allowed": False,
            "denied": True,
            "reason": "not by the hook",
        }
        hook.answer = http(403)
        asked = {"spec": {"nonResourceAttributes": {"verb": "get", "path": "/logs"}}}
        assert (await api.ok("POST", MINE, asked, token=ALICE))["status"] == {
            "allowed": False,
            "evaluationError": 'the authorization webhook "hook" failed',
        }
        rules = await api.ok("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, token=ALICE)
        assert rules["status"]["incomplete"] is True
        assert rules["status"]["evaluationError"] == "webhook authorizer does not support user rule resolution"
        assert {"verbs": ["access"], "nonResourceURLs": ["/"]} in rules["status"]["nonResourceRules"]


@pytest.mark.parametrize(("policy", "allowed"), [("NoOpinion", 200), ("Deny", 500)])
async def test_a_webhook_that_fails(tmp_path: Path, file: Path, hook: Hook, policy: str, allowed: int) -> None:
    """Others decide, or the request fails. Callers do not learn where the webhook is."""
    write(file, HEAD + by(hook, policy=policy) + BY_ROLES)
    hook.answer = http(403)
    async with serving(tmp_path, authorization_config=file) as api:
        await let_in(api, "User:alice")
        assert (await api("GET", "/clusters/team-a/api", token=ALICE)).status_code == allowed
        failed = await api.fails(500, "GET", MAPS, token=ALICE)
        assert failed["message"] == 'Internal error occurred: the authorization webhook "hook" failed'


async def test_a_changed_file(tmp_path: Path, file: Path, hook: Hook) -> None:
    """It takes effect without a restart, ends watches that it does not allow, and nothing that was decided before is kept."""
    write(file, HEAD + BY_ROLES)
    async with serving(tmp_path, authorization_config=file) as api:
        await let_in(api, "User:alice")
        await api.ok("POST", f"{RBAC}/clusterroles", role("maps", rule("list watch", "configmaps")))
        await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("maps", "maps", "User:alice"))
        await api.ok("GET", MAPS, token=ALICE)
        async with Watch(api, MAPS, {"Authorization": ALICE}) as watch:
            assert watch.started["status"] == 200
            hook.answer = DENY
            await asyncio.to_thread(write, file, HEAD + by(hook))
            assert await watch.next() is None
        assert (await api.fails(403, "GET", MAPS, token=ALICE))["message"].endswith(": not by the hook")
        shown = await metrics(api)
        assert 'apiserver_authorization_config_controller_automatic_reloads_total{apiserver_id_hash="sha256:' in shown
        assert 'apiserver_authorization_decisions_total{decision="denied",name="hook",type="Webhook"}' in shown
        assert "apiserver_authorization_config_controller_last_config_info" in shown


async def test_a_file_that_cannot_be_used(tmp_path: Path, file: Path) -> None:
    """The authorizers stay as they are, the failure is counted once, and a later file is used."""
    write(file, HEAD + BY_ROLES)
    async with serving(tmp_path, authorization_config=file) as api:
        for failures, content in enumerate((f"{HEAD}- {{type: Node, name: node}}\n", "nonsense: ["), start=1):
            await asyncio.to_thread(write, file, content)

            async def failed(failures: int = failures) -> bool:
                return _count(await metrics(api), "failure") == failures

            await until(failed)
            await api.ok("POST", MINE, PODS)
            await api.fails(403, "GET", MAPS, token=ALICE)
        await asyncio.to_thread(write, file, f"{HEAD}- {{type: AlwaysAllow, name: alwaysallow}}\n")

        async def allowed() -> bool:
            return (await api("GET", MAPS, token=ALICE)).status_code == 200

        await until(allowed)
        await api.fails(403, "GET", MAPS, token="")
        rules = await api.ok("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, token=ALICE)
        assert {"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]} in rules["status"]["resourceRules"]


def _count(shown: str, status: str) -> float:
    lines = [line for line in shown.splitlines() if "automatic_reloads_total{" in line and f'status="{status}"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def test_the_flags_of_one_webhook(tmp_path: Path, hook: Hook) -> None:
    """`--authorization-mode` and `--authorization-webhook-*` name a webhook without a file of the configuration."""
    more = {
        "authorization_mode": ("RBAC", "Webhook"),
        "authorization_webhook_config_file": hook.kubeconfig(),
        "authorization_webhook_version": "v1",
    }
    async with serving(tmp_path, **more) as api:
        await let_in(api, "User:alice")
        hook.answer = ALLOW
        await api.ok("GET", MAPS, token=ALICE)
        await api.fails(403, "GET", "/clusters/team-b/api/v1/configmaps", token=ALICE)


@pytest.mark.parametrize("content", ["", HEAD, f"{HEAD}- {{type: Node, name: node}}\n"])
async def test_a_server_does_not_start_with_a_wrong_file(tmp_path: Path, file: Path, content: str) -> None:
    """The error names the file and the rule."""
    write(file, content)
    async with AsyncExitStack() as stack:
        with pytest.raises(ConfigurationError, match=r"authorization\.yaml: .*authorizers"):
            await stack.enter_async_context(serving(tmp_path, authorization_config=file))
