"""How an error is written: one `v1` Status in the client's encoding, plain text where upstream answers so."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import orjson

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.serializer.protobuf import encode_object
from kcp_py.apimachinery.serializer.yaml.codec import encode_yaml
from kcp_py.server.exchange import Exchange
from kcp_py.server.negotiation import DEFAULT, Representation, negotiate_status, wants_pretty
from kcp_py.server.responsehead import TEXT, Header

_PLAIN_CODES: Final = frozenset((404, 501))
"""EncodedStatus in plain text if the error has no reason."""
_NO_SNIFFING: Final = (b"x-content-type-options", b"nosniff")


class EncodedStatus(NamedTuple):
    """A response that is ready to be sent."""

    code: int
    body: bytes
    content_type: bytes
    headers: tuple[Header, ...]


def write_status(error: StatusError, representation: Representation = DEFAULT) -> EncodedStatus:
    """Render an error. The transform of the representation does not matter: errors are always Status objects."""
    if not error.reason and error.code in _PLAIN_CODES:
        return EncodedStatus(error.code, f"{error.message}\n".encode(), TEXT, (_NO_SNIFFING,))
    retry_after = error.retry_after_seconds
    headers: tuple[Header, ...] = () if retry_after is None else ((b"retry-after", b"%d" % retry_after),)
    status = error.to_status()
    if representation.media != "json":
        encode = encode_yaml if representation.media == "yaml" else encode_object
        return EncodedStatus(error.code, encode(_printable(status)), representation.content_type, headers)
    # Upstream's encoder ends compact objects with a line feed, and indented ones without.
    option = orjson.OPT_INDENT_2 if representation.pretty else orjson.OPT_APPEND_NEWLINE
    try:
        body = orjson.dumps(status, option=option)
    except (orjson.JSONEncodeError, UnicodeEncodeError):
        # Messages may quote hostile input with lone surrogates.
        body = orjson.dumps(_printable(status), option=option)
    return EncodedStatus(error.code, body, b"application/json", headers)


def representation_of_errors(exchange: Exchange) -> Representation:
    """What the client accepts, as far as an error can be written in it; JSON in doubt."""
    try:
        pretty = wants_pretty(exchange.query, exchange.headers.get(b"user-agent"))
    except StatusError:
        # A malformed query, which is the error to report.
        pretty = False
    return negotiate_status(exchange.headers.get(b"accept"), pretty=pretty)


def _printable(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode(errors="replace").decode()
    if isinstance(value, dict):
        return {key: _printable(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_printable(item) for item in value]
    return value
