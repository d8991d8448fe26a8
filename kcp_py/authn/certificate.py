"""`ClientCertificates`: the common name is the user, organizations are groups (k8s.io/apiserver `request/x509`)."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import MappingProxyType
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import unauthorized
from kcp_py.authn.authenticator import Credentials
from kcp_py.request.user import UserInfo, authenticated

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
_CACHED_CERTIFICATES: Final = 4096


class _Certificate(NamedTuple):
    user: UserInfo | None
    not_before: float
    not_after: float


class ClientCertificates:
    """Reads certificates that TLS has verified. Users are cached by the complete bytes of their certificates. Dates are always checked."""

    def __init__(self, *, now: Callable[[], float] = time.time, size: int = _CACHED_CERTIFICATES) -> None:
        """Create an authenticator.

        Args:
            now: seconds since the epoch.
            size: the number of cached certificates.
        """
        self._now = now
        self._certificates: LRU[bytes, _Certificate] = LRU(size)

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        der = credentials.peer_certificate_der
        if der is None:
            return None
        certificate = self._certificates.get(der)
        if certificate is None:
            certificate = _read(der)
            self._certificates.set(der, certificate)
        if not certificate.not_before <= self._now() <= certificate.not_after:
            raise unauthorized()
        return certificate.user


def _read(der: bytes) -> _Certificate:
    try:
        certificate = x509.load_der_x509_certificate(der)
        names = _texts(certificate, NameOID.COMMON_NAME)
        groups = _texts(certificate, NameOID.ORGANIZATION_NAME)
    except ValueError:
        raise unauthorized() from None
    # As upstream: the last common name is the user, and a certificate without a common name identifies no user.
    if not names or not names[-1]:
        user = None
    else:
        extra = {CREDENTIAL_ID: (f"X509SHA256={certificate.fingerprint(SHA256()).hex()}",)}
        user = authenticated(UserInfo(names[-1], "", tuple(dict.fromkeys(groups)), MappingProxyType(extra)))
    return _Certificate(user, certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


def _texts(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    values = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(oid)]
    return [value if isinstance(value, str) else value.decode("latin-1") for value in values]
