"""CEL rules and ratcheting as clients see them: on create, update and `/status`, and when definitions are written."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py import Attributes, ControlPlane
from tests.server.handlers.conftest import Api, instance, make_crd, options
from tests.server.handlers.widgets import CRDS, SCHEMA, WIDGETS, change_schema, install

pytestmark = pytest.mark.anyio

INTEGER = {"type": "integer"}


def rule(text: str, **more: Any) -> list[dict[str, Any]]:
    return [{"rule": text, **more}]


def spec_with(rules: list[dict[str, Any]], **properties: Mapping[str, Any]) -> dict[str, Any]:
    spec = {"type": "object", "properties": properties, "x-kubernetes-validations": rules}
    status = {"type": "object", "properties": {"n": INTEGER}, "x-kubernetes-validations": rule("self.n < 5", message="n too large")}
    return {"type": "object", "properties": {"spec": spec, "status": status}}


def warnings_of(response: httpx.Response) -> list[str]:
    return [warning.removeprefix('299 - "').removesuffix('"') for warning in response.headers.get_list("warning")]


async def test_rules_judge_creates_updates_and_status(api: Api) -> None:
    """422 with a cause for each rule; transition rules begin with the second write; `/status` is judged by all rules."""
    rules = [*rule("self.low <= self.high", message="low above high", fieldPath=".low"), *rule("self.high >= oldSelf.high")]
    await install(api, make_crd(schema=spec_with(rules, low=INTEGER, high=INTEGER)))
    status = await api.fails(422, "POST", WIDGETS, instance("one", spec={"low": 2, "high": 1}))
    assert status["message"] == 'Widget.example.com "one" is invalid: spec.low: Invalid value: low above high'
    assert status["details"]["causes"] == [{"reason": "FieldValueInvalid", "message": "Invalid value: low above high", "field": "spec.low"}]
    created = await api.ok("POST", WIDGETS, instance("one", spec={"low": 1, "high": 2}))
    status = await api.fails(422, "PUT", f"{WIDGETS}/one", {**created, "spec": {"low": 1, "high": 1}})
    assert status["message"].endswith("spec: Invalid value: failed rule: self.high >= oldSelf.high")
    status = await api.fails(422, "PUT", f"{WIDGETS}/one/status", {**created, "status": {"n": 9}})
    assert status["message"].endswith("status: Invalid value: n too large")
    await api.ok("PUT", f"{WIDGETS}/one/status", {**created, "status": {"n": 4}})


async def test_rules_wait_for_an_object_of_the_right_types(api: Api) -> None:
    """Missing fields and wrong types are reported first, with a note that rules were not run."""
    await install(api, make_crd(schema=spec_with(rule("self.n > 1"), n=INTEGER)))
    status = await api.fails(422, "POST", WIDGETS, instance("one", spec={"n": "x"}))
    assert status["details"]["causes"][-1] == {
        "reason": "FieldValueInvalid",
        "message": "Invalid value: null: some validation rules were not checked because the object was invalid; "
        "correct the existing errors to complete validation",
        "field": "<nil>",
    }


async def test_what_did_not_change_may_stay_invalid(api: Api) -> None:
    """A schema that becomes stricter refuses only what changes; a rule that no longer holds becomes a warning."""
    await install(api, make_crd(schema=spec_with([], n=INTEGER, m=INTEGER)))
    created = await api.ok("POST", WIDGETS, instance("one", spec={"n": 1, "m": 1}))
    strict = spec_with([], n={**INTEGER, "minimum": 5}, m={**INTEGER, "x-kubernetes-validations": rule("self > 5")})
    await change_schema(api, strict)
    await api.fails(422, "POST", WIDGETS, instance("two", spec={"n": 1, "m": 1}))
    response = await api("PUT", f"{WIDGETS}/one", {**created, "metadata": {**created["metadata"], "labels": {"a": "b"}}})
    assert response.status_code == 200, response.text
    assert warnings_of(response) == ["spec.m: Invalid value: 1: failed rule: self > 5"]
    changed = response.json()
    status = await api.fails(422, "PUT", f"{WIDGETS}/one", {**changed, "spec": {"n": 2, "m": 1}})
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.n"]
    status = await api.fails(422, "PUT", f"{WIDGETS}/one", {**changed, "spec": {"n": 1, "m": 2}})
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.m"]
    await api.ok("PUT", f"{WIDGETS}/one/status", {**changed, "status": {"n": 1}})


async def test_the_rules_of_a_definition_are_judged_when_it_is_written(api: Api) -> None:
    """What does not compile, and what may cost too much, is refused with the place of the rule."""
    path = f"/clusters/a{CRDS}"
    status = await api.fails(422, "POST", path, make_crd(schema=spec_with(rule("self.missing > 1"), n=INTEGER)))
    field = "spec.validation.openAPIV3Schema.properties[spec].x-kubernetes-validations[0].rule"
    assert [cause["field"] for cause in status["details"]["causes"]] == [field]
    assert "compilation failed: ERROR: <input>:1:5: undefined field 'missing'\n | self.missing > 1\n | ....^" in status["message"]
    names = {"type": "array", "items": {"type": "string"}}
    status = await api.fails(
        422, "POST", path, make_crd(schema=spec_with(rule("self.names.all(x, self.names.all(y, x == y))"), names=names))
    )
    causes = status["details"]["causes"]
    assert [cause["reason"] for cause in causes] == ["FieldValueForbidden"] * 3
    assert "estimated rule cost exceeds budget by factor of more than 100x" in causes[0]["message"]
    assert "contributed to estimated rule cost total exceeding cost limit" in causes[1]["message"]
    assert causes[2]["field"] == "spec.validation.openAPIV3Schema"


async def test_an_object_may_cost_so_much_and_no_more(api: Api) -> None:
    """A rule that costs more than it may on an object refuses the object, away from the event loop."""
    names = {"type": "array", "maxItems": 500, "items": {"type": "string", "maxLength": 8}}
    rules = rule("self.names.all(x, self.names.all(y, size(x) + size(y) > 0))")
    await install(api, make_crd(schema=spec_with(rules, names=names)))
    status = await api.fails(422, "POST", WIDGETS, instance("one", spec={"names": [f"name-{index}" for index in range(500)]}))
    assert "call cost exceeds limit for rule" in status["message"]
    await api.ok("POST", WIDGETS, instance("two", spec={"names": ["a"] * 100}))


async def test_many_rules_run_beside_the_event_loop_the_first_time(api: Api) -> None:
    """All of them judge the first object as they do the second."""
    rules = [{"rule": f"self.n != {index}", "message": f"not {index}"} for index in range(40)]
    await install(api, make_crd(schema=spec_with(rules, n=INTEGER)))
    for _ in range(2):
        status = await api.fails(422, "POST", WIDGETS, instance("one", spec={"n": 7}))
        assert status["message"].endswith("spec: Invalid value: not 7")
    await api.ok("POST", WIDGETS, instance("one", spec={"n": 40}))


HEAVY_PATTERN = "(((a*)*)*){1000}"
TOO_LONG = "pattern takes too long to be searched for in texts of this length"


async def test_a_pattern_that_takes_long_to_compile_is_refused(api: Api) -> None:
    """It would hold all clusters up for many seconds: 300 kB of Unicode classes."""
    schema = {"type": "object", "properties": {"spec": {"type": "string", "pattern": "\\pL" * 100_000}}}
    status = await api.fails(422, "POST", CRDS, make_crd(schema=schema))
    assert "expression too large" in status["details"]["causes"][0]["message"]


async def test_a_pattern_that_takes_long_to_be_searched_for_is_refused(api: Api) -> None:
    """Everything but short texts would take minutes, in which no other large object could be looked at."""
    schema = {"type": "object", "properties": {"spec": {"type": "string", "pattern": HEAVY_PATTERN}}}
    await install(api, make_crd(schema=schema))
    await api.ok("POST", WIDGETS, instance("short", spec="a" * 100))
    status = await api.fails(422, "POST", WIDGETS, instance("long", spec="a" * 1_000_000))
    assert [cause["message"] for cause in status["details"]["causes"]] == [f'Invalid value: "": {TOO_LONG}']


@pytest.mark.parametrize(
    ("text", "value"),
    [
        pytest.param(f"self.text.matches('{HEAVY_PATTERN}')", {"text": "a" * 1_000_000}, id="search"),
        pytest.param("self.text.findAll('a*b|a').size() > 0", {"text": "a" * 400_000}, id="all matches"),
        pytest.param(
            "self.patterns.all(x, 'aab'.matches(x))",
            {"text": "a", "patterns": [f".{{0,1000}}.{{0,1000}}.{{0,1000}}.{{0,{number}}}" for number in range(200)]},
            id="compilation",
        ),
    ],
)
async def test_searches_of_rules_cost_what_they_take(api: Api, text: str, value: dict[str, Any]) -> None:
    """Where upstream's cost is too small for the work, the rule ends as one that costs too much."""
    patterns = {"type": "array", "maxItems": 200, "items": {"type": "string", "maxLength": 100}}
    string = {"type": "string", "maxLength": 1_000_000}
    await install(api, make_crd(schema=spec_with(rule(text), text=string, patterns=patterns)))
    await api.ok("POST", WIDGETS, instance("small", spec={"text": "aab", "patterns": ["^a", "b$"]}))
    status = await api.fails(422, "POST", WIDGETS, instance("large", spec=value))
    assert "call cost exceeds limit for rule" in status["message"]


async def test_many_patterns_that_take_long_to_compile_are_refused(api: Api) -> None:
    """Each of them would do; together they would hold all clusters up for fifteen seconds."""
    properties = {f"p{number}": {"type": "string", "pattern": rf"\pL{{100}}a{{{number}}}"} for number in range(300)}
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    status = await api.fails(422, "POST", CRDS, make_crd(schema=schema))
    assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.versions"]


async def test_what_plugins_make_of_a_valid_object_is_validated(tmp_path: Path) -> None:
    """An update whose body was found to be valid is judged again where a plugin has changed it."""
    control_plane = ControlPlane(options(tmp_path))

    @control_plane.mutating("*", operations=["UPDATE"])
    def break_it(attributes: Attributes) -> None:
        obj = attributes.obj
        if obj is not None and obj["kind"] == "Widget":
            obj["spec"]["size"] -= 5

    async with control_plane, httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test") as client:
        api = Api(client, control_plane)
        await install(api)
        created = await api.ok("POST", WIDGETS, instance("one", spec={"size": 1, "color": "red"}))
        assert (await api.ok("PUT", f"{WIDGETS}/one", {**created, "spec": {"size": 7, "color": "red"}}))["spec"]["size"] == 2
        current = await api.ok("GET", f"{WIDGETS}/one")
        status = await api.fails(422, "PUT", f"{WIDGETS}/one", {**current, "spec": {"size": 4, "color": "red"}})
        assert [cause["field"] for cause in status["details"]["causes"]] == ["spec.size"]


async def test_a_status_that_became_invalid_does_not_prevent_updates(api: Api) -> None:
    """It stays as it is, whether or not the body of the update needs defaults and has a valid status of its own."""
    await install(api)
    current = await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}))
    path = f"{WIDGETS}/one"
    current = await api.ok("PUT", f"{path}/status", {**current, "status": {"ready": 3}})
    status = {"type": "object", "required": ["phase"], "properties": {"ready": {"type": "integer"}, "phase": {"type": "string"}}}
    await change_schema(api, {**SCHEMA, "properties": {**SCHEMA["properties"], "status": status}})
    for spec in ({"size": 2, "color": "red"}, {"size": 3}):
        current = await api.ok("PUT", path, {**current, "spec": spec, "status": {"phase": "fine"}})
        assert current["spec"] == {"color": "red", **spec}
        assert current["status"] == {"ready": 3}


@pytest.mark.parametrize(
    ("spec", "wrong"),
    [
        ({"size": 11, "color": "red"}, "spec.size"),
        ({"size": 1.5, "color": "red"}, "spec.size"),
        ({"size": True, "color": "red"}, "spec.size"),
        ({"size": 1, "color": "green"}, "spec.color"),
        ({"color": "red"}, "spec.size"),
        ({"size": 1, "color": "red", "parts": [{"count": "1"}]}, "spec.parts[0].count"),
    ],
)
async def test_updates_are_held_to_the_schema(api: Api, spec: Mapping[str, Any], wrong: str) -> None:
    """422 with the field, and the object stays as it was."""
    await install(api)
    created = await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}))
    status = await api.fails(422, "PUT", f"{WIDGETS}/one", {**created, "spec": spec})
    assert status["details"]["causes"][0]["field"] == wrong
    assert await api.ok("GET", f"{WIDGETS}/one") == created


async def test_updates_drop_and_fill_in_fields(api: Api) -> None:
    """Unknown fields are dropped with a warning or refused. Missing fields and nulls are filled in."""
    await install(api)
    created = await api.ok("POST", WIDGETS, instance("one", spec={"size": 1}))
    path = f"{WIDGETS}/one"
    body = {**created, "spec": {"size": 2, "color": "red", "parts": [{"count": 2, "odd": 1}]}}
    await api.fails(400, "PUT", path, body, params={"fieldValidation": "Strict"})
    response = await api("PUT", path, body)
    assert warnings_of(response) == ['unknown field \\"spec.parts[0].odd\\"']
    changed = response.json()
    assert changed["spec"] == {"size": 2, "color": "red", "parts": [{"count": 2}]}
    specs: tuple[dict[str, Any], ...] = {"size": 3, "color": None, "parts": [{}]}, {"size": 3.0, "parts": [{"count": None}]}
    for spec in specs:
        changed = await api.ok("PUT", path, {**changed, "spec": spec})
        assert changed["spec"] == {"size": 3, "color": "red", "parts": [{"count": 1}]}
