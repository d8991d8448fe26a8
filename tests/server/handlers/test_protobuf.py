"""Bodies in protobuf: taken for built-in kinds and delete options, refused for custom resources."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kcp_py.bootstrap.known_crds import definitions_named
from tests.server.handlers.conftest import Api
from tests.server.handlers.widgets import install

pytestmark = pytest.mark.anyio
PROTOBUF = {"Content-Type": "application/vnd.kubernetes.protobuf", "Accept": "application/json"}
CONFIG_MAPS = "/clusters/root/api/v1/namespaces/default/configmaps"
LISTED = "application/json, application/yaml"


def framed(number: int, content: bytes) -> bytes:
    """A short field with a length before it."""
    return bytes([number << 3 | 2, len(content)]) + content


def body(api_version: str, kind: str, message: bytes) -> bytes:
    """A message in its envelope."""
    types = framed(1, api_version.encode()) + framed(2, kind.encode())
    return b"k8s\0" + framed(1, types) + framed(2, message)


def config_map(name: str, key: str, value: str) -> bytes:
    return body("v1", "ConfigMap", framed(1, framed(1, name.encode())) + framed(2, framed(1, key.encode()) + framed(2, value.encode())))


async def test_creates_and_updates(api: Api) -> None:
    """What is stored is what a JSON body would have stored."""
    created = await api("POST", CONFIG_MAPS, content=config_map("a", "k", "v"), headers=PROTOBUF)
    assert (created.status_code, created.headers["content-type"]) == (201, "application/json")
    assert (created.json()["kind"], created.json()["data"]) == ("ConfigMap", {"k": "v"})
    updated = await api.ok("PUT", f"{CONFIG_MAPS}/a", content=config_map("a", "k", "w"), headers=PROTOBUF)
    assert updated["data"] == {"k": "w"}
    assert updated["metadata"]["uid"] == created.json()["metadata"]["uid"]


async def test_delete_options(api: Api) -> None:
    """Preconditions in protobuf hold, for custom resources as well."""
    await api.ok("POST", CONFIG_MAPS, content=config_map("a", "k", "v"), headers=PROTOBUF)
    other = body("v1", "DeleteOptions", framed(2, framed(1, b"other-uid")))
    assert (await api.fails(409, "DELETE", f"{CONFIG_MAPS}/a", content=other, headers=PROTOBUF))["reason"] == "Conflict"
    await api.fails(400, "DELETE", f"{CONFIG_MAPS}/a", content=config_map("a", "k", "v"), headers=PROTOBUF)
    await api.fails(400, "DELETE", f"{CONFIG_MAPS}/a", content=b"k8s\0\x12\x09", headers=PROTOBUF)
    await api.ok("DELETE", f"{CONFIG_MAPS}/a", content=body("v1", "DeleteOptions", b""), headers=PROTOBUF)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"{}", "the object provided is unrecognized (must be of type ConfigMap): provided data does not appear to be a protobuf message"),
        (body("v1", "ConfigMap", b"\x0a\x09"), 'ConfigMap in version "v1" cannot be handled as a ConfigMap: unexpected EOF'),
        (body("v1", "Secret", b""), 'Secret in version "v1" cannot be handled as a ConfigMap'),
        (body("v2", "ConfigMap", b""), "the API version in the data (v2) does not match the expected API version (v1)"),
    ],
)
async def test_malformed_bodies(api: Api, content: bytes, problem: str) -> None:
    """400 with upstream's words."""
    status = await api.fails(400, "POST", CONFIG_MAPS, content=content, headers=PROTOBUF)
    assert status["reason"] == "BadRequest"
    assert status["message"].startswith(problem)


async def test_media_types_that_would_do(api: Api) -> None:
    """415 names protobuf for built-in kinds, and does not offer it where it was refused."""
    status = await api.fails(415, "POST", CONFIG_MAPS, content=b"x", headers={"Content-Type": "text/plain"})
    assert status["message"].endswith(f"accepted media types include: {LISTED}, application/vnd.kubernetes.protobuf")
    # No client has this kind compiled in: it is served as custom resources are.
    path = "/clusters/root/apis/core.kcp.io/v1alpha1/logicalclusters"
    status = await api.fails(415, "POST", path, content=body("core.kcp.io/v1alpha1", "LogicalCluster", b""), headers=PROTOBUF)
    assert status["message"].endswith(f"accepted media types include: {LISTED}")


ANSWERED: Mapping[str, str] = {"Accept": "application/vnd.kubernetes.protobuf"}
EITHER: Mapping[str, str] = {"Accept": "application/vnd.kubernetes.protobuf,application/json"}
SERVICES = "/clusters/a/api/v1/namespaces/default/services"


async def own_services(api: Api) -> None:
    """A tenant's kind with the name of Services, and an object that no Service is like."""
    (crd,) = definitions_named(["services"])
    crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    del crd["spec"]["versions"][0]["selectableFields"]
    await install(api, crd, "a")
    await api.ok("POST", SERVICES, {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "odd"}, "spec": "text"})


@pytest.mark.parametrize("path", [SERVICES, f"{SERVICES}/odd", "/clusters/a/api/v1/services", f"{SERVICES}?watch=true&timeoutSeconds=1"])
async def test_a_tenants_kind_with_a_known_name_is_answered_in_json(api: Api, path: str) -> None:
    """It is offered in protobuf as little as any custom resource: JSON where the client takes that, else 406."""
    await own_services(api)
    answer = await api("GET", path, headers=EITHER)
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/json")
    assert '"spec":"text"' in answer.text
    assert (await api("GET", path, headers=ANSWERED)).status_code == 406


async def test_a_tenants_kind_with_a_known_name_leaves_the_wildcard_alone(api: Api) -> None:
    """Over all clusters its objects are left out of protobuf with a warning; its single object is 406."""
    await own_services(api)
    await install(api, definitions_named(["services"])[0], "b")
    await api.ok("POST", SERVICES.replace("/a/", "/b/"), {"metadata": {"name": "plain"}, "spec": {"ports": [{"port": 80}]}})
    listed = await api("GET", "/clusters/*/api/v1/services", headers=ANSWERED)
    assert listed.status_code == 200
    assert b"plain" in listed.content
    assert b"odd" not in listed.content
    assert "cluster a are left out" in listed.headers["warning"]
    watched = await api("GET", "/clusters/*/api/v1/services?watch=true&timeoutSeconds=1", headers=ANSWERED)
    assert watched.status_code == 200
    assert b"plain" in watched.content
    assert (await api("GET", "/clusters/*/api/v1/namespaces/default/services/odd", headers=ANSWERED)).status_code == 406
