"""Conversions that lose something are found, with the object and the difference."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from pydantic import BaseModel

from kcp_py import ObjectMeta, resource
from kcp_py.library.types.described import typed_resource
from kcp_py.schema.compilation import compile_schema
from kcp_py.testing.objects import objects_of
from kcp_py.testing.round_trip import round_trip
from tests.library.types import gotypes
from tests.library.types.test_resource import sample


def make(*, lossy: bool) -> type:
    """A type with two versions, in one of which a field is missing."""

    @resource(group="example.com", version="v2")
    class Box(BaseModel):
        metadata: ObjectMeta
        width: int = 0
        label: str | None = None

    @resource(version="v1", hub=Box)
    class BoxV1(BaseModel):
        metadata: ObjectMeta
        size: str = "0"

        def convert_to(self) -> Any:
            metadata = self.metadata
            label = metadata.annotations.pop("label", None)
            return Box(metadata=metadata, width=int(self.size) if self.size.isdecimal() else 0, label=label)

        @classmethod
        def convert_from(cls, box: Any) -> Any:
            if box.label is not None and not lossy:
                box.metadata.annotations["label"] = box.label
            return cls(metadata=box.metadata, size=str(box.width))

    return Box


def test_the_sample_loses_nothing() -> None:
    """In both directions."""
    round_trip(sample().Foo, examples=60)


def test_a_loss_is_shown() -> None:
    """The message has the version and the smallest difference."""
    with pytest.raises(AssertionError) as raised:
        round_trip(make(lossy=True))
    assert "BoxV1 is not the same after v2 and back" in str(raised.value)
    assert '- "size": ""' in str(raised.value) or '-  "size"' in str(raised.value) or '- "size"' in str(raised.value)


def test_one_version_only() -> None:
    """There is nothing to convert."""
    with pytest.raises(ValueError, match="Foo has one version only"):
        round_trip(gotypes.Foo)


@pytest.mark.parametrize("cls", [gotypes.Foo, gotypes.Machine])
def test_objects_obey_their_schema(cls: type) -> None:
    """Whatever the schema consists of."""
    described = typed_resource(cls)
    compiled = compile_schema(described.schema)
    seen = []

    @settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
    @given(objects_of(described.schema, described.api_version, described.kind))
    def check(obj: dict[str, Any]) -> None:
        assert not compiled.validate(obj)
        seen.append(obj)

    check()
    assert any(set(obj) - {"apiVersion", "kind", "metadata"} for obj in seen)
