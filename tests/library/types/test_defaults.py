"""Defaults of fields as JSON."""

from __future__ import annotations

import dataclasses
import datetime as dt
import uuid
from typing import Any

import pytest
from pydantic import AnyUrl, BaseModel

from kcp_py import DefinitionError
from kcp_py.library.types.schemas import schema_of_resource


class Inner(BaseModel):
    """A part."""

    size: int = 0


def model(annotation: Any, default: Any) -> type:
    """A resource with one field in its spec."""
    spec = type("Spec", (BaseModel,), {"__annotations__": {"x": annotation}, "__module__": __name__, "x": default})
    return type("Thing", (BaseModel,), {"__annotations__": {"spec": spec}, "__module__": __name__})


@pytest.mark.parametrize(
    ("annotation", "default", "expected"),
    [
        (str, "a", "a"),
        (int, 0, 0),
        (bool, False, False),
        (list[str], [], None),
        (list[str], ["a"], ["a"]),
        (int | None, None, None),
        (bytes, b"hi", "aGk="),
        (bytes, b"", None),
        (dt.timedelta, dt.timedelta(hours=1, minutes=30), "1h30m0s"),
        (list[dt.timedelta], [dt.timedelta(milliseconds=-5)], ["-5ms"]),
        (AnyUrl, AnyUrl("https://example.com/a"), "https://example.com/a"),
        (Inner, Inner(), {}),
        (Inner, Inner(size=3), {"size": 3}),
        (dict[str, Inner], {"a": Inner(size=3)}, {"a": {"size": 3}}),
    ],
    ids=str,
)
def test_defaults(annotation: Any, default: Any, expected: Any) -> None:
    """The values of fields become defaults of the schema; None and empty collections do not, and the field is not required."""
    spec = schema_of_resource(model(annotation, default))["properties"]["spec"]
    assert spec["properties"]["x"].get("default") == expected
    assert "required" not in spec


def test_default_factories_that_differ() -> None:
    """A default of a schema is one value."""
    cls = dataclasses.make_dataclass("Thing", [("x", str, dataclasses.field(default_factory=lambda: str(uuid.uuid4())))])
    with pytest.raises(DefinitionError, match=r"Thing\.x: default_factory gives different values; set the value in the hook `default`"):
        schema_of_resource(cls)


@pytest.mark.parametrize(
    ("annotation", "default", "message"),
    [
        (dt.timedelta, dt.timedelta.max, "Thing.spec.x: the default 999999999 days, 23:59:59.999999 is longer than 292 years"),
        (list[str], [1j], r"Thing.spec.x: the default 1j has no form in JSON"),
    ],
    ids=["duration", "number"],
)
def test_defaults_without_a_form(annotation: Any, default: Any, message: str) -> None:
    """The message begins with the field."""
    with pytest.raises(DefinitionError, match=f"^{message}"):
        schema_of_resource(model(annotation, default))
