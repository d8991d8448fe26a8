"""Custom resources in YAML: every answer except streams can be YAML, and so can bodies with whole objects."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.server.handlers.conftest import Api, instance, make_crd
from tests.server.handlers.widgets import MERGE, WIDGETS, install

pytestmark = pytest.mark.anyio

YAML = {"Accept": "application/yaml", "Content-Type": "application/yaml"}
ONE = f"{WIDGETS}/one"


async def answered(api: Api, code: int, method: str, path: str, body: Any = None, **headers: str) -> Any:
    content = None if body is None else yaml.safe_dump(body).encode()
    response = await api(method, path, content=content, headers={**YAML, **headers})
    assert response.status_code == code, response.text
    assert response.headers["content-type"] == "application/yaml"
    return yaml.safe_load(response.text)


async def installed(api: Api) -> None:
    scale = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await install(api, make_crd(schema=schema, subresources={"status": {}, "scale": scale}))


async def test_the_life_of_an_object(api: Api) -> None:
    """Created, read, listed, updated, scaled, reported on and deleted in YAML, it is the object that JSON shows."""
    await installed(api)
    created = await answered(api, 201, "POST", WIDGETS, instance("one", spec={"replicas": 2, "text": "yes"}))
    assert created == await api.ok("GET", ONE) == await answered(api, 200, "GET", ONE)
    listed = await answered(api, 200, "GET", WIDGETS)
    assert (listed["kind"], listed["items"]) == ("WidgetList", [created])
    updated = await answered(api, 200, "PUT", ONE, {**created, "spec": {"replicas": 3}})
    assert updated["spec"] == {"replicas": 3}
    reported = await answered(api, 200, "PUT", f"{ONE}/status", {**updated, "status": {"replicas": 1}})
    assert reported["status"] == {"replicas": 1}
    scale = await answered(api, 200, "GET", f"{ONE}/scale")
    assert (await answered(api, 200, "PUT", f"{ONE}/scale", {**scale, "spec": {"replicas": 4}}))["spec"] == {"replicas": 4}
    deleted = await answered(api, 200, "DELETE", ONE)
    assert (deleted["kind"], deleted["status"]) == ("Status", "Success")


async def test_discovery_and_errors(api: Api) -> None:
    """Objects and errors."""
    await installed(api)
    resources = await answered(api, 200, "GET", "/clusters/a/apis/example.com/v1")
    assert [entry["name"] for entry in resources["resources"]] == ["widgets", "widgets/status", "widgets/scale"]
    status = await answered(api, 404, "GET", ONE)
    assert (status["kind"], status["reason"]) == ("Status", "NotFound")


@pytest.mark.parametrize("kind", ["application/yaml", "application/cbor"])
@pytest.mark.parametrize("subresource", ["", "/status", "/scale"])
async def test_patches_have_types_of_their_own(api: Api, subresource: str, kind: str) -> None:
    """415, told in YAML."""
    await installed(api)
    await api.ok("POST", WIDGETS, instance("one", spec={"replicas": 2}))
    status = await answered(api, 415, "PATCH", f"{ONE}{subresource}", {}, **{"Content-Type": kind})
    assert status["reason"] == "UnsupportedMediaType"
    patched = await api("PATCH", f"{ONE}{subresource}", {}, headers={**MERGE, "Accept": "application/yaml"})
    assert yaml.safe_load(patched.text)["metadata"]["name"] == "one"


async def test_there_is_no_stream_of_yaml(api: Api) -> None:
    """406, told in YAML."""
    await installed(api)
    status = await answered(api, 406, "GET", f"{WIDGETS}?watch=true")
    assert (status["reason"], status["code"]) == ("NotAcceptable", 406)


@pytest.mark.parametrize("subresource", ["", "/status", "/scale"])
async def test_cbor_is_not_served(api: Api, subresource: str) -> None:
    """406 where it is asked for, 415 where it is sent, as upstream without its feature gate."""
    await installed(api)
    await api.ok("POST", WIDGETS, instance("one", spec={"replicas": 2}))
    status = await api.fails(406, "GET", f"{ONE}{subresource}", headers={"Accept": "application/cbor"})
    assert status["reason"] == "NotAcceptable"
    status = await api.fails(415, "PUT", f"{ONE}{subresource}", content=b"\xd9\xd9\xf7\xa0", headers={"Content-Type": "application/cbor"})
    assert status["reason"] == "UnsupportedMediaType"
