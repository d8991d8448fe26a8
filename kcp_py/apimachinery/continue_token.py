"""Continue tokens: where a paged list goes on, signed, so that a token serves only the list it was made for.

A token is the unpadded base64url of `{"v":"meta.k8s.io/v1","rv":N,"start":"..."}`, as upstream's (apiserver `pkg/storage/continue.go`),
followed by a dot and a message authentication code. The code also covers a scope, the text that identifies the list (cluster incarnation,
resource, namespace or wildcard), which the token does not disclose. Upstream needs no code, because its key prefix is fixed; here a token
of one cluster must not read another.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import urlsafe_b64decode, urlsafe_b64encode
from typing import Any, Final

import orjson

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.errors import StatusError

INCONSISTENT: Final = -1
"""The revision of a token that goes on from the latest state, because the revision of the list is no longer kept."""
_VERSION: Final = "meta.k8s.io/v1"
_MAC_LENGTH: Final = 16
_MAX_TOKEN: Final = 4096
_KEY_MIN: Final = 16


class ContinueTokens:
    """Makes and reads tokens with one key, which all servers of a store share."""

    def __init__(self, key: bytes) -> None:
        if len(key) < _KEY_MIN:
            raise ValueError(f"the key of continue tokens needs at least {_KEY_MIN} bytes")
        self._mac = hmac.new(key, b"kcp-py continue token\0", hashlib.sha256)

    def encode(self, scope: str, revision: int, start: str) -> str:
        """A token.

        Args:
            scope: The text that distinguishes this list from all others.
            revision: Of the snapshot that is being listed, or `INCONSISTENT`.
            start: The first key of the next page, relative to the scope.
        """
        payload = orjson.dumps({"v": _VERSION, "rv": revision, "start": start})
        return f"{_base64(payload)}.{_base64(self._sign(scope, payload))}"

    def decode(self, token: str, scope: str) -> tuple[int, str]:
        """The revision and the start of a token that was made for `scope`.

        Raises:
            StatusError: 400, the token is malformed, forged, or was made for another list.
        """
        if len(token) > _MAX_TOKEN:
            raise _invalid("token too long")
        encoded, _, encoded_mac = token.partition(".")
        try:
            payload = _bytes(encoded)
            mac = _bytes(encoded_mac)
        except (binascii.Error, ValueError):
            raise _invalid("illegal base64 data") from None
        if not hmac.compare_digest(mac, self._sign(scope, payload)):
            raise _invalid("token was not issued for this list")
        # The signature says that this server made it: what remains is a token of another version.
        try:
            content: Any = orjson.loads(payload)
            version, revision, start = content["v"], content["rv"], content["start"]
        except (ValueError, KeyError, TypeError):
            raise _invalid("malformed content") from None
        if version != _VERSION:
            raise errors.bad_request("invalid continue token: continue key is not valid: server does not recognize this encoded version")
        return revision, start

    def _sign(self, scope: str, payload: bytes) -> bytes:
        mac = self._mac.copy()
        encoded_scope = scope.encode("utf-8", "surrogatepass")
        # The length keeps a scope from running into the payload.
        mac.update(len(encoded_scope).to_bytes(8, "big"))
        mac.update(encoded_scope)
        mac.update(payload)
        return mac.digest()[:_MAC_LENGTH]


def _invalid(detail: str) -> StatusError:
    return errors.bad_request(f"invalid continue token: continue key is not valid: {detail}")


def _base64(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _bytes(text: str) -> bytes:
    data = text.encode("ascii")
    decoded = urlsafe_b64decode(data + b"=" * (-len(data) % 4))
    # Python skips characters that are not of the alphabet, which would give one token many forms.
    if _base64(decoded) != text:
        raise ValueError("not canonical")
    return decoded
