"""Bodies that cannot be decoded are refused in upstream's words."""

from __future__ import annotations

import pytest

from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
LONG = b'{"apiVersion": "v1", "kind": "ConfigMap", '


@pytest.mark.parametrize(
    ("body", "shown"),
    [(b"", "<empty>"), (b"{", "{"), (LONG, '{"apiVersion": "v1", "kind": " ...'), (b"[1", "5b31")],
    ids=["empty", "like JSON", "long", "unlike JSON"],
)
async def test_the_beginning_of_a_body_is_shown(api: Api, body: bytes, shown: str) -> None:
    """As it is where it begins like an object, else in hexadecimal; longer ones are cut."""
    status = await api.fails(400, "POST", MAPS, content=body, headers={"Content-Type": "application/json"})
    assert status["message"] == (
        f"the object provided is unrecognized (must be of type ConfigMap): couldn't get version/kind; "
        f"json parse error: unexpected end of JSON input ({shown})"
    )


async def test_a_kind_that_clients_do_not_know_has_to_be_said(api: Api) -> None:
    """The body is shown whole and in short."""
    status = await api.fails(400, "POST", "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters", content=b"{}")
    assert (
        status["message"] == "the object provided is unrecognized (must be of type LogicalCluster): Object 'Kind' is missing in '{}' ({})"
    )


YAML = {"Content-Type": "application/yaml"}
TWICE = b"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: one}\ndata:\n  a: b\n  a: c\n"


async def test_keys_that_stand_twice_in_yaml_are_told(api: Api) -> None:
    """With the line of the repetition: in a warning, or under Strict in the refusal; Ignore says nothing."""
    problem = 'yaml: unmarshal errors:\n  line 6: key "a" already set in map'
    status = await api.fails(400, "POST", MAPS, content=TWICE, headers=YAML, params={"fieldValidation": "Strict"})
    assert status["message"] == f'ConfigMap in version "v1" cannot be handled as a ConfigMap: strict decoding error: {problem}'
    response = await api("POST", MAPS, content=TWICE, headers=YAML)
    assert response.status_code == 201
    assert response.headers["warning"] == '299 - "line 6: key \\"a\\" already set in map"'
    assert response.json()["data"] == {"a": "c"}
    response = await api("PUT", f"{MAPS}/one", content=TWICE, headers=YAML, params={"fieldValidation": "Ignore"})
    assert (response.status_code, response.headers.get("warning")) == (200, None)
