"""The checks before an object is stored, and where they run."""

from __future__ import annotations

import threading
from dataclasses import replace
from typing import Any

import pytest

from kcp_py.aio.offload import Inline
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import FieldError, invalid, required
from kcp_py.registry.store.validation import check
from kcp_py.registry.strategy import Strategy
from kcp_py.registry.subresources import status_entry, table_of
from kcp_py.schema.compilation import compile_schema
from tests.registry.store.shelf import CONFIG_MAPS

pytestmark = pytest.mark.anyio

SCHEMA = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "required": ["n"],
            "properties": {"n": {"type": "integer", "minimum": 2}},
            "x-kubernetes-validations": [{"rule": "self.n > 5"}],
        },
        "status": {"type": "object", "properties": {"n": {"type": "integer", "maximum": 3}}},
    },
}


class GivenProblems(Strategy):
    """Reports the given problems."""

    def __init__(self, *problems: FieldError, heavy: bool = False) -> None:
        self._problems = list(problems)
        self._heavy = heavy

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:  # noqa: ARG002
        return list(self._problems)

    def is_heavy(self, obj: dict[str, Any]) -> bool:  # noqa: ARG002
        return self._heavy

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:  # noqa: ARG002
        return ["said"]


def thing(spec: dict[str, Any], **more: Any) -> dict[str, Any]:
    metadata = {"name": "x", "namespace": "default", "uid": "u", "creationTimestamp": "2026-01-01T00:00:00Z", "resourceVersion": "1"}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "spec": spec, **more}


async def said(
    obj: dict[str, Any], old: dict[str, Any] | None = None, strategy: Strategy | None = None, *, typed: bool = False, **more: Any
) -> list[str]:
    """The causes of a refusal, or the warnings of an acceptance."""
    schema = compile_schema(SCHEMA)
    subresources = table_of(status_entry(typed=typed))
    resource = replace(CONFIG_MAPS.resource, schema=schema, strategy=strategy or GivenProblems(), typed=typed, subresources=subresources)
    warnings: list[str] = []
    try:
        await check(resource, obj, old, warnings, **more)
    except StatusError as error:
        return [f"{cause['field']}: {cause['message']}" for cause in (error.details or {})["causes"]]
    return warnings


async def test_rules_come_last_and_only_on_objects_of_the_right_types() -> None:
    """An error of a value does not keep them from running; a missing field does, wherever it was missed."""
    low = "spec.n: Invalid value: 1: spec.n in body should be greater than or equal to 2"
    skipped = "<nil>: Invalid value: null: some validation rules were not checked because the object was invalid; "
    skipped += "correct the existing errors to complete validation"
    assert await said(thing({"n": 1})) == [low, "spec: Invalid value: failed rule: self.n > 5"]
    assert await said(thing({})) == ["spec.n: Required value", skipped]
    assert await said(thing({"n": 9}), strategy=GivenProblems(required("spec.m"))) == ["spec.m: Required value", skipped]
    assert await said(thing({"n": 9}), strategy=GivenProblems(invalid("spec.m", 1, "no"))) == ["spec.m: Invalid value: 1: no"]
    assert await said(thing({"n": 9})) == ["said"]


class Refusing(Strategy):
    """Reads a field that the schema requires."""

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        return [invalid("spec.n", obj["spec"]["n"] + 1, "no")]


async def test_rules_of_a_kind_see_only_objects_of_the_right_types() -> None:
    """A missing field or a wrong type is all that is reported then, unless the rules say that they take that."""
    for spec, problem in (({}, "spec.n: Required value"), ({"n": "x"}, 'spec.n: Invalid value: "string"')):
        found = await said(thing(spec), strategy=Refusing())
        assert len(found) == 2
        assert found[0].startswith(problem)
    assert "spec.n: Invalid value: 2: no" in await said(thing({"n": 1}), strategy=Refusing())
    taking = GivenProblems(invalid("a", 1, "no"))
    taking.checks_malformed = True
    assert "a: Invalid value: 1: no" in await said(thing({}), strategy=taking)


@pytest.mark.parametrize("heavy", [True, False])
async def test_a_heavy_strategy_says_the_same(*, heavy: bool) -> None:
    """In a thread or not."""
    assert await said(thing({"n": 9}), strategy=GivenProblems(invalid("a", 1, "no"), heavy=heavy)) == ["a: Invalid value: 1: no"]
    assert await said(thing({"n": 9}), strategy=GivenProblems(heavy=heavy)) == ["said"]


class Located(GivenProblems):
    """Takes note of the threads that it is asked in."""

    def __init__(self) -> None:
        super().__init__()
        self.threads: set[int] = set()

    def validate_name(self, name: str) -> list[str]:
        self.threads.add(threading.get_ident())
        return super().validate_name(name)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        self.threads.add(threading.get_ident())
        return super().validate(obj)

    def warnings(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[str]:
        self.threads.add(threading.get_ident())
        return super().warnings(obj, old)


@pytest.mark.parametrize(("size", "offloaded"), [(Inline.TRANSFORM, False), (Inline.TRANSFORM + 1, True)])
async def test_a_large_object_is_validated_in_a_thread(*, size: int, offloaded: bool) -> None:
    """By the kind's own rules, too, and its metadata: each key of a map of megabytes is looked at."""
    for old in (None, thing({"n": 8})):
        strategy = Located()
        assert await said(thing({"n": 9}), old, strategy=strategy, size=size) == ["said"]
        assert (threading.get_ident() not in strategy.threads) is offloaded
        assert len(strategy.threads) == 1


async def test_an_update_of_the_status_is_validated_by_the_schema_of_the_status() -> None:
    """Faults of the rest of the object do not count, except for CEL rules; an unchanged status may stay as it is."""
    old = thing({"n": 1}, status={"n": 9})
    problem = "status.n: Invalid value: 8: n in body should be less than or equal to 3"
    rule = "spec: Invalid value: failed rule: self.n > 5"
    assert await said(thing({"n": 1}, status={"n": 8}), old, subresource="status") == [problem]
    assert await said(thing({"n": 1}, status={"n": 9}), old, subresource="status") == [rule, "said"]
    assert await said(thing({"n": 1}, status={"n": 3}), old, subresource="status") == [rule, "said"]
    assert await said(thing({"n": 1}, status={"n": 3}), old) == [rule, "said"]


async def test_a_built_in_object_is_not_validated_again_for_its_status() -> None:
    """Its schema has a say about the status alone, as the rules of upstream's kinds have."""
    old = thing({"n": 1}, status={"n": 2})
    rule = "spec: Invalid value: failed rule: self.n > 5"
    same = {**old, "status": {"n": 3}}
    assert await said(same, old, typed=True, subresource="status") == [rule, "said"]
    problem = "status.n: Invalid value: 8: n in body should be less than or equal to 3"
    assert await said({**old, "status": {"n": 8}}, old, typed=True, subresource="status") == [problem]
    other = thing({"n": 0}, status={"n": 3})
    assert await said(other, old, typed=True, subresource="status") == [rule]
