"""Objects of Kubernetes' kinds as Go decodes and encodes them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kcp_py.apis.upstream.crds import crds_named
from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, options
from tests.server.handlers.upstreamkinds import deployment, installed

pytestmark = pytest.mark.anyio

FORMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # name -> path, created object, required part of the answer
    "APIService": (
        "apis/apiregistration.k8s.io/v1/apiservices",
        {
            "metadata": {"name": "v1.x.example.com"},
            "spec": {"group": "x.example.com", "version": "v1", "groupPriorityMinimum": 9, "versionPriority": 9},
        },
        {"status": {}},
    ),
    "CronJob": (
        "apis/batch/v1/namespaces/default/cronjobs",
        {
            "spec": {
                "schedule": "* * * * *",
                "jobTemplate": {"spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "b"}]}}}},
            }
        },
        {
            "spec": {"jobTemplate": {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": {"containers": [{"resources": {}}]}}}}},
            "status": {},
        },
    ),
    "CSINode": ("apis/storage.k8s.io/v1/csinodes", {"spec": {"drivers": None}}, {"spec": {"drivers": None}, "status": {}}),
    "DaemonSet": (
        "apis/apps/v1/namespaces/default/daemonsets",
        {"spec": deployment()["spec"]},
        {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "1"}}, "status": {"numberReady": 0}},
    ),
    "DeviceTaintRule": (
        "apis/resource.k8s.io/v1/devicetaintrules",
        {"spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": {"key": "example.com/k", "effect": "NoSchedule"}}},
        {"status": {}},
    ),
    "EndpointSlice": (
        "apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {"addressType": "IPv4"},
        {"endpoints": None, "ports": None},
    ),
    "FlowSchema": (
        "apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        {"spec": {"priorityLevelConfiguration": {"name": "p"}}},
        {"status": {}},
    ),
    "Node": ("api/v1/nodes", {}, {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {"machineID": ""}}}),
    "PodGroup": (
        "apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
        {"spec": {"schedulingPolicy": {"basic": {}}}},
        {"status": {}},
    ),
    "PriorityLevelConfiguration": (
        "apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}},
        {"status": {}},
    ),
    "ResourceClaim": (
        "apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x"}}]}}},
        {"spec": {"devices": {"requests": [{"exactly": {"allocationMode": "ExactCount", "count": 1}}]}}, "status": {}},
    ),
    "ServiceCIDR": ("apis/networking.k8s.io/v1/servicecidrs", {"spec": {"cidrs": ["10.9.0.0/16"]}}, {"status": {}}),
    "StorageVersionMigration": (
        "apis/storagemigration.k8s.io/v1/storageversionmigrations",
        {"spec": {"resource": {"group": "", "resource": "secrets"}}},
        {"spec": {"resource": {"group": ""}}, "status": {}},
    ),
    "VolumeAttachment": (
        "apis/storage.k8s.io/v1/volumeattachments",
        {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
        {"status": {"attached": False}},
    ),
}


def assert_within(expected: Any, found: Any) -> None:
    """All that is expected is found."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert name in found, name
            assert_within(value, found[name])
    elif isinstance(expected, list):
        for one, other in zip(expected, found, strict=True):
            assert_within(one, other)
    else:
        assert found == expected


def known_status(kind: str) -> Any:
    """The fields of a kind's status."""
    (crd,) = crds_named([kind])
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]


async def test_what_is_always_encoded_is_there(tmp_path):
    """Fields that Go's encoder always writes are in every answer, so that `add /status/conditions` has something to add to."""
    json_patch = {"Content-Type": "application/json-patch+json"}
    async with ControlPlane(options(tmp_path, builtin_kinds=("all",))) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            for kind, (path, body, expected) in FORMS.items():
                body.setdefault("metadata", {}).setdefault("name", "one")
                created = await api.ok("POST", f"/clusters/a/{path}?fieldManager=me", body)
                assert_within(expected, created)
                name = body["metadata"]["name"]
                assert await api.ok("GET", f"/clusters/a/{path}/{name}") == created, kind
                owned = [entry["fieldsV1"] for entry in created["metadata"].get("managedFields", ())]
                assert "." not in owned[0].get("f:spec", {}) if owned else True, kind
                if "status" in expected and "conditions" in known_status(kind):
                    patch = [{"op": "add", "path": "/status/conditions", "value": []}]
                    await api.ok("PATCH", f"/clusters/a/{path}/{name}/status", patch, headers=json_patch)


async def test_wrapped_base64(api: Api):
    """Line ends are where the tools that encode put them; they are not stored."""
    await installed(api, "apiservices")
    secrets = "/clusters/a/api/v1/namespaces/default/secrets"
    assert (await api.ok("POST", secrets, {"metadata": {"name": "s"}, "data": {"a": "YW\r\nJj\n"}}))["data"] == {"a": "YWJj"}
    maps = "/clusters/a/api/v1/namespaces/default/configmaps"
    assert (await api.ok("POST", maps, {"metadata": {"name": "m"}, "binaryData": {"a": "\nYWJj"}}))["binaryData"] == {"a": "YWJj"}
    hook = {
        "name": "a.b.c",
        "clientConfig": {"url": "https://x.example.com", "caBundle": "YW\nJj"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    hooks = "/clusters/a/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    created = await api.ok("POST", hooks, {"metadata": {"name": "w"}, "webhooks": [hook]})
    assert created["webhooks"][0]["clientConfig"]["caBundle"] == "YWJj"
    refused = await api.fails(400, "POST", secrets, {"metadata": {"name": "t"}, "data": {"a": "YW\nJ"}})
    assert refused["message"] == 'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 1'


async def test_stored_services_are_no_proxies(api: Api):
    """An APIService is an object as others: no request is passed on to the address that it names, nor to services, pods and nodes."""
    await installed(api, "apiservices", "services", "pods", "nodes")
    core = "/clusters/a/api/v1/namespaces/default"
    service = {"metadata": {"name": "one"}, "spec": {"ports": [{"port": 443}], "type": "ExternalName", "externalName": "169.254.169.254"}}
    await api.ok("POST", f"{core}/services", service)
    spec = {
        "group": "metrics.example.com",
        "version": "v1",
        "service": {"name": "one", "namespace": "default"},
        "insecureSkipTLSVerify": True,
        "groupPriorityMinimum": 1,
        "versionPriority": 1,
    }
    made = {"metadata": {"name": "v1.metrics.example.com"}, "spec": spec}
    await api.ok("POST", "/clusters/a/apis/apiregistration.k8s.io/v1/apiservices", made)
    groups = await api.ok("GET", "/clusters/a/apis")
    assert "metrics.example.com" not in [group["name"] for group in groups["groups"]]
    for path in (
        "/clusters/a/apis/metrics.example.com/v1",
        "/clusters/a/apis/metrics.example.com/v1/nodes",
        f"{core}/services/one/proxy",
        f"{core}/services/https:one:443/proxy/latest/meta-data",
        f"{core}/pods/one/proxy/x",
        f"{core}/pods/one/exec",
        f"{core}/pods/one/portforward",
        "/clusters/a/api/v1/nodes/one/proxy/logs",
        "/clusters/a/api/v1/proxy/nodes/one",
    ):
        for method in ("GET", "POST"):
            assert (await api(method, path)).status_code in {404, 405, 501, 503}, path


MICRO = "2006-01-02T15:04:05.000000Z07:00"


@pytest.mark.parametrize(
    ("time", "stored"),
    [
        pytest.param("2024-01-01T00:00:00.123456Z", "2024-01-01T00:00:00.123456Z", id="six digits"),
        pytest.param("2024-01-01T02:00:00.123456+02:00", "2024-01-01T00:00:00.123456Z", id="offset"),
        pytest.param("2024-01-01T0:00:00,123456Z", "2024-01-01T00:00:00.123456Z", id="hour of one digit and a comma"),
        pytest.param("9000-01-01T00:00:00.000001Z", "9000-01-01T00:00:00.000001Z", id="far away"),
    ],
)
async def test_micro_times(api: Api, time: str, stored: str) -> None:
    """They are stored in UTC and with all six digits."""
    leases = "/clusters/a/apis/coordination.k8s.io/v1/namespaces/default/leases"
    created = await api.ok("POST", leases, {"metadata": {"name": "a"}, "spec": {"renewTime": time}})
    assert created["spec"]["renewTime"] == stored
    assert (await api.ok("GET", f"{leases}/a"))["spec"]["renewTime"] == stored


@pytest.mark.parametrize(
    ("time", "problem"),
    [
        ("2024-01-01T00:00:00Z", f' as "{MICRO}": cannot parse "Z" as ".000000"'),
        ("2024-01-01T00:00:00.123Z", f' as "{MICRO}": cannot parse ".123Z" as ".000000"'),
        ("2024-01-01T00:00:00.123456789Z", f' as "{MICRO}": cannot parse "789Z" as "Z07:00"'),
        ("2024-01-01t00:00:00.123456Z", f' as "{MICRO}": cannot parse "t00:00:00.123456Z" as "T"'),
        ("", f' as "{MICRO}": cannot parse "" as "2006"'),
        ("2024-01-01T24:00:00.000000Z", ": hour out of range"),
    ],
)
async def test_micro_times_have_six_digits(api: Api, time: str, problem: str) -> None:
    """Others are refused in the decoder's words, in creates and patches, of leases and of events."""
    leases = "/clusters/a/apis/coordination.k8s.io/v1/namespaces/default/leases"
    await api.ok("POST", leases, {"metadata": {"name": "a"}})
    message = f'Lease in version "v1" cannot be handled as a Lease: parsing time "{time}"{problem}'
    refused = await api.fails(400, "POST", leases, {"metadata": {"name": "b"}, "spec": {"renewTime": time}})
    assert refused["message"] == message
    merge = {"Content-Type": "application/merge-patch+json"}
    assert (await api("PATCH", f"{leases}/a", {"spec": {"acquireTime": time}}, headers=merge)).status_code in {400, 422}
    events = "/clusters/a/apis/events.k8s.io/v1/namespaces/default/events"
    refused = await api.fails(400, "POST", events, {"metadata": {"name": "e"}, "eventTime": time})
    assert refused["message"] == f'Event in version "v1" cannot be handled as a Event: parsing time "{time}"{problem}'


async def test_times_that_are_not_there(api: Api) -> None:
    """A null is not a time, in both versions of events and in each field."""
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2024-01-01T00:00:00.000000Z",
        "deprecatedFirstTimestamp": None,
        "deprecatedLastTimestamp": None,
        "action": "a",
        "reason": "r",
        "type": "Normal",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "regarding": {"namespace": "default"},
    }
    created = await api.ok("POST", "/clusters/a/apis/events.k8s.io/v1/namespaces/default/events", event)
    assert (created["deprecatedFirstTimestamp"], created["deprecatedLastTimestamp"]) == (None, None)
    read = await api.ok("GET", "/clusters/a/api/v1/namespaces/default/events/e")
    assert (read["firstTimestamp"], read["lastTimestamp"]) == (None, None)


async def test_times_have_one_form(api: Api) -> None:
    """Events store UTC, with whole seconds or with microseconds, whatever offset and fraction were sent."""
    old = {
        "metadata": {"name": "old"},
        "firstTimestamp": "2026-01-01T01:00:00.5+01:00",
        "lastTimestamp": "2026-01-01T00:00:00.9Z",
        "involvedObject": {"namespace": "default"},
    }
    created = await api.ok("POST", "/clusters/a/api/v1/namespaces/default/events", old)
    assert (created["firstTimestamp"], created["lastTimestamp"]) == ("2026-01-01T00:00:00Z", "2026-01-01T00:00:00Z")
    new = {
        "metadata": {"name": "new"},
        "eventTime": "2026-01-01T01:00:00.500000+01:00",
        "series": {"count": 2, "lastObservedTime": "2026-01-01T01:00:00.500000+01:00"},
        "action": "a",
        "reason": "r",
        "type": "Normal",
        "reportingController": "example.com/c",
        "reportingInstance": "i",
        "regarding": {"namespace": "default"},
    }
    created = await api.ok("POST", "/clusters/a/apis/events.k8s.io/v1/namespaces/default/events", new)
    assert created["eventTime"] == created["series"]["lastObservedTime"] == "2026-01-01T00:00:00.500000Z"
