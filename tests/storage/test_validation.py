"""Transactions that no driver may carry out are refused by all in the same way."""

from __future__ import annotations

import pytest

from kcp_py.storage.contract import Compare, Delete, Put
from kcp_py.storage.validation import check_transaction


@pytest.mark.parametrize(
    ("compares", "operations"),
    [
        ([], [Put(f"/{number}", b"x") for number in range(501)]),
        ([], [Put("/a", b"x"), Delete("/a")]),
        ([], [Put("/a", b"")]),
        ([], [Put("", b"x")]),
        ([], [Put("/a\0b", b"x")]),
        ([], [Delete("/\ud800")]),
        ([Compare("/a\0", mod_revision=0)], []),
    ],
    ids=["too many", "a key twice", "empty value", "empty key", "NUL", "surrogate", "compare with NUL"],
)
def test_refused(compares: list[Compare], operations: list[Put | Delete]) -> None:
    """What the contract excludes is a bug of the caller."""
    with pytest.raises(ValueError, match=r".+"):
        check_transaction(compares, operations)


def test_accepted() -> None:
    """The largest transaction, and keys of any script, pass."""
    check_transaction([Compare("/é", mod_revision=0)], [Put(f"/\U0001f600{number}", b"x") for number in range(500)])
