"""What goes wrong when protobuf is decoded."""

from __future__ import annotations

from typing import Final


class ProtobufError(ValueError):
    """Bytes that are no such message; the text is that of Go's generated decoders, for the caller to frame."""


END: Final = "unexpected EOF"
