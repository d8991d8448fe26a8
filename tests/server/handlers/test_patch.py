"""PATCH: faults of a patch or of its result, in upstream's codes and words."""

from __future__ import annotations

import asyncio

import pytest

from tests.server.handlers.conftest import Api, config_map

pytestmark = pytest.mark.anyio

MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"
MERGE = {"Content-Type": "application/merge-patch+json"}
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
STRICT = {"fieldValidation": "Strict"}


@pytest.mark.parametrize(
    ("headers", "body", "problem"),
    [
        (MERGE, b'{"more":1,"metadata":{"x":1}}', 'strict decoding error: unknown field "metadata.x", unknown field "more"'),
        (MERGE, b'{"data":{"a":"1","a":"2"}}', 'strict decoding error: duplicate field "data.a"'),
        (
            JSON_PATCH,
            b'[{"op":"add","path":"/data/q","value":"1","foo":2}]',
            'strict decoding error: json patch unknown field "[0].foo"',
        ),
        (MERGE, b'{"data":{"a":5}}', "json: cannot unmarshal number into Go struct field ConfigMap.data of type string"),
    ],
    ids=["unknown fields", "repeated keys", "unknown member of an operation", "wrong type"],
)
async def test_a_result_that_cannot_be_decoded_is_an_invalid_patch(api: Api, headers: dict[str, str], body: bytes, problem: str) -> None:
    """422 on the field `patch`, of no kind and name, with the result and the decoder's words."""
    created = await api.ok("POST", MAPS, config_map("one", data={"p": "0"}))
    status = await api.fails(422, "PATCH", f"{MAPS}/one", content=body, headers=headers, params=STRICT)
    assert status["reason"] == "Invalid"
    assert status["message"].startswith(' "" is invalid: patch: Invalid value: "{')
    assert status["message"].endswith(problem)
    assert [cause["field"] for cause in status["details"]["causes"]] == ["patch"]
    assert await api.ok("GET", f"{MAPS}/one") == created


async def test_faults_of_a_patch_are_warnings_unless_they_are_asked_to_be_refused(api: Api) -> None:
    """Without `Strict` the patch is applied; with `Ignore` there is no warning."""
    await api.ok("POST", MAPS, config_map("one"))
    body = b'{"data":{"a":"1","a":"2"},"more":1}'
    response = await api("PATCH", f"{MAPS}/one", content=body, headers=MERGE)
    assert response.json()["data"] == {"a": "2"}
    warnings = [text.replace("\\", "") for text in response.headers.get_list("warning")]
    assert warnings == ['299 - "duplicate field "data.a""', '299 - "unknown field "more""']
    response = await api("PATCH", f"{MAPS}/one", content=body, headers=MERGE, params={"fieldValidation": "Ignore"})
    assert (response.status_code, response.headers.get("warning")) == (200, None)


async def test_patches_at_once_all_come_through(api: Api) -> None:
    """Each is worked out again until it fits the latest object; one that names a version is not."""
    created = await api.ok("POST", MAPS, config_map("one"))
    answers = await asyncio.gather(*[api("PATCH", f"{MAPS}/one", {"data": {f"k{n}": "v"}}, headers=MERGE) for n in range(24)])
    assert {answer.status_code for answer in answers} == {200}
    assert len((await api.ok("GET", f"{MAPS}/one"))["data"]) == 24
    version = created["metadata"]["resourceVersion"]
    late = {"metadata": {"resourceVersion": version}, "data": {"late": "v"}}
    status = await api.fails(409, "PATCH", f"{MAPS}/one", late, headers=MERGE)
    assert status["message"].endswith("the object has been modified; please apply your changes to the latest version and try again")


async def test_patches_of_what_is_being_deleted(api: Api) -> None:
    """It can be changed as long as it is there, gets no new finalizers, and goes with the last one."""
    await api.ok("POST", MAPS, config_map("one", finalizers=["example.com/a", "example.com/b"]))
    await api.ok("DELETE", f"{MAPS}/one")
    assert (await api.ok("PATCH", f"{MAPS}/one", {"data": {"a": "1"}}, headers=MERGE))["data"] == {"a": "1"}
    more = [{"op": "add", "path": "/metadata/finalizers/-", "value": "example.com/c"}]
    status = await api.fails(422, "PATCH", f"{MAPS}/one", more, headers=JSON_PATCH)
    assert "no new finalizers can be added if the object is being deleted" in status["message"]
    left = await api.ok("PATCH", f"{MAPS}/one", {"metadata": {"$deleteFromPrimitiveList/finalizers": ["example.com/a"]}}, headers=STRATEGIC)
    assert left["metadata"]["finalizers"] == ["example.com/b"]
    await api.ok("PATCH", f"{MAPS}/one", [{"op": "remove", "path": "/metadata/finalizers"}], headers=JSON_PATCH)
    await api.fails(404, "GET", f"{MAPS}/one")
