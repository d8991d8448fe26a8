from __future__ import annotations

import base64

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.authn.websocket import split_subprotocols

PREFIX = "base64url.bearer.authorization.k8s.io."


def encoded(token: bytes) -> str:
    return PREFIX + base64.urlsafe_b64encode(token).decode().rstrip("=")


def test_no_token() -> None:
    """Other subprotocols are left alone."""
    assert split_subprotocols([]) == (None, ())
    assert split_subprotocols(["a", "b"]) == (None, ("a", "b"))


@pytest.mark.parametrize("token", [b"t", b"to", b"tok", b"token", "ü~?ÿ".encode()])
def test_token(token: bytes) -> None:
    """The token is taken out from among the others."""
    assert split_subprotocols(["a", encoded(token), "b"]) == (token, ("a", "b"))


def test_empty_token() -> None:
    """An empty token counts as absent."""
    assert split_subprotocols([PREFIX]) == (None, ())


@pytest.mark.parametrize(
    "offered",
    [
        pytest.param([encoded(b"t"), encoded(b"t"), "a"], id="several"),
        pytest.param([encoded(b"t")], id="alone"),
        pytest.param([PREFIX + "!", "a"], id="no base64"),
        pytest.param([PREFIX + "dA==", "a"], id="padded"),
        pytest.param([PREFIX + "d", "a"], id="cut off"),
        pytest.param([PREFIX + "ab+/", "a"], id="other alphabet"),
        pytest.param([encoded(b"\xff"), "a"], id="no text"),
    ],
)
def test_refused(offered: list[str]) -> None:
    """A token that is not as it has to be is 401."""
    with pytest.raises(StatusError) as caught:
        split_subprotocols(offered)
    assert caught.value.code == 401
