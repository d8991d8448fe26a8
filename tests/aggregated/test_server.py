"""An aggregated server over real TLS: its callers, their permissions and its namespaces are those of the delegate."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

import kcp_py
from kcp_py.aggregated.clientauthentication import NAME
from kcp_py.aggregated.server import AggregatedServer
from kcp_py.apimachinery.errors import StatusError
from tests.aggregated.conftest import CLUSTER, CONFIGMAP, FOO, FOOS, Pair
from tests.authz.conftest import binding
from tests.serving.authorities import new_authority

pytestmark = pytest.mark.anyio

ADMIN = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
BOB = {"X-Remote-User": "bob", "X-Remote-Group": "dev"}
ROLES = f"{CLUSTER}/apis/rbac.authorization.k8s.io/v1"


async def allow(pair: Pair, subject: str, *verbs: str) -> None:
    """A role of the delegate for foos."""
    rules = [{"apiGroups": ["hello.zeng.dev"], "resources": ["foos"], "verbs": list(verbs)}]
    role = {"metadata": {"name": "foos"}, "rules": rules}
    assert (await pair.admin.post(f"{ROLES}/clusterroles", json=role)).status_code == 201
    assert (await pair.admin.post(f"{ROLES}/clusterrolebindings", json=binding("foos", "foos", subject))).status_code == 201
    members = binding("members", "system:kcp:workspace:access", "Group:system:authenticated")
    await pair.admin.post(f"{ROLES}/clusterrolebindings", json=members)


async def test_a_front_proxy_names_users(pair: Pair) -> None:
    """With a certificate of the published authority and name. The headers of others are ignored: they are strangers."""
    others = [None, pair.users.issue("mallory"), pair.users.issue("front-proxy")]
    async with pair.serving():
        assert (await pair.send(pair.proxy, "GET", FOOS, headers=ADMIN)).status_code == 200
        for issued in others:
            answer = await pair.send(issued, "GET", FOOS, headers=ADMIN)
            assert answer.status_code == 403, answer.text
            name = "system:anonymous" if issued is None else "mallory" if issued is others[1] else "front-proxy"
            assert f'User "{name}" cannot list' in answer.json()["message"]
        # Not one of the allowed names.
        assert (await pair.send(pair.proxies.issue("mallory"), "GET", FOOS, headers=ADMIN)).status_code == 401


async def test_the_delegate_decides(pair: Pair) -> None:
    """About proxied users, about tokens, about service accounts; a change counts when an answer is not kept any more."""
    token = {"Authorization": "Bearer bob"}
    account = {"X-Remote-User": "system:serviceaccount:default:bot", "X-Remote-Group": "system:serviceaccounts"}
    async with pair.serving():
        for headers, issued in ((BOB, pair.proxy), (token, None), (account, pair.proxy)):
            answer = await pair.send(issued, "GET", FOOS, headers=headers)
            assert answer.status_code == 403, answer.text
        assert (await pair.send(None, "GET", FOOS, headers={"Authorization": "Bearer nonsense"})).status_code == 401
        await allow(pair, "Group:dev", "list", "create")
        for headers, issued in ((BOB, pair.proxy), (token, None)):
            assert (await pair.send(issued, "GET", FOOS, headers=headers)).status_code == 200
        assert (await pair.send(None, "POST", FOOS, body=FOO, headers=token)).status_code == 201
        assert (await pair.send(None, "DELETE", f"{FOOS}/one", headers=token)).status_code == 403
        assert (await pair.send(None, "GET", "/readyz")).status_code == 200


async def test_answers_are_kept(pair: Pair) -> None:
    """For the time that the settings say: the delegate is not asked again, so that a new role does not count yet."""
    async with pair.serving(pair.delegation(denied_cache_seconds=3600)):
        assert (await pair.send(pair.proxy, "GET", FOOS, headers=BOB)).status_code == 403
        await allow(pair, "Group:dev", "list", "create")
        assert (await pair.send(pair.proxy, "GET", FOOS, headers=BOB)).status_code == 403
        assert (await pair.send(pair.proxy, "POST", FOOS, body=FOO, headers=BOB)).status_code == 201


async def test_there_is_one_logical_cluster(pair: Pair) -> None:
    """Permissions of the delegate name no cluster: not even privileged groups reach another one, or all."""
    async with pair.serving():
        for prefix in ("/clusters/other", "/clusters/*"):
            answer = await pair.send(pair.proxy, "GET", f"{prefix}/apis/hello.zeng.dev/v1/foos", headers=ADMIN)
            assert answer.status_code == 403, answer.text
        headers = {**ADMIN, "X-Kubernetes-Cluster": "other"}
        assert (await pair.send(pair.proxy, "POST", FOOS, body=FOO, headers=headers)).status_code == 201
        found = (await pair.send(pair.proxy, "GET", f"{FOOS}/one", headers=ADMIN)).json()
        assert "annotations" not in found["metadata"]


async def test_namespaces_are_those_of_the_delegate(pair: Pair) -> None:
    """Nothing is created in one that is missing or ends; a new one can be used at once."""

    async def create(namespace: str) -> tuple[int, dict[str, Any]]:
        path = f"/apis/hello.zeng.dev/v1/namespaces/{namespace}/foos"
        answer = await pair.send(pair.proxy, "POST", path, body=FOO, headers=ADMIN)
        return answer.status_code, answer.json()

    async with pair.serving():
        code, status = await create("new")
        assert (code, status["message"]) == (404, 'namespaces "new" not found')
        namespace = {"metadata": {"name": "new", "finalizers": ["example.com/kept"]}}
        assert (await pair.admin.post(f"{CLUSTER}/api/v1/namespaces", json=namespace)).status_code == 201
        assert (await create("new"))[0] == 201
        await pair.admin.delete(f"{CLUSTER}/api/v1/namespaces/new")
        async with asyncio.timeout(30):
            while (answer := await create("new"))[0] != 403:
                await asyncio.sleep(0.05)
        assert answer[1]["details"]["causes"][0]["reason"] == "NamespaceTerminating"


async def test_rotation(pair: Pair) -> None:
    """Names and authorities of front proxies count as soon as the delegate publishes others, for connections and requests."""
    async with pair.serving():
        await pair.publish("other-proxy")
        other = pair.proxies.issue("other-proxy")
        async with asyncio.timeout(30):
            while (await pair.send(other, "GET", FOOS, headers=ADMIN)).status_code != 200:
                await asyncio.sleep(0.05)
        assert (await pair.send(pair.proxy, "GET", FOOS, headers=ADMIN)).status_code == 401
        pair.proxies = new_authority("newer proxies")
        newer = pair.proxies.issue("other-proxy")
        await pair.publish("other-proxy")
        async with asyncio.timeout(60):
            while not await accepted(pair, newer):
                await asyncio.sleep(0.1)
        assert not await accepted(pair, other)
        # Without it there are no front proxies.
        await pair.admin.delete(f"{CONFIGMAP}/{NAME}")
        async with asyncio.timeout(60):
            while await accepted(pair, newer):
                await asyncio.sleep(0.1)


async def accepted(pair: Pair, issued: Any) -> bool:
    """Whether a request of a front proxy is accepted; a handshake with an unknown authority fails."""
    try:
        return (await pair.send(issued, "GET", FOOS, headers=ADMIN)).status_code == 200
    except (httpx.ReadError, httpx.ConnectError, httpx.RemoteProtocolError):
        return False


async def test_without_the_delegate(pair: Pair) -> None:
    """No request gets more rights: tokens are not valid, users cannot be judged. Privileged users of the front proxy go on."""
    async with pair.serving():
        pair.delegate.stop.set()
        await pair.delegate._task
        assert (await pair.send(None, "GET", FOOS, headers={"Authorization": "Bearer bob"})).status_code == 401
        assert (await pair.send(pair.proxy, "GET", FOOS, headers=BOB)).status_code == 500
        assert (await pair.send(pair.proxy, "GET", FOOS, headers=ADMIN)).status_code == 200
        answer = await pair.send(pair.proxy, "POST", FOOS.replace("default", "unknown"), body=FOO, headers=ADMIN)
        assert answer.status_code == 503


async def test_the_start_needs_the_delegate(pair: Pair) -> None:
    """Unless that is tolerated: then there are no front proxies until it answers."""
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    pair.kubeconfig.write_text(pair.kubeconfig.read_text().replace('"token": "admin"', '"token": "unknown"'))
    with pytest.raises(StatusError, match="Unauthorized"):
        await AggregatedServer(kcp_py.ControlPlane(pair.options), pair.delegation(), sleep=sleep).__aenter__()
    assert waits == []
    async with pair.serving(pair.delegation(authentication_tolerate_lookup_failure=True)):
        assert not await accepted(pair, pair.proxy)
