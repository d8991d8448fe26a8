"""An aggregated API server whose delegate is another server of this program, and a front proxy with certificates."""

from __future__ import annotations

import json
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import kcp_py
from kcp_py.aggregated.server import AggregatedServer
from kcp_py.aggregated.settings import Delegation
from kcp_py.options import Options
from tests.serving.authorities import Issued, client_context, new_authority
from tests.serving.test_embedding import Running

CLUSTER = "/clusters/delegate"
CONFIGMAP = f"{CLUSTER}/api/v1/namespaces/kube-system/configmaps"
FOOS = "/apis/hello.zeng.dev/v1/namespaces/default/foos"
FOO = {"apiVersion": "hello.zeng.dev/v1", "kind": "Foo", "metadata": {"name": "one"}, "spec": {"msg": "hi"}}
SCHEMA = {"type": "object", "properties": {"spec": {"type": "object", "properties": {"msg": {"type": "string"}}}}}
FOO_RESOURCE = kcp_py.StoredResource(group="hello.zeng.dev", version="v1", resource="foos", kind="Foo", schema=SCHEMA)


def published(proxies: Issued, users: Issued, *names: str) -> dict[str, Any]:
    """The ConfigMap by which a server says how its requests can be known."""
    lists = {
        "allowed-names": names,
        "username-headers": ["X-Remote-User"],
        "uid-headers": ["X-Remote-Uid"],
        "group-headers": ["X-Remote-Group"],
        "extra-headers-prefix": ["X-Remote-Extra-"],
    }
    data = {f"requestheader-{name}": json.dumps(list(values)) for name, values in lists.items()}
    data |= {"requestheader-client-ca-file": proxies.pem.decode(), "client-ca-file": users.pem.decode()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extension-apiserver-authentication"}, "data": data}


class Pair:
    """The two servers.

    Attributes:
        admin: a client of the delegate.
        delegate: serves it; its end is the loss of the delegate.
        url: of the aggregated server.
    """

    def __init__(self, folder: Path, admin: httpx.AsyncClient, delegate: Running, kubeconfig: Path) -> None:
        self.folder, self.admin, self.delegate, self.kubeconfig = folder, admin, delegate, kubeconfig
        self.proxies, self.users = new_authority("proxies"), new_authority("users")
        self.proxy = self.proxies.issue("front-proxy")
        self.options = Options(root_directory=folder / "aggregated", storage="memory", secure_port=0, batteries=("namespaces",))
        self.url = ""

    def delegation(self, **changes: Any) -> Delegation:
        """Answers are not kept, so that changes of the delegate are seen at once."""
        given = {"token_cache_seconds": 0, "allowed_cache_seconds": 0, "denied_cache_seconds": 0, **changes}
        return Delegation(kubeconfig=str(self.kubeconfig), **given)

    @asynccontextmanager
    async def serving(self, delegation: Delegation | None = None) -> AsyncIterator[AggregatedServer]:
        """The aggregated server runs within it."""
        control_plane = kcp_py.ControlPlane(self.options, apis=[FOO_RESOURCE])
        async with (
            AggregatedServer(control_plane, delegation or self.delegation()) as server,
            Running(server.control_plane) as running,
        ):
            self.url = running.url
            yield server

    async def send(
        self, issued: Issued | None, method: str, path: str, *, body: Any = None, headers: Mapping[str, str] | None = None
    ) -> httpx.Response:
        """One request to the aggregated server, over a connection of its own."""
        trusted = self.options.ca_file
        context = ssl.create_default_context(cafile=trusted) if issued is None else client_context(trusted, issued, self.folder)
        async with httpx.AsyncClient(verify=context, base_url=self.url) as client:
            return await client.request(method, path, json=body, headers=headers)

    async def publish(self, *names: str) -> None:
        """Write the ConfigMap of the delegate."""
        document = published(self.proxies, self.users, *names)
        answer = await self.admin.post(CONFIGMAP, json=document)
        if answer.status_code == 409:
            answer = await self.admin.put(f"{CONFIGMAP}/extension-apiserver-authentication", json=document)
        assert answer.status_code in {200, 201}, answer.text


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    """The delegate runs; the aggregated server does not yet."""
    (tmp_path / "users.csv").write_text('admin,admin,,"system:masters"\nbob,bob,b1,dev\n')
    options = Options(root_directory=tmp_path / "delegate", storage="memory", secure_port=0, token_auth_file=tmp_path / "users.csv")
    async with kcp_py.ControlPlane(options) as control_plane, Running(control_plane) as running:
        cluster = {"server": f"{running.url}{CLUSTER}", "certificate-authority": str(options.ca_file)}
        document = {
            "clusters": [{"name": "c", "cluster": cluster}],
            "users": [{"name": "u", "user": {"token": "admin"}}],
            "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
            "current-context": "c",
        }
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(json.dumps(document))
        context = ssl.create_default_context(cafile=options.ca_file)
        async with httpx.AsyncClient(verify=context, base_url=running.url, headers={"Authorization": "Bearer admin"}) as admin:
            made = Pair(tmp_path, admin, running, kubeconfig)
            await made.publish("front-proxy")
            yield made
