"""Events beyond a limit are refused as by kube-apiserver 1.37.2, in each logical cluster by itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.admission.configuration import Document
from kcp_py.admission.eventratelimit import Buckets, EventRateLimit, Limit, parse_limits
from kcp_py.controlplane import ControlPlane
from kcp_py.logicalcluster import Name
from kcp_py.options import OptionsError
from tests.server.handlers.conftest import Api, options

pytestmark = pytest.mark.anyio

HEAD = {"apiVersion": "eventratelimit.admission.k8s.io/v1alpha1", "kind": "Configuration"}
LIMITS = (Limit("Namespace", 1, 3), Limit("User", 1, 5), Limit("SourceAndObject", 1, 2, 10), Limit("Server", 1, 8))
RECORDED: list[tuple[str, str, str, str]] = [
    ("u1", "a", "pod1", ""),
    ("u1", "a", "pod1", ""),
    ("u1", "a", "pod1", "limit reached on type SourceAndObject for key kubelethPodapod1uv1"),
    ("u1", "a", "pod2", "limit reached on type Namespace for key a"),
    ("u1", "b", "pod2", ""),
    ("u1", "b", "pod3", "limit reached on type User for key u1"),
    ("u1", "c", "pod4", "limit reached on type User for key u1"),
    ("u2", "c", "pod5", ""),
    ("u3", "d", "pod6", "limit reached on type Server for key "),
    ("u1", "a", "pod1", "[{}]"),
]
"""User, namespace and object of events that were sent within a second, and the refusals. The last one reaches all limits."""
ALL = ", ".join(
    f"limit reached on type {kind} for key {key}"
    for kind, key in (("Namespace", "a"), ("User", "u1"), ("SourceAndObject", "kubelethPodapod1uv1"), ("Server", ""))
)


class Limited(EventRateLimit):
    """The plugin with limits and a clock of the test."""

    name = "Limited"


def event(name: str, namespace: str, pod: str = "pod1") -> dict[str, Any]:
    """An event about a pod."""
    involved = {"kind": "Pod", "namespace": namespace, "name": pod, "uid": "u", "apiVersion": "v1"}
    return {"metadata": {"name": name}, "involvedObject": involved, "source": {"component": "kubelet", "host": "h"}, "reason": "r"}


async def test_events_are_limited_as_by_kube_apiserver(tmp_path: Path) -> None:
    """All four types together; a dry run takes no token, and neither does another cluster or another group."""
    now = [0.0]
    plugin = Limited(LIMITS, clock=lambda: now[0])
    async with ControlPlane(options(tmp_path, require_cluster_access=False), admission=[plugin]) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            for cluster in ("x", "y"):
                for namespace in "abcd":
                    await api.ok("POST", f"/clusters/{cluster}/api/v1/namespaces", {"metadata": {"name": namespace}})
            for cluster in ("x", "y"):
                for index, (user, namespace, pod, refusal) in enumerate(RECORDED):
                    path = f"/clusters/{cluster}/api/v1/namespaces/{namespace}/events"
                    as_user = {"Impersonate-User": user, "Impersonate-Group": "system:masters", "Authorization": "Bearer secret"}
                    sent = event(f"e{index}", namespace, pod)
                    assert (await api("POST", path, sent, headers=as_user, params={"dryRun": "All"})).status_code == 201
                    answer = await api("POST", path, sent, headers=as_user)
                    if not refusal:
                        assert answer.status_code == 201, answer.text
                        continue
                    message = f"Too many requests: {refusal.format(ALL)}"
                    status = {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure", "message": message}
                    assert (answer.status_code, answer.json()) == (429, {**status, "reason": "TooManyRequests", "code": 429})
                    assert "retry-after" not in answer.headers
            now[0] = 1.0
            path = "/clusters/x/api/v1/namespaces/d/events"
            await api.ok("POST", path, event("later", "d"))
            stored = await api("PUT", f"{path}/later", event("later", "d"))
            assert (stored.status_code, stored.json()["message"]) == (429, "Too many requests: limit reached on type Server for key ")
            # Upstream limits the events of the core group alone.
            other = {"eventTime": "2024-01-01T00:00:00.000000Z", "reportingController": "a.b/c", "reportingInstance": "i"}
            sent = {"metadata": {"name": "o"}, **other, "action": "a", "reason": "r", "type": "Normal", "regarding": {"namespace": "d"}}
            await api.ok("POST", "/clusters/x/apis/events.k8s.io/v1/namespaces/d/events", sent)


async def test_the_configuration_is_read_at_the_start(tmp_path: Path) -> None:
    """The plugin is on where it is enabled, and a server does not start with a faulty configuration."""
    file = tmp_path / "admission.yaml"
    head = "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n- name: EventRateLimit\n  configuration:\n"
    kind = "    apiVersion: eventratelimit.admission.k8s.io/v1alpha1\n    kind: Configuration\n"
    body = f"{kind}    limits: [{{type: Server, qps: 1, burst: %d}}]\n"
    switches: dict[str, Any] = {"enable_admission_plugins": ("EventRateLimit",), "admission_control_config_file": file}
    file.write_text(head + body % 0)
    with pytest.raises(OptionsError, match=r"limits\[0\]\.burst: Invalid value: 0: must be positive"):
        async with ControlPlane(options(tmp_path, **switches)):
            pass
    file.write_text(head + body % 1)
    async with ControlPlane(options(tmp_path, **switches)) as control_plane:
        assert "EventRateLimit" in [plugin.name for plugin in control_plane.backend.access.admission.plugins]


def test_a_configuration_needs_limits() -> None:
    """Also where there is none at all."""
    for document in (None, Document("f", HEAD), Document("f", {**HEAD, "limits": []})):
        with pytest.raises(OptionsError, match="limits: Invalid value: null: must not be empty"):
            parse_limits(document)


def test_limits_are_validated() -> None:
    """All problems are reported, in upstream's words."""
    limits = [{"type": "Nope", "qps": 0, "burst": -3}, {"type": "User", "qps": 1, "burst": 5, "cacheSize": -1}, None]
    with pytest.raises(OptionsError) as refused:
        parse_limits(Document("f", {**HEAD, "limits": limits}))
    kinds = 'supported values: "Namespace", "Server", "SourceAndObject", "User"'
    assert str(refused.value) == (
        f'--admission-control-config-file: f: [limits[0].type: Unsupported value: "Nope": {kinds}, '
        "limits[0].burst: Invalid value: -3: must be positive, limits[0].qps: Invalid value: 0: must be positive, "
        "limits[1].cacheSize: Invalid value: -1: must not be negative, "
        f'limits[2].type: Unsupported value: "": {kinds}, '
        "limits[2].burst: Invalid value: 0: must be positive, limits[2].qps: Invalid value: 0: must be positive]"
    )


def test_buckets_are_bounded() -> None:
    """A cluster keeps the buckets that it used last, and cannot push out those of a cluster that is in use."""
    buckets = Buckets(Limit("User", 1, 1, 10), lambda: 0.0, most=20)
    a, b, c = Name("a"), Name("b"), Name("c")
    assert buckets.take(a, "k")
    assert not buckets.take(a, "k")
    for index in range(100):
        buckets.take(b, f"{index}")
    assert len(buckets) == 11
    assert not buckets.take(a, "k")
    assert buckets.take(b, "0"), "an evicted bucket is full again"
    for index in range(100):
        buckets.take(c, f"{index}" + "x" * 1000)
    assert len(buckets) <= 20
    assert not buckets.take(c, "99" + "x" * 1000)
    assert buckets.take(c, "99" + "x" * 999 + "y"), "long keys are told apart"
