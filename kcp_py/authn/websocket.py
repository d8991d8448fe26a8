"""Bearer tokens of browsers: their WebSocket API cannot send an Authorization header, so the token is sent as a subprotocol.

Source: k8s.io/apiserver `pkg/authentication/request/websocket/protocol.go`.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Sequence
from typing import Final, NamedTuple

from kcp_py.apimachinery.errors import unauthorized

_PREFIX: Final = "base64url.bearer.authorization.k8s.io."


class Subprotocols(NamedTuple):
    """The subprotocols that a client offers."""

    token: bytes | None
    """The bearer token, if the client sent one as a subprotocol."""
    others: tuple[str, ...]
    """The remaining subprotocols."""


def split_subprotocols(offered: Sequence[str]) -> Subprotocols:
    """Separate the token from the subprotocols that a client offers, because the token must not be echoed.

    Raises:
        StatusError: 401 for several tokens, for a token that is not unpadded base64url of UTF-8, and for a token without another protocol.
    """
    tokens = [protocol.removeprefix(_PREFIX) for protocol in offered if protocol.startswith(_PREFIX)]
    others = tuple(protocol for protocol in offered if not protocol.startswith(_PREFIX))
    if not tokens:
        return Subprotocols(None, others)
    if len(tokens) > 1:
        raise unauthorized()
    token = _decode(tokens[0])
    if token and not others:
        raise unauthorized()
    return Subprotocols(token or None, others)


def _decode(text: str) -> bytes:
    if "=" in text or "+" in text or "/" in text:
        raise unauthorized()
    try:
        token = base64.b64decode(text.translate({ord("-"): "+", ord("_"): "/"}) + "=" * (-len(text) % 4), validate=True)
        token.decode()
    except (binascii.Error, ValueError):
        raise unauthorized() from None
    return token
