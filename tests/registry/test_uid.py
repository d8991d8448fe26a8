"""Unique identifiers."""

from __future__ import annotations

import uuid

from kcp_py.registry.uid import new_uid


def test_identifiers_are_random_uuids() -> None:
    """They have version 4 and the variant of RFC 9562, and each is different."""
    made = {new_uid() for _ in range(1000)}
    assert len(made) == 1000
    assert {uuid.UUID(one).version for one in made} == {4}
    assert {uuid.UUID(one).variant for one in made} == {uuid.RFC_4122}
    assert {str(uuid.UUID(one)) for one in made} == made
