"""The objects that register an aggregated API server."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import pytest

from kcp_py.aggregated.registration import Registration, group_versions, inject_ca_bundle, manifests
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource
from tests.aggregated.conftest import FOO_RESOURCE


def by_kind(registration: Registration, versions: list[tuple[str, str]] | None = None) -> dict[str, list[dict[str, Any]]]:
    found: dict[str, list[dict[str, Any]]] = {}
    for one in manifests(versions or [("hello.zeng.dev", "v1")], registration):
        found.setdefault(one["kind"], []).append(one)
    return found


def test_roles_and_services() -> None:
    """The account may ask about callers and permissions, and read the ConfigMap and namespaces."""
    found = by_kind(Registration("foo", "hello", port=8443, ca_bundle=b"PEM"))
    assert [one["roleRef"]["name"] for one in found["ClusterRoleBinding"]] == ["system:auth-delegator", "hello:foo"]
    (reader,) = found["RoleBinding"]
    assert (reader["metadata"]["namespace"], reader["roleRef"]["kind"]) == ("kube-system", "Role")
    (service,) = found["Service"]
    assert service["spec"]["selector"] == {"app": "foo"}
    assert service["spec"]["ports"][0]["targetPort"] == 8443
    (registered,) = found["APIService"]
    assert registered["metadata"]["name"] == "v1.hello.zeng.dev"
    assert base64.b64decode(registered["spec"]["caBundle"]) == b"PEM"
    assert "Deployment" not in found


def test_addresses_of_both_families() -> None:
    """Each family has a slice of its own, and the Service selects nothing."""
    found = by_kind(Registration("foo", "hello", addresses=("192.0.2.7", "2001:db8::7", "192.0.2.8")))
    slices = {one["addressType"]: [end["addresses"] for end in one["endpoints"]] for one in found["EndpointSlice"]}
    assert slices == {"IPv4": [["192.0.2.7"], ["192.0.2.8"]], "IPv6": [["2001:db8::7"]]}
    assert "selector" not in found["Service"][0]["spec"]


def test_the_first_version_is_preferred() -> None:
    """Its priority is the highest."""
    found = by_kind(Registration("foo", "hello", image="foo:1", command=("run",)), [("a.example.com", "v2"), ("a.example.com", "v1")])
    assert [one["spec"]["versionPriority"] for one in found["APIService"]] == [15, 14]
    assert found["Deployment"][0]["spec"]["template"]["spec"]["containers"][0]["command"] == ["run"]


def test_versions_of_resources() -> None:
    """Each group and version once; sources of resources have none."""
    assert group_versions([FOO_RESOURCE, FOO_RESOURCE, object()]) == [("hello.zeng.dev", "v1")]
    with pytest.raises(ValueError, match="no resources"):
        manifests([], Registration("foo", "hello"))


@pytest.mark.anyio
async def test_the_authority_is_injected(tmp_path: Path) -> None:
    """As soon as the APIService exists."""
    waits: list[float] = []
    sent: list[tuple[str, Any]] = []

    class Other:
        async def patch(self, path: str, document: Any) -> None:
            if not waits:
                raise errors.not_found(GroupResource("apiregistration.k8s.io", "apiservices"), "v1.hello.zeng.dev")
            sent.append((path, document))

    async def sleep(seconds: float) -> None:
        waits.append(seconds)

    (tmp_path / "ca.crt").write_bytes(b"PEM")
    await inject_ca_bundle(Other(), [("hello.zeng.dev", "v1")], tmp_path / "ca.crt", sleep=sleep)  # type: ignore[arg-type]
    ((path, document),) = sent
    assert waits[-1] == 5
    assert path == "/apis/apiregistration.k8s.io/v1/apiservices/v1.hello.zeng.dev"
    assert document["spec"]["caBundle"] == base64.b64encode(b"PEM").decode()
