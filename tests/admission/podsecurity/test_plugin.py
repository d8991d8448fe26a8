"""Pods, templates and labels of namespaces are judged as by kube-apiserver 1.37.2."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.admission.podsecurity.levels import PREFIX
from kcp_py.admission.podsecurity.plugin import is_significant
from kcp_py.apis.upstream.crds import crds_named
from kcp_py.authn.authenticator import Credentials
from kcp_py.controlplane import ControlPlane
from kcp_py.registry.admission import AdmissionPlugin, Attributes
from kcp_py.request.user import CLUSTER_NAME_EXTRA, UserInfo
from kcp_py.server.exchange import Exchange
from tests.admission.serving import CLUSTER, CORE, pod, recorded
from tests.server.handlers.conftest import Api, established, options

pytestmark = pytest.mark.anyio

KINDS = ("pods", "runtimeclasses", "podtemplates", "replicationcontrollers", "*.apps", "*.batch")
UNSERVED = ("/ephemeralcontainers", "/eviction")
"""Subresources that clusters do not serve."""
SETTINGS = """
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    exemptions: {usernames: [trusted], namespaces: [exempt], runtimeClasses: [kata]}
"""
RESTRICTED = {f"{PREFIX}enforce": "restricted"}
PRIVILEGED_POD = pod(containers=[{"name": "c", "image": "i", "securityContext": {"privileged": True}}])

Notes = list[dict[str, str]]


def noting(notes: Notes) -> Callable[[Callable[[Exchange], Awaitable[None]]], Callable[[Exchange], Awaitable[None]]]:
    """A filter that keeps the audit annotations of each request."""

    def wrap(handler: Callable[[Exchange], Awaitable[None]]) -> Callable[[Exchange], Awaitable[None]]:
        async def call(exchange: Exchange) -> None:
            try:
                await handler(exchange)
            finally:
                notes.append({key.removeprefix(PREFIX): value for key, value in exchange.audit_annotations.items() if PREFIX in key})

        return call

    return wrap


@pytest.fixture
def notes() -> Notes:
    """The audit annotations of the requests so far, one mapping each."""
    return []


@pytest.fixture
async def api(tmp_path: Path, notes: Notes) -> AsyncIterator[Api]:
    """A server whose clusters have workloads, with exemptions."""
    file = tmp_path / "admission.yaml"
    file.write_text(SETTINGS)
    # The owners of recorded pods do not exist.
    controllers = ("*", "-garbage-collector-controller")
    settings = options(tmp_path, builtin_kinds=KINDS, admission_control_config_file=file, controllers=controllers)
    async with ControlPlane(settings, filters=[noting(notes)]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            yield Api(client, control_plane)


async def send(api: Api, method: str, path: str, obj: Any, user: str = "") -> httpx.Response:
    headers = {"Authorization": "Bearer secret"}
    if method == "PATCH":
        headers["Content-Type"] = "application/strategic-merge-patch+json"
    if user:
        headers |= {"Impersonate-User": user, "Impersonate-Group": "system:masters"}
    path, _, query = path.partition("?")
    return await api(method, CLUSTER + path, obj, headers=headers, params=dict([query.split("=")]) if query else {})


async def test_requests_are_answered_as_by_kube_apiserver(api: Api, notes: Notes) -> None:
    """Codes, messages, warnings and audit annotations of pods, templates, labels and updates, recorded in this order."""
    data = recorded("podsecurity")
    for method, path, obj in data["setup"]:
        assert (await send(api, method, path, obj)).status_code < 300, (path, obj)
    differences = []
    for case in data["cases"]:
        if case["path"].partition("?")[0].endswith(UNSERVED):
            continue
        response = await send(api, case["method"], case["path"], case["object"], case.get("user", ""))
        answer: dict[str, Any] = {"code": response.status_code}
        if response.status_code >= 300:
            answer |= {member: response.json()[member] for member in ("message", "reason")}
        if warnings := response.headers.get_list("warning"):
            answer["warnings"] = warnings
        if notes[-1]:
            answer["annotations"] = notes[-1]
        if answer != case["answer"]:
            differences.append((case["name"], answer, case["answer"]))
    assert not differences, "\n".join(map(str, differences))


class Vouched:
    """Authenticates the user `trusted` as one of a cluster's own provider, or as one of the operator."""

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        own = bool(credentials.values_of(b"x-own"))
        return UserInfo("trusted", groups=("system:masters",), extra={CLUSTER_NAME_EXTRA: ("a",)} if own else {})


async def test_users_of_a_provider_of_a_cluster_are_not_exempt(tmp_path: Path) -> None:
    """The cluster chooses their names."""
    file = tmp_path / "admission.yaml"
    file.write_text(SETTINGS)
    settings = options(tmp_path, builtin_kinds=KINDS, admission_control_config_file=file, disable_admission_plugins=("ServiceAccount",))
    async with ControlPlane(settings, authenticators=[Vouched()]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "t", "labels": RESTRICTED}})
            await api.fails(403, "POST", f"{CORE}/namespaces/t/pods", PRIVILEGED_POD, headers={"X-Own": "1"})
            await api.ok("POST", f"{CORE}/namespaces/t/pods", PRIVILEGED_POD)


async def test_clusters_have_their_own_labels(api: Api) -> None:
    """Namespaces of one name in two clusters have two levels, also one that is not stored."""
    other = "/clusters/b/api/v1"
    await api.ok("PATCH", f"{other}/namespaces/default", {"metadata": {"labels": RESTRICTED}}, headers=_merge())
    await api.ok("POST", f"{CORE}/namespaces/default/pods", PRIVILEGED_POD)
    await api.fails(403, "POST", f"{other}/namespaces/default/pods", PRIVILEGED_POD)
    await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "t", "labels": RESTRICTED}})
    await api.ok("POST", f"{other}/namespaces", {"metadata": {"name": "t"}})
    await api.fails(403, "POST", f"{CORE}/namespaces/t/pods", PRIVILEGED_POD)
    await api.ok("POST", f"{other}/namespaces/t/pods", PRIVILEGED_POD)


class Relabelling(AdmissionPlugin):
    """Changes the labels of the namespace while a pod is being written, after PodSecurity has seen it."""

    name = "Relabelling"
    operations = frozenset({"CREATE", "UPDATE"})

    def __init__(self) -> None:
        self.api: Api | None = None
        self.path = f"{CORE}/namespaces/default"

    async def validate(self, attributes: Attributes) -> None:
        if self.api is not None and attributes.resource.resource in {"pods", "deployments"}:
            api, self.api = self.api, None
            labels = {**RESTRICTED, f"{PREFIX}audit": "baseline"}
            await api.ok("PATCH", self.path, {"metadata": {"labels": labels}}, headers=_merge())


async def test_a_level_counts_for_writes_under_way(tmp_path: Path) -> None:
    """A pod that was judged by the labels before is judged again, for creates and updates, in a namespace that was not stored."""
    racing = Relabelling()
    settings = options(tmp_path, builtin_kinds=KINDS)
    async with ControlPlane(settings, admission=[racing]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            racing.api = api
            refused = await api.fails(403, "POST", f"{CORE}/namespaces/default/pods", PRIVILEGED_POD)
            assert 'violates PodSecurity "restricted:latest": privileged' in refused["message"]
            for namespace in ("u", "w"):
                await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": namespace}})
            path = f"{CORE}/namespaces/u/pods"
            await api.ok("POST", path, PRIVILEGED_POD)
            racing.api, racing.path = api, f"{CORE}/namespaces/u"
            image = {"spec": {"containers": [{"name": "c", "image": "other"}]}}
            headers = {**_merge(), "Content-Type": "application/strategic-merge-patch+json"}
            await api.fails(403, "PATCH", f"{path}/p", image, headers=headers)
            await api.ok("PATCH", f"{path}/p", {"metadata": {"labels": {"a": "b"}}}, headers=_merge())
            racing.api, racing.path = api, f"{CORE}/namespaces/w"
            template = {"metadata": {"labels": {"a": "b"}}, "spec": PRIVILEGED_POD["spec"]}
            body = {"metadata": {"name": "d"}, "spec": {"selector": {"matchLabels": {"a": "b"}}, "template": template}}
            made = await api("POST", f"{CLUSTER}/apis/apps/v1/namespaces/w/deployments", body)
            assert made.status_code == 201
            assert len([text for text in made.headers.get_list("warning") if "PodSecurity" in text]) == 1


async def test_a_cluster_with_other_pods_is_left_alone(tmp_path: Path) -> None:
    """A CRD that has the name of pods and another schema defines no pods."""
    (crd,) = deepcopy(crds_named(["pods"]))
    for version in crd["spec"]["versions"]:
        version["schema"]["openAPIV3Schema"]["properties"]["own"] = {"type": "string"}
    async with ControlPlane(options(tmp_path)) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "t", "labels": RESTRICTED}})
            await api.ok("POST", f"{CLUSTER}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
            await established(api, "a", "pods.core")
            await api.ok("POST", f"{CORE}/namespaces/t/pods", {"apiVersion": "v1", "kind": "Pod", "own": "o", **PRIVILEGED_POD})
            labels = {f"{PREFIX}enforce": "baseline"}
            await api.ok("PATCH", f"{CORE}/namespaces/t", {"metadata": {"labels": labels}}, headers=_merge())


async def test_a_namespace_that_does_not_exist_has_no_pods(tmp_path: Path) -> None:
    """Without the plugin that refuses them earlier, pods are not judged by a policy that was not chosen."""
    settings = options(tmp_path, builtin_kinds=KINDS, disable_admission_plugins=("NamespaceLifecycle", "ServiceAccount"))
    async with ControlPlane(settings) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            refused = await Api(client, control_plane).fails(500, "POST", f"{CORE}/namespaces/none/pods", pod())
            assert refused["message"] == 'Internal error occurred: failed to lookup namespace "none"'


@pytest.mark.parametrize(
    ("new", "old", "significant"),
    [
        ({"containers": [{"name": "a", "image": "i"}]}, {"containers": [{"name": "a", "image": "i"}]}, False),
        ({"containers": [{"name": "a", "image": "j"}]}, {"containers": [{"name": "a", "image": "i"}]}, True),
        ({"initContainers": [{"name": "a", "image": "j"}]}, {"initContainers": [{"name": "a", "image": "i"}]}, True),
        ({"containers": [{"name": "a"}, {"name": "b"}]}, {"containers": [{"name": "a"}]}, True),
        ({"ephemeralContainers": [{"name": "e", "image": "i"}]}, {}, True),
        ({"ephemeralContainers": [{"name": "e"}]}, {}, True),
        ({"ephemeralContainers": [{"name": "e", "image": "j"}]}, {"ephemeralContainers": [{"name": "e", "image": "i"}]}, True),
        ({"ephemeralContainers": [{"name": "e", "image": "i"}]}, {"ephemeralContainers": [{"name": "e", "image": "i"}]}, False),
        ({}, {"ephemeralContainers": [{"name": "e", "image": "i"}]}, False),
        ({"hostNetwork": True, "nodeName": "n"}, {}, False),
    ],
)
def test_updates_that_are_checked(new: dict[str, Any], old: dict[str, Any], significant: bool) -> None:  # noqa: FBT001 - a column of the table
    """Those of the number of containers and of images."""
    assert is_significant({"spec": new}, {"spec": old}) is significant


def _merge() -> dict[str, str]:
    return {"Authorization": "Bearer secret", "Content-Type": "application/merge-patch+json"}
