"""The translation of etcd's and gRPC's errors to those of the contract (texts and codes: etcd's `rpctypes/error.go`)."""

from __future__ import annotations

from typing import Any, Final

import grpc

from kcp_py.storage.contract import NoSpaceError, StorageError, UnavailableError

COMPACTED: Final = "required revision has been compacted"
FUTURE: Final = "required revision is a future revision"
_NO_SPACE: Final = "database space exceeded"
_STALE_TOKEN: Final = ("invalid auth token", "revision of auth store is old", "user name is empty")

# The request is invalid: other members would return the same error, now and later.
_DEFINITE: Final = frozenset({grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.UNIMPLEMENTED, grpc.StatusCode.OUT_OF_RANGE})
# Another member may answer.
_PASSING: Final = frozenset(
    {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED, grpc.StatusCode.INTERNAL, grpc.StatusCode.UNKNOWN}
)


def details(error: Any) -> str:
    """The text of a gRPC error."""
    return error.details() or ""


def is_stale_token(text: str) -> bool:
    """Whether a new token may help. etcd refuses such a request before it has an effect, so a write may be sent again."""
    return any(words in text for words in _STALE_TOKEN)


def is_passing(error: Any) -> bool:
    """Whether a read may be tried again on another member."""
    return error.code() in _PASSING


def translate(error: Any) -> StorageError:
    """The contract's error for a gRPC error that does not concern a revision."""
    text = details(error)
    if _NO_SPACE in text:
        return NoSpaceError(text)
    if error.code() in _DEFINITE and not is_stale_token(text) and "authentication" not in text:
        return StorageError(text)
    return UnavailableError(describe(error))


def describe(error: Any) -> str:
    """A gRPC error in one line."""
    return f"{error.code().name}: {details(error)}"
