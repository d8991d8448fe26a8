"""`ClientCertificates`: the common name is the user, organizations are groups (k8s.io/apiserver `request/x509`)."""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable
from types import MappingProxyType
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from kcp_py.apimachinery.errors import unauthorized
from kcp_py.authn.authenticator import Headers
from kcp_py.request.user import UserInfo, authenticated

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_CACHED_CERTIFICATES: Final = 4096


class _Known(NamedTuple):
    user: UserInfo | None
    not_before: float
    not_after: float


class ClientCertificates:
    """Reads certificates that TLS has verified. What one says is kept, by its complete bytes; its dates are checked with every request."""

    def __init__(self, *, now: Callable[[], float] = time.time, size: int = _CACHED_CERTIFICATES) -> None:
        """Make an authenticator.

        Args:
            now: seconds since the epoch.
            size: how many certificates are remembered.
        """
        self._now = now
        self._size = size
        self._known: OrderedDict[bytes, _Known] = OrderedDict()

    async def authenticate(self, headers: Headers, peer_certificate_der: bytes | None) -> UserInfo | None:  # noqa: ARG002 - the protocol
        if peer_certificate_der is None:
            return None
        known = self._known.get(peer_certificate_der)
        if known is None:
            known = self._learn(peer_certificate_der)
        else:
            self._known.move_to_end(peer_certificate_der)
        if not known.not_before <= self._now() <= known.not_after:
            raise unauthorized()
        return known.user

    def _learn(self, der: bytes) -> _Known:
        known = _read(der)
        self._known[der] = known
        if len(self._known) > self._size:
            self._known.popitem(last=False)
        return known


def _read(der: bytes) -> _Known:
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = _texts(certificate, NameOID.COMMON_NAME)
        groups = _texts(certificate, NameOID.ORGANIZATION_NAME)
    except ValueError:
        raise unauthorized() from None
    # As upstream reads it: the last common name counts, and a certificate without one says nothing about a user.
    if not names or not names[-1]:
        user = None
    else:
        extra = {CREDENTIAL_ID: (f"X509SHA256={certificate.fingerprint(SHA256()).hex()}",)}
        user = authenticated(UserInfo(names[-1], "", tuple(dict.fromkeys(groups)), MappingProxyType(extra)))
    return _Known(user, certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


def _texts(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    values = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(oid)]
    return [value if isinstance(value, str) else value.decode("latin-1") for value in values]
