"""How deep a document may be."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.serializer.decoding import too_deep


def nested(levels: int, *, maps: bool) -> Any:
    """A text within so many maps or lists."""
    value: Any = "x"
    for _ in range(levels):
        value = {"a": value, "b": 1} if maps else [1, value]
    return value


@pytest.mark.parametrize("maps", [True, False], ids=["maps", "lists"])
@pytest.mark.parametrize("levels", [0, 1, 4, 128])
def test_the_limit_is_the_deepest_that_is_allowed(levels: int, maps: bool) -> None:  # noqa: FBT001
    """One level more is too deep, whatever the neighbours of the deepest value."""
    assert not too_deep(nested(levels, maps=maps), levels)
    assert too_deep(nested(levels + 1, maps=maps), levels)


def test_the_depth_is_found_without_recursion() -> None:
    """A document that is deeper than Python's stack has an answer."""
    assert too_deep(nested(100_000, maps=False), 128)
