"""Continue tokens are bound to their list."""

from __future__ import annotations

import base64

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.continue_token import INCONSISTENT, ContinueTokens
from kcp_py.apimachinery.errors import StatusError

TOKENS = ContinueTokens(b"0123456789abcdef")


@given(st.text(max_size=40), st.integers(min_value=-1, max_value=2**63 - 1), st.text(max_size=200))
def test_round_trip(scope, revision, start):
    """A token gives back its content, for the same scope."""
    assert TOKENS.decode(TOKENS.encode(scope, revision, start), scope) == (revision, start)


def test_payload_is_upstreams():
    """The part before the dot is unpadded base64url of upstream's JSON."""
    payload = TOKENS.encode("scope", INCONSISTENT, "ns/a\0").partition(".")[0]
    assert base64.urlsafe_b64decode(payload + "==") == b'{"v":"meta.k8s.io/v1","rv":-1,"start":"ns/a\\u0000"}'


def test_scope_is_not_disclosed():
    """A token does not tell which cluster it is for."""
    token = TOKENS.encode("secret-cluster", 1, "a")
    assert b"secret-cluster" not in base64.urlsafe_b64decode(token.partition(".")[0] + "==")


@pytest.mark.parametrize(
    "make",
    [
        lambda token: ContinueTokens(b"another key of 16 bytes").decode(token, "a"),
        lambda token: TOKENS.decode(token, "b"),
        lambda token: TOKENS.decode(token[:-1], "a"),
        lambda token: TOKENS.decode(token + "=", "a"),
        lambda token: TOKENS.decode(token + "\n", "a"),
        lambda token: TOKENS.decode(token.partition(".")[0], "a"),
        lambda _: TOKENS.decode("x" * 100_000, "a"),
        lambda _: TOKENS.decode("", "a"),
    ],
    ids=["other key", "other scope", "cut", "padded", "newline", "unsigned", "huge", "empty"],
)
def test_anything_else_is_refused(make):
    """A forged, malformed or foreign token is 400."""
    with pytest.raises(StatusError) as caught:
        make(TOKENS.encode("a", 7, "x"))
    assert caught.value.code == 400
    assert caught.value.message.startswith("invalid continue token: continue key is not valid")


def test_scope_does_not_run_into_payload():
    """A scope and payload that concatenate alike have different signatures."""
    token = TOKENS.encode("ab", 1, "x")
    with pytest.raises(StatusError):
        TOKENS.decode(token, "a")


@given(st.text(max_size=100))
def test_any_text_is_refused_with_a_status(text):
    """No text raises anything but StatusError."""
    with pytest.raises(StatusError):
        TOKENS.decode(text, "a")


def test_short_keys_are_refused():
    """A guessable key is a mistake of the caller."""
    with pytest.raises(ValueError, match="16 bytes"):
        ContinueTokens(b"short")
