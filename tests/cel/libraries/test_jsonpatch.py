"""Keys in JSON patches."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kcp_py.cel.errors import CostExceededError
from kcp_py.cel.libraries.jsonpatch import JSONPATCH

if TYPE_CHECKING:
    from collections.abc import Callable

    Evaluate = Callable[..., Any]


def test_escape_key(evaluate: Evaluate) -> None:
    """Slashes and tildes are escaped as RFC 6901 has it."""
    text = "'/metadata/labels/' + jsonpatch.escapeKey('k8s.io/my~label')"
    assert evaluate(text, JSONPATCH) == "/metadata/labels/k8s.io~1my~0label"


def test_growth(evaluate: Evaluate) -> None:
    """The result is limited before it is made."""
    with pytest.raises(CostExceededError):
        evaluate("jsonpatch.escapeKey(x)", JSONPATCH, x="~" * 5_000_001)
