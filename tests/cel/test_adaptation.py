"""Decoded JSON becomes values of declared types."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.cel.adaptation import adapter
from kcp_py.cel.errors import EvaluationError
from kcp_py.cel.types import BYTES, DOUBLE, DURATION, DYN, INT, STRING, TIMESTAMP, Field, Type, list_of, map_of, object_of
from kcp_py.cel.values import Duration, Timestamp

SECOND = 1_000_000_000


@pytest.mark.parametrize(
    ("kind", "value", "adapted"),
    [
        (DOUBLE, 1, 1.0),
        (DOUBLE, 1.5, 1.5),
        (DOUBLE, None, None),
        (TIMESTAMP, "1970-01-01T00:00:01Z", Timestamp(SECOND)),
        (TIMESTAMP, "1970-01-02", Timestamp(86_400 * SECOND)),
        (TIMESTAMP, Timestamp(5), Timestamp(5)),
        (DURATION, "1m", Duration(60 * SECOND)),
        (BYTES, "YQ==", b"a"),
        (BYTES, None, None),
        (list_of(DOUBLE), [1, None], [1.0, None]),
        (list_of(DOUBLE), None, None),
        (map_of(STRING, list_of(DURATION)), {"a": ["1s"]}, {"a": [Duration(SECOND)]}),
    ],
)
def test_values(kind: Type, value: Any, adapted: Any) -> None:
    """Numbers, times and bytes are read, inside lists and maps too; null and CEL values stay."""
    function = adapter(kind)
    assert function is not None
    result = function(value)
    assert result == adapted
    assert type(result) is type(adapted)


@pytest.mark.parametrize("kind", [INT, STRING, DYN, list_of(INT), map_of(STRING, STRING), object_of("O", {"a": Field(DOUBLE, "a")})])
def test_nothing_to_do(kind: Type) -> None:
    """Most types are used as they were decoded; objects are adapted field by field."""
    assert adapter(kind) is None


@pytest.mark.parametrize(("kind", "value"), [(TIMESTAMP, "x"), (TIMESTAMP, "9" * 10_000), (DURATION, "1"), (BYTES, "?"), (BYTES, "\ud800")])
def test_unreadable(kind: Type, value: str) -> None:
    """Text that cannot be read is an error of the evaluation."""
    function = adapter(kind)
    assert function is not None
    with pytest.raises(EvaluationError, match=r"Invalid \w+ formatted string"):
        function(value)
