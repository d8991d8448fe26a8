"""Constraints of fields in their schemas."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import pytest
from pydantic import Field

from kcp_py import DefinitionError, Rule, Schema
from kcp_py.library.types.constraints import constrain
from kcp_py.library.types.fields import expanded

BYTES = {"type": "string", "format": "byte"}


def constrained(schema: dict[str, Any], *metadata: Any) -> dict[str, Any]:
    """A schema with what constraints say."""
    found = {**schema}
    constrain(found, expanded(metadata), "Thing.x")
    return found


def test_lengths_of_bytes() -> None:
    """The length of bytes is one of their text, which is not exact, and a rule."""
    assert constrained(BYTES, Field(min_length=1, max_length=4)) == {
        **BYTES,
        "minLength": 4,
        "maxLength": 8,
        "x-kubernetes-validations": [
            {"rule": "size(self) >= 1", "message": "must have at least 1 bytes"},
            {"rule": "size(self) <= 4", "message": "must have at most 4 bytes"},
        ],
    }
    assert constrained(BYTES, Field(min_length=0, max_length=3))["maxLength"] == 4
    assert constrained(BYTES, Schema(max_length=3)) == {**BYTES, "maxLength": 3}


def test_bounds_of_durations() -> None:
    """Each is a rule, behind which rules of the field stand."""
    found = constrained({"type": "string"}, Field(gt=dt.timedelta(0), le=dt.timedelta(hours=1)), Rule("self != '2s'"))
    assert found == {
        "type": "string",
        "x-kubernetes-validations": [
            {"rule": "duration(self) > duration('0s')", "message": "must be more than 0s"},
            {"rule": "duration(self) <= duration('1h0m0s')", "message": "must be at most 1h0m0s"},
            {"rule": "self != '2s'"},
        ],
    }


@pytest.mark.parametrize(
    ("schema", "metadata", "message"),
    [
        (BYTES, Field(pattern="a"), "a pattern is for texts, and bytes are base64; use a Rule"),
        ({"type": "string"}, Field(gt=dt.timedelta.max), "the bound 999999999 days, 23:59:59.999999 is longer than 292 years"),
        ({"type": "string"}, Field(ge="a"), "the bound ge='a' is not a number"),
        ({"type": "integer"}, Field(min_length=1), "min_length is for texts, bytes, lists and maps"),
    ],
)
def test_constraints_without_meaning(schema: dict[str, Any], metadata: Any, message: str) -> None:
    """The message begins with the field."""
    with pytest.raises(DefinitionError, match=f"^{re.escape(f'Thing.x: {message}')}"):
        constrained(schema, metadata)
