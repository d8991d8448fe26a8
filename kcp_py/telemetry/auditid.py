"""Audit ids: one per request, in logs and in the `Audit-Id` header."""

from __future__ import annotations

import re
from random import randbytes
from typing import Final

_ACCEPTED: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


def new_audit_id() -> str:
    """A random UUID (version 4). It names a request and guards nothing, so it needs no system call for its randomness."""
    digits = randbytes(16).hex()
    return f"{digits[:8]}-{digits[8:12]}-4{digits[13:16]}-a{digits[17:20]}-{digits[20:]}"


def accepted_audit_id(sent: bytes | None) -> str | None:
    """A client's own id, if it is fit for a header and a log line: at most 64 letters, digits and `._:-`."""
    if sent is None or _ACCEPTED.fullmatch(sent) is None:
        return None
    return sent.decode()
