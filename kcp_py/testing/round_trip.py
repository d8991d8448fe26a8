"""`round_trip`: whether conversions between the versions of a type lose anything.

Source: apimachinery `api/apitesting/roundtrip`, which fuzzes the types of Kubernetes in the same two directions.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import unified_diff
from typing import Any

from hypothesis import HealthCheck, given, settings

from kcp_py.library.types.conversion import converted
from kcp_py.library.types.described import TypedResource, typed_resource
from kcp_py.schema.compilation import compile_schema
from kcp_py.testing.objects import objects_of


def round_trip(cls: type, *, examples: int = 100) -> None:
    """Convert objects of each version to the hub and back, and objects of the hub to each version and back.

    Defaults of the schema are filled in on both sides, and empty lists, objects and nulls count as missing, before objects are compared.

    Args:
        cls: a class with `resource`, of any version.
        examples: how many objects are tried in each direction.

    Raises:
        AssertionError: an object has changed. The message shows the smallest one that Hypothesis finds, and the difference.
        ValueError: the type has one version only.
    """
    described = typed_resource(cls)
    hub, *spokes = described.versions
    if not spokes:
        raise ValueError(f"{hub.place} has one version only")
    for spoke in spokes:
        _check(spoke, hub, examples)
        _check(hub, spoke, examples)


def _check(source: TypedResource, middle: TypedResource, examples: int) -> None:
    compiled = compile_schema(source.schema)
    between = compile_schema(middle.schema)

    @settings(
        max_examples=examples,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=[HealthCheck.filter_too_much, HealthCheck.too_slow, HealthCheck.data_too_large],
    )
    @given(objects_of(source.schema, source.api_version, source.kind))
    def check(obj: dict[str, Any]) -> None:
        compiled.default(obj)
        there = converted(json.loads(json.dumps(obj)), source, middle)
        between.prune(there)
        between.default(there)
        back = converted(there, middle, source)
        compiled.default(back)
        before, after = _text(obj), _text(back)
        if before != after:
            lines = unified_diff(before.splitlines(), after.splitlines(), "before", "after", lineterm="", n=1)
            raise AssertionError(f"{source.place} is not the same after {middle.version} and back:\n" + "\n".join(lines))

    check()


def _text(obj: Any) -> str:
    return json.dumps(_without_empty(obj), indent=1, sort_keys=True, ensure_ascii=False)


def _without_empty(value: Any) -> Any:
    if isinstance(value, Mapping):
        members = {name: _without_empty(one) for name, one in value.items()}
        return {name: one for name, one in members.items() if one not in (None, [], {})}
    if isinstance(value, list):
        return [_without_empty(one) for one in value]
    return value
