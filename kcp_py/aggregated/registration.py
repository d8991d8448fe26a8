"""The objects that register an aggregated API server: APIService, Service, roles. Pure, but for the injection of the authority."""

from __future__ import annotations

import asyncio
import base64
import ipaddress
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import structlog

from kcp_py.aggregated.delegate import Delegate
from kcp_py.apimachinery.errors import StatusError

_GROUP_PRIORITY: Final = 1000
"""As upstream's sample: behind the groups of kube-apiserver."""
_RETRY_SECONDS: Final = 5.0
_FILE_SECONDS: Final = 0.2

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.aggregated")


class Registration(NamedTuple):
    """Where an aggregated API server runs."""

    service: str
    namespace: str
    port: int = 443
    """Of the server, behind the Service, which has 443."""
    addresses: tuple[str, ...] = ()
    """IP addresses of servers outside of the cluster; empty for pods with the label `app`."""
    host: str = ""
    """DNS name of a server outside of the cluster, instead of addresses. kube-apiserver connects to `port` itself."""
    ca_bundle: bytes | None = None
    """PEM; None for an authority that the server injects when it runs."""
    image: str = ""
    """Of a Deployment; empty for none."""
    command: tuple[str, ...] = ()
    """Of the container."""


def group_versions(apis: Sequence[object]) -> list[tuple[str, str]]:
    """The API groups and versions of resources, in order, each once. Sources of resources of some clusters have none."""
    found: dict[tuple[str, str], None] = {}
    for api in apis:
        group = getattr(api, "group", "")
        for version in (getattr(api, "version", ""), *(one.version for one in getattr(api, "versions", ()))):
            if group and version:
                found[group, version] = None
    return list(found)


def manifests(versions: Sequence[tuple[str, str]], registration: Registration) -> list[dict[str, Any]]:
    """The objects, in the order in which they can be applied.

    Raises:
        ValueError: there is nothing to register.
    """
    if not versions:
        raise ValueError("there are no resources to register")
    service, namespace = registration.service, registration.namespace
    account = {"kind": "ServiceAccount", "name": service, "namespace": namespace}
    names = [f"{version}.{group}" for group, version in versions]
    found: list[dict[str, Any]] = [
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}},
        {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": service, "namespace": namespace}},
        _binding(f"{namespace}:{service}:auth-delegator", "system:auth-delegator", account),
        {
            **_binding(f"{service}-authentication-reader", "extension-apiserver-authentication-reader", account, kind="Role"),
            "kind": "RoleBinding",
            "metadata": {"name": f"{namespace}-{service}-authentication-reader", "namespace": "kube-system"},
        },
        {
            "apiVersion": "rbac.authorization.k8s.io/v1",
            "kind": "ClusterRole",
            "metadata": {"name": f"{namespace}:{service}"},
            "rules": [
                {"apiGroups": [""], "resources": ["namespaces"], "verbs": ["get", "list", "watch"]},
                {"apiGroups": ["apiregistration.k8s.io"], "resources": ["apiservices"], "resourceNames": names, "verbs": ["get", "patch"]},
            ],
        },
        _binding(f"{namespace}:{service}", f"{namespace}:{service}", account),
        *_network(registration),
    ]
    if registration.image:
        found.append(_deployment(registration))
    return [*found, *(_api_service(group, version, registration, index) for index, (group, version) in enumerate(versions))]


async def inject_ca_bundle(
    delegate: Delegate, versions: Sequence[tuple[str, str]], file: Path, *, sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
) -> None:
    """Write the authority of the serving certificate into the APIServices, as soon as they exist.

    Args:
        delegate: has the APIServices.
        versions: groups and versions.
        file: with the authority (PEM).
        sleep: waits between tries; replaced in tests.
    """
    while not file.exists():  # noqa: ASYNC240 - a look at a local file, a few times
        # The server makes it at its first start.
        await sleep(_FILE_SECONDS)
    pem = base64.b64encode(await asyncio.to_thread(file.read_bytes)).decode()
    waiting = [f"{version}.{group}" for group, version in versions]
    while waiting:
        for name in list(waiting):
            document = {"spec": {"caBundle": pem, "insecureSkipTLSVerify": False}}
            try:
                await delegate.patch(f"/apis/apiregistration.k8s.io/v1/apiservices/{name}", document)
            except StatusError as error:
                _log.warning("ca_bundle_not_injected", apiservice=name, error=error.message)
            else:
                _log.info("ca_bundle_injected", apiservice=name)
                waiting.remove(name)
        if waiting:
            await sleep(_RETRY_SECONDS)


def _binding(name: str, role: str, account: dict[str, str], *, kind: str = "ClusterRole") -> dict[str, Any]:
    return {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRoleBinding",
        "metadata": {"name": name},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": role},
        "subjects": [account],
    }


def _network(registration: Registration) -> list[dict[str, Any]]:
    metadata = {"name": registration.service, "namespace": registration.namespace}
    port = {"name": "https", "port": 443, "protocol": "TCP", "targetPort": registration.port}
    service: dict[str, Any] = {"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {"ports": [port]}}
    if registration.host:
        return [{**service, "spec": {"type": "ExternalName", "externalName": registration.host}}]
    if not registration.addresses:
        service["spec"]["selector"] = {"app": registration.service}
        return [service]
    by_family: dict[str, list[str]] = {}
    for address in registration.addresses:
        by_family.setdefault(f"IPv{ipaddress.ip_address(address).version}", []).append(address)
    slices = [
        {
            "apiVersion": "discovery.k8s.io/v1",
            "kind": "EndpointSlice",
            "metadata": {
                "name": f"{registration.service}-{family.lower()}",
                "namespace": registration.namespace,
                "labels": {"kubernetes.io/service-name": registration.service},
            },
            "addressType": family,
            "ports": [{"name": "https", "port": registration.port, "protocol": "TCP"}],
            "endpoints": [{"addresses": [address], "conditions": {"ready": True}} for address in addresses],
        }
        for family, addresses in by_family.items()
    ]
    return [service, *slices]


def _deployment(registration: Registration) -> dict[str, Any]:
    service, port = registration.service, registration.port
    probe = {"httpGet": {"path": "/readyz", "port": port, "scheme": "HTTPS"}}
    container: dict[str, Any] = {
        "name": "server",
        "image": registration.image,
        "ports": [{"name": "https", "containerPort": port}],
        "readinessProbe": probe,
        "livenessProbe": {"httpGet": {**probe["httpGet"], "path": "/livez"}},
        "volumeMounts": [{"name": "data", "mountPath": "/data"}],
    }
    if registration.command:
        container["command"] = list(registration.command)
    pod = {"serviceAccountName": service, "containers": [container], "volumes": [{"name": "data", "emptyDir": {}}]}
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": service, "namespace": registration.namespace},
        "spec": {
            # The store is embedded in the server.
            "replicas": 1,
            "strategy": {"type": "Recreate"},
            "selector": {"matchLabels": {"app": service}},
            "template": {"metadata": {"labels": {"app": service}}, "spec": pod},
        },
    }


def _api_service(group: str, version: str, registration: Registration, index: int) -> dict[str, Any]:
    port = registration.port if registration.host else 443
    spec: dict[str, Any] = {
        "group": group,
        "version": version,
        "groupPriorityMinimum": _GROUP_PRIORITY,
        # The first version that is served is the preferred one.
        "versionPriority": max(1, 15 - index),
        "service": {"name": registration.service, "namespace": registration.namespace, "port": port},
    }
    if registration.ca_bundle is not None:
        spec["caBundle"] = base64.b64encode(registration.ca_bundle).decode()
    return {"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService", "metadata": {"name": f"{version}.{group}"}, "spec": spec}
