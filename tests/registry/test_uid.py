"""Unique identifiers."""

from __future__ import annotations

import uuid

from kcp_py.registry.uid import derived_uid, new_uid


def test_identifiers_are_random_uuids() -> None:
    """They have version 4 and the variant of RFC 9562, and each is different."""
    made = {new_uid() for _ in range(1000)}
    assert len(made) == 1000
    assert {uuid.UUID(one).version for one in made} == {4}
    assert {uuid.UUID(one).variant for one in made} == {uuid.RFC_4122}
    assert {str(uuid.UUID(one)) for one in made} == made


def test_derived_identifiers_are_those_of_the_standard_library() -> None:
    """Version 5 of RFC 9562, for every digit that holds the variant."""
    space = uuid.UUID("6b637020-7079-5e61-8d65-6f626a656374")
    for number in range(200):
        assert derived_uid(space, f"a/ü/{number}") == str(uuid.uuid5(space, f"a/ü/{number}"))
