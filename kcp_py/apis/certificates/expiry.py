"""When a CertificateSigningRequest is deleted (kubernetes `pkg/controller/certificates/cleaner`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from cryptography import x509

from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.apis.certificates.requests import decoded
from kcp_py.apis.certificates.validation import Object, conditions_of, has_condition

ANSWERED_SECONDS: Final = 3600.0
"""How long requests are kept that were denied, have failed, or have their certificate."""
PENDING_SECONDS: Final = 86400.0
"""How long requests are kept that nothing has decided, or that are approved and have no certificate."""


def expires_at(obj: Object) -> float | None:
    """When a request is deleted, in Unix seconds; None for one that has other conditions alone, which stays."""
    return min(_ends(obj), default=None)


def _ends(obj: Object) -> Iterator[float]:
    conditions = conditions_of(obj)
    certificate = decoded((obj.get("status") or {}).get("certificate"))
    if not conditions:
        yield parse_time(obj["metadata"]["creationTimestamp"]) + PENDING_SECONDS
    for condition in conditions:
        updated = condition.get("lastUpdateTime")
        match condition.get("type"):
            case "Approved" if updated:
                yield parse_time(updated) + (ANSWERED_SECONDS if certificate else PENDING_SECONDS)
            case "Denied" | "Failed" if updated:
                yield parse_time(updated) + ANSWERED_SECONDS
    if certificate and has_condition(obj, "Approved"):
        try:
            yield x509.load_pem_x509_certificate(certificate).not_valid_after_utc.timestamp()
        except (ValueError, x509.InvalidVersion):
            return
