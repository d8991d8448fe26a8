"""Bearer tokens of browsers: their WebSocket API sends no Authorization header, so that the token comes as a subprotocol.

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
    """What a client offers."""

    token: bytes | None
    """The bearer token among them."""
    others: tuple[str, ...]
    """Those that are protocols."""


def split_subprotocols(offered: Sequence[str]) -> Subprotocols:
    """Take the token out of the subprotocols that a client offers, as it must not be echoed.

    Raises:
        StatusError: 401 for several tokens, for one that is no unpadded base64url of UTF-8, and for one without any protocol beside it.
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
