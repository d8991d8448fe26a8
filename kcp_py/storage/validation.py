"""Validation of transactions, shared by all drivers, so that a defect of a caller appears with every driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kcp_py.storage.contract import Compare, Operation, Put

MOST_OPERATIONS: Final = 500
"""The maximum number of operations of one transaction."""


def check_transaction(compares: Sequence[Compare], operations: Sequence[Operation]) -> None:
    """Refuse transactions that violate the contract.

    Raises:
        ValueError: too many operations, a key in two of them, an empty value, or an invalid key. This is a defect of the caller.
    """
    if len(operations) > MOST_OPERATIONS:
        raise ValueError(f"{len(operations)} operations in one transaction; at most {MOST_OPERATIONS}")
    if len(operations) > 1 and len({operation.key for operation in operations}) != len(operations):
        raise ValueError("a key occurs in two operations of one transaction")
    for operation in operations:
        key = operation.key
        if not key or not key.isascii() or "\0" in key:
            _check_key(key)
        if isinstance(operation, Put) and not operation.value:
            raise ValueError(f"the value of {key} is empty")
    for key, _, _ in compares:
        if not key or not key.isascii() or "\0" in key:
            _check_key(key)


def _check_key(key: str) -> None:
    if not key or "\0" in key:
        raise ValueError(f"invalid key {key!r}")
    if not key.isascii():
        try:
            key.encode()
        except UnicodeEncodeError:
            raise ValueError(f"invalid key {key!r}") from None
