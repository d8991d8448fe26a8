"""Messages between processes arrive as they were sent."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.storage.contract import (
    CompactedError,
    Compare,
    ConflictError,
    DamagedError,
    Delete,
    Event,
    FutureRevisionError,
    KeyValue,
    NoSpaceError,
    Operation,
    Put,
    RangeResult,
    StorageError,
    UnavailableError,
    UnknownOutcomeError,
)
from kcp_py.storage.shared import messages
from kcp_py.storage.shared.messages import HEAD, Fields
from kcp_py.storage.sqlite import CorruptDatabaseError

REVISIONS = st.integers(0, (1 << 64) - 2)
KEYS = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=30)
VALUES = st.binary(min_size=1, max_size=50)
COMPARES = st.builds(Compare, KEYS, st.none() | REVISIONS, st.none() | REVISIONS)
OPERATIONS = st.builds(Put, KEYS, VALUES) | st.builds(Delete, KEYS)


@st.composite
def events(draw: st.DrawFn) -> Event:
    """Any event."""
    key = draw(KEYS)
    previous = draw(st.none() | st.builds(KeyValue, st.just(key), VALUES, REVISIONS, REVISIONS))
    return Event(key, draw(st.none() | VALUES), draw(REVISIONS), draw(REVISIONS), previous)


def fields_of(message: bytes, kind: int) -> Fields:
    """The fields of a whole message, which must be of a kind."""
    length, found = HEAD.unpack_from(message)
    assert found == kind
    assert length == len(message) - 4
    return Fields(message[HEAD.size :])


@given(REVISIONS, st.lists(COMPARES, max_size=4), st.lists(OPERATIONS, max_size=4))
def test_transactions(number: int, compares: list[Compare], operations: list[Operation]) -> None:
    """All compares and operations arrive, with the fields that are given alone."""
    fields = fields_of(messages.transact_message(number, compares, operations), messages.TRANSACT)
    assert fields.transaction() == (number, compares, operations)


@pytest.mark.parametrize("revision", [-1, 1 << 64, 1 << 80], ids=["negative", "one too large", "much too large"])
def test_a_revision_that_cannot_be_compares_as_none_that_exists(revision: int) -> None:
    """A compare with a number that is not a revision stays a compare, and fails with every key."""
    compares = [Compare("/a", mod_revision=revision, create_revision=revision)]
    fields = fields_of(messages.transact_message(1, compares, []), messages.TRANSACT)
    (compare,) = fields.transaction()[1]
    assert compare == Compare("/a", mod_revision=(1 << 64) - 1, create_revision=(1 << 64) - 1)


@given(REVISIONS, st.booleans(), st.lists(events(), max_size=5))
def test_events(revision: int, is_last: bool, given_events: list[Event]) -> None:  # noqa: FBT001 - hypothesis gives it
    """Events arrive with their values, their previous values and their revisions."""
    fields = fields_of(messages.events_message(given_events, revision, is_last=is_last), messages.EVENTS)
    assert fields.events() == (revision, is_last, given_events)


def test_answers() -> None:
    """An answer has the revision."""
    assert fields_of(messages.done_message(3, 8), messages.DONE).done() == (3, 8)


ITEM = KeyValue("/a", b"1", 2, 1)


@pytest.mark.parametrize(
    "error",
    [
        ConflictError("/a", ITEM),
        ConflictError("/ä", None),
        CompactedError(3, 8),
        FutureRevisionError(9, 8),
        DamagedError(),
        DamagedError(["/a", "/b"]),
        DamagedError(["/b"], RangeResult([ITEM], 8, more=True, total=-1)),
        UnavailableError("no"),
        UnknownOutcomeError("perhaps"),
        NoSpaceError("full"),
        StorageError("else"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors(error: StorageError) -> None:
    """Errors of the contract arrive as their class, with their text and all their fields."""
    number, found = fields_of(messages.failed_message(5, error), messages.FAILED).failed()
    assert number == 5
    assert (type(found), str(found), vars(found)) == (type(error), str(error), vars(error))


def test_an_error_of_a_driver_is_one_of_the_contract() -> None:
    """An error of a class that the contract does not have arrives as the class of the contract that it is derived from."""
    _, found = fields_of(messages.failed_message(5, CorruptDatabaseError("bad")), messages.FAILED).failed()
    assert (type(found), str(found)) == (StorageError, "bad")
