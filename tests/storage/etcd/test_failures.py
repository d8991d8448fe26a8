"""What errors of etcd and of gRPC mean."""

from __future__ import annotations

import pytest

from kcp_py.storage.contract import NoSpaceError, StorageError, UnavailableError

grpc = pytest.importorskip("grpc", reason="grpcio is not installed")

from kcp_py.storage.etcd.failures import describe, is_passing, is_stale_token, translate  # noqa: E402 (needs grpcio)


class Failure:
    """What the driver reads of a gRPC error."""

    def __init__(self, code: str, text: str = "") -> None:
        self._code = grpc.StatusCode[code]
        self._text = text

    def code(self) -> object:
        return self._code

    def details(self) -> str:
        return self._text


MEANT = {
    "no space": (Failure("RESOURCE_EXHAUSTED", "etcdserver: mvcc: database space exceeded"), NoSpaceError),
    "an invalid request": (Failure("INVALID_ARGUMENT", "etcdserver: key is not provided"), StorageError),
    "an unknown method": (Failure("UNIMPLEMENTED"), StorageError),
    "an old token": (Failure("INVALID_ARGUMENT", "etcdserver: revision of auth store is old"), UnavailableError),
    "no authentication": (Failure("INVALID_ARGUMENT", "etcdserver: authentication is not enabled"), UnavailableError),
    "no leader": (Failure("UNAVAILABLE", "etcdserver: no leader"), UnavailableError),
    "a deadline": (Failure("DEADLINE_EXCEEDED"), UnavailableError),
}


@pytest.mark.parametrize(("failure", "error"), MEANT.values(), ids=MEANT)
def test_each_failure_has_its_error(failure: Failure, error: type[StorageError]) -> None:
    """An invalid request does not count as an outage; other errors do."""
    assert type(translate(failure)) is error


def test_reads_are_tried_again_where_another_member_may_answer() -> None:
    """Not where the answer would be the same."""
    assert is_passing(Failure("UNAVAILABLE"))
    assert not is_passing(Failure("PERMISSION_DENIED"))
    assert not is_passing(Failure("INVALID_ARGUMENT"))


def test_stale_tokens_are_known_by_their_text() -> None:
    """etcd has no code of its own for them."""
    assert is_stale_token("etcdserver: invalid auth token")
    assert not is_stale_token("etcdserver: permission denied")


def test_failures_are_shown_with_code_and_text() -> None:
    """In one line, also without a text."""
    assert describe(Failure("UNAVAILABLE", "no leader")) == "UNAVAILABLE: no leader"
    assert describe(Failure("UNKNOWN")) == "UNKNOWN: "
