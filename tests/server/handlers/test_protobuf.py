"""Bodies in protobuf: taken for built-in kinds and delete options, refused for custom resources."""

from __future__ import annotations

import pytest

from tests.server.handlers.conftest import Api

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
    """The stored object equals that of a JSON body."""
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
