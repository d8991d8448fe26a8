"""Webhooks behind a `service`: where the objects of the cluster say that it is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from kcp_py import builtin_definitions
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.controlplane import ControlPlane
from kcp_py.egress import CallError, Service
from kcp_py.logicalcluster import Name
from kcp_py.registry.webhookservices import ClusterServices
from kcp_py.storage.contract import Put
from tests.admission.webhook.conftest import Hooks, configure
from tests.egress.https import issue
from tests.server.handlers.conftest import Api, config_map, established, options

pytestmark = pytest.mark.anyio
KINDS = ("services", "endpoints", "endpointslices.discovery.k8s.io")
CORE = "/clusters/{}/api/v1/namespaces/default/"
SLICES = "/clusters/{}/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
FAILED = (
    'Internal error occurred: failed calling webhook "x.example.com": failed to call webhook: '
    'Post "https://hook.default.svc:{}/x?timeout=30s": '
)


@pytest.fixture
async def hooks(tmp_path: Path) -> AsyncIterator[Hooks]:
    """A webhook whose certificate is that of the service `default/hook`."""
    found = Hooks(issue(tmp_path, "hook.default.svc"))
    async with found.server:
        yield found


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The clusters a and b serve services, c does not. Webhooks may be called at 127.0.0.1 alone."""
    async with AsyncExitStack() as stack:
        control_plane = await stack.enter_async_context(ControlPlane(options(tmp_path, webhook_networks=("127.0.0.1",))))
        transport = httpx.ASGITransport(control_plane.app)
        found = Api(await stack.enter_async_context(httpx.AsyncClient(transport=transport, base_url="https://kcp.test")), control_plane)
        for cluster in ("a", "b"):
            for crd in builtin_definitions(*KINDS):
                await found.ok("POST", f"/clusters/{cluster}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
                await established(found, cluster, crd["metadata"]["name"])
        yield found


async def refer(api: Api, hooks: Hooks, cluster: str, *, port: int) -> None:
    """Let a webhook refuse all config maps of a cluster, behind the service `default/hook`."""
    hooks.answers["/x"] = {"allowed": False, "status": {"message": "asked"}}
    client = {
        "service": {"namespace": "default", "name": "hook", "path": "/x", "port": port},
        "caBundle": hooks.server.certificate.bundle,
    }
    await configure(api, "validating", hooks.webhook("/x", clientConfig=client), cluster=cluster)


def service(**spec: Any) -> dict[str, Any]:
    ports = {"ports": [{"name": "https", "port": 443, "targetPort": 9443}]}
    return {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "hook"}, "spec": {**ports, **spec}}


def endpoint_slice(port: int, *endpoints: Mapping[str, Any], of: str = "hook", name: str = "https") -> dict[str, Any]:
    return {
        "apiVersion": "discovery.k8s.io/v1",
        "kind": "EndpointSlice",
        "metadata": {"generateName": "hook-", "labels": {"kubernetes.io/service-name": of}},
        "addressType": "IPv4",
        "ports": [{"name": name, "port": port}],
        "endpoints": list(endpoints),
    }


async def answer(api: Api, cluster: str = "a") -> str:
    """The message to a client whose object the webhook is asked about."""
    response = await api("POST", f"{CORE.format(cluster)}configmaps", config_map("x"))
    return str(response.json()["message"])


HERE = {"addresses": ["10.1.2.3"]}
ASKED = 'admission webhook "x.example.com" denied the request: asked'


class Finder:
    """Resolves services of clusters; texts are the errors."""

    def __init__(self, api: Api) -> None:
        self._services = ClusterServices(api.control_plane.backend.access, api.control_plane.backend.tables)

    async def __call__(self, cluster: str, port: int = 443) -> tuple[str, int] | str | None:
        try:
            return await self._services.find(Service("default", "hook", port, cluster))
        except CallError as error:
            return str(error)


async def test_slices(api: Api) -> None:
    """Ready endpoints of slices of the service are found, at the port of the name of the service's; each change counts at once."""
    find, none = Finder(api), 'no endpoints available for service "hook"'
    assert await find("a") is None
    await api.ok("POST", f"{CORE.format('a')}services", service())
    assert await find("a", 8443) == 'no service port 8443 found for service "hook"'
    assert await find("a") == none
    for useless in (
        endpoint_slice(9443, HERE, of="other"),
        endpoint_slice(9443, HERE, name="http"),
        endpoint_slice(9443, {**HERE, "conditions": {"ready": False}}),
        endpoint_slice(9443),
    ):
        await api.ok("POST", SLICES.format("a"), useless)
        assert await find("a") == none
    await api.ok("POST", SLICES.format("a"), endpoint_slice(9443, {**HERE, "conditions": {"ready": True}}))
    assert await find("a") == ("10.1.2.3", 9443)
    await api.ok("POST", SLICES.format("a"), endpoint_slice(9444, {"addresses": ["10.1.2.4"]}))
    assert {await find("a") for _ in range(100)} == {("10.1.2.3", 9443), ("10.1.2.4", 9444)}
    await api.ok("DELETE", f"{CORE.format('a')}services/hook")
    assert await find("a") is None


async def test_clusters_are_apart(api: Api) -> None:
    """The objects of another cluster do not count, and a cluster that serves no services has none."""
    find = Finder(api)
    await api.ok("POST", f"{CORE.format('a')}services", service())
    await api.ok("POST", SLICES.format("a"), endpoint_slice(9443, HERE))
    assert [await find(cluster) for cluster in ("a", "b", "c", "")] == [("10.1.2.3", 9443), None, None, None]
    await api.ok("POST", f"{CORE.format('b')}services", service())
    assert await find("b") == 'no endpoints available for service "hook"'


async def test_endpoints(api: Api) -> None:
    """Endpoints of the name of the service do as well."""
    await api.ok("POST", f"{CORE.format('a')}services", service(ports=[{"port": 443}]))
    subset = {"addresses": [{"ip": "10.1.2.3"}], "ports": [{"port": 9443}]}
    endpoints = {"apiVersion": "v1", "kind": "Endpoints", "metadata": {"name": "hook"}, "subsets": [subset]}
    await api.ok("POST", f"{CORE.format('a')}endpoints", endpoints)
    assert await Finder(api)("a") == ("10.1.2.3", 9443)


@pytest.mark.parametrize(
    "spec", [7, None, {}, {"type": "Other"}, {"ports": 7}, {"ports": [{"port": 443, "name": {}}]}, {"type": "ExternalName"}]
)
async def test_objects_that_other_software_stored(api: Api, spec: Any) -> None:
    """Malformed objects have no endpoints."""
    await api.ok("POST", f"{CORE.format('a')}services", service())
    backend = api.control_plane.backend
    resource = await backend.tables.find_resource(Name("a"), GroupResource("", "services"))
    assert resource is not None
    key = resource.keys.object_key(Name("a"), "default", "hook")
    item = await backend.access.storage.get(key)
    assert item is not None
    await backend.access.storage.transact([], [Put(key, orjson.dumps({**orjson.loads(item.value), "spec": spec}))])
    assert await Finder(api)("a") in {
        'no endpoints available for service "hook"',
        'unsupported service type "Other"',
        'no service port 443 found for service "hook"',
    }


async def test_calls(api: Api, hooks: Hooks) -> None:
    """A webhook is called where its service leads, in the networks of webhooks alone: tenants write these objects."""
    await refer(api, hooks, "a", port=hooks.server.port)
    assert await answer(api) == f'{FAILED.format(hooks.server.port)}service "hook" not found'
    services = f"{CORE.format('a')}services"
    await api.ok("POST", services, service(type="ExternalName", externalName="localhost"))
    assert await answer(api) == ASKED
    await api.ok("DELETE", f"{services}/hook")
    await api.ok("POST", services, service(ports=[{"name": "https", "port": hooks.server.port}]))
    await api.ok("POST", SLICES.format("a"), endpoint_slice(9443, HERE))
    # The connection that is kept serves until it ends.
    assert await answer(api) == ASKED
    await refer(api, hooks, "b", port=hooks.server.port)
    assert (await answer(api, "b")).endswith('service "hook" not found')
    await api.ok("POST", f"{CORE.format('b')}services", service(ports=[{"name": "https", "port": hooks.server.port}]))
    await api.ok("POST", SLICES.format("b"), endpoint_slice(9443, HERE))
    assert (await answer(api, "b")).endswith("dial tcp: 10.1.2.3 is in no network that webhooks may reach")
    assert len(hooks.asked()) == 2
