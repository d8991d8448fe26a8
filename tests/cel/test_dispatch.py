"""Overloads are chosen by values where types are not known."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cel.declarations import Overload
from kcp_py.cel.dispatch import dispatcher, is_a
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.types import BOOL, DYN, INT, NULL, STRING, UINT, Type, list_of, map_of, object_of, opaque, optional_of, type_of
from kcp_py.cel.values import NONE, BoolKey, TypeValue, UInt


class Quantity:
    """An opaque value."""


@pytest.mark.parametrize(
    ("value", "kind", "fits"),
    [
        (1, INT, True),
        (True, INT, False),
        (UInt(1), INT, False),
        (UInt(1), UINT, True),
        (BoolKey.TRUE, BOOL, True),
        (None, NULL, True),
        ([1], list_of(STRING), True),
        ({}, map_of(STRING, INT), True),
        ({}, object_of("O", {}), True),
        ("a", DYN, True),
        (NONE, optional_of(INT), True),
        (1, optional_of(INT), False),
        (Quantity(), opaque("quantity"), True),
        (Quantity(), opaque("ip"), False),
        (TypeValue(INT), type_of(INT), True),
    ],
)
def test_is_a(value: Any, kind: Type, *, fits: bool) -> None:
    """Of lists and maps only the outermost level is looked at."""
    assert is_a(value, kind, {"quantity": Quantity}) is fits


def test_first_that_fits_is_called() -> None:
    """Candidates are tried in their order; where none fits there is no value."""
    call = dispatcher(
        [
            Overload("i", (INT,), STRING, implementation=lambda _: "int"),
            Overload("s", (STRING,), STRING, implementation=lambda _: "string"),
        ],
        {},
    )
    assert call(1) == "int"
    assert call("a") == "string"
    with pytest.raises(EvaluationError, match="no such overload"):
        call(1.5)
