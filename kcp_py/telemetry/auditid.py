"""Audit ids that clients send: one per request, in logs and in the `Audit-Id` header."""

from __future__ import annotations

import re
from typing import Final

_ACCEPTED: Final = re.compile(rb"[A-Za-z0-9][A-Za-z0-9._:-]{0,63}")


def accepted_audit_id(sent: bytes | None) -> str | None:
    """The id that a client sent, if it is safe in a header and a log line: at most 64 letters, digits and `._:-`."""
    if sent is None or _ACCEPTED.fullmatch(sent) is None:
        return None
    return sent.decode()
