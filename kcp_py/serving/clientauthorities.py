"""`ServerTLS`: an `SSLContext` that knows its successor, and `PeerCertificate`: whether a client's authority is still accepted.

OpenSSL verifies a client certificate once, in the handshake. kube-apiserver verifies it again for each request, against the authorities of
that moment. Here the authority that ended the verified chain is compared with those of the newest context, when that is replaced.
"""

from __future__ import annotations

import _ssl
import contextlib
import hashlib
import ssl
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

REVOKED: Final = b""
"""In the place of a client certificate whose authority is not accepted any more. No authenticator accepts it."""


class ServerTLS(ssl.SSLContext):
    """The TLS settings of a server at one time.

    Attributes:
        authorities: those that client certificates are verified by, see `authority_of`.
        versions: which settings are in use now.
    """

    authorities: frozenset[bytes] = frozenset()
    versions: Versions


class Versions:
    """The newest of the settings that a server has had, and who is told about another one."""

    def __init__(self, newest: ServerTLS) -> None:
        self.newest = newest
        self._listeners: list[Callable[[], object]] = []
        newest.versions = self

    @contextlib.contextmanager
    def listening(self, listener: Callable[[], object]) -> Iterator[None]:
        """Within it, a function is called when other authorities are in use than before."""
        self._listeners.append(listener)
        try:
            yield
        finally:
            self._listeners.remove(listener)

    def replace(self, newest: ServerTLS) -> None:
        """Use other settings from the next handshake on."""
        newest.versions = self
        before, self.newest = self.newest, newest
        if newest.authorities != before.authorities:
            for listener in self._listeners:
                listener()


class PeerCertificate:
    """The client certificate of one connection."""

    __slots__ = ("_authorities", "_der", "_tls", "_value")

    def __init__(self, tls: ssl.SSLObject, der: bytes) -> None:
        """Keep a certificate that has been verified with the settings of the connection."""
        self._tls = tls
        self._der = self._value = der
        context = tls.context
        self._authorities = context.authorities if isinstance(context, ServerTLS) else None

    def current(self) -> bytes:
        """The certificate in DER, or `REVOKED` since its authority is not accepted any more."""
        context = self._tls.context
        if isinstance(context, ServerTLS) and (accepted := context.versions.newest.authorities) is not self._authorities:
            self._authorities = accepted
            self._value = self._der if not accepted.isdisjoint(verified_authorities(self._tls)) else REVOKED
        return self._value


def authority_of(certificate: x509.Certificate) -> bytes:
    """What makes an authority: its name and its key (RFC 5280, 6.1.1). A renewed certificate of an authority is the same authority."""
    key = certificate.public_key().public_bytes(Encoding.DER, PublicFormat.SubjectPublicKeyInfo)
    return hashlib.sha256(certificate.subject.public_bytes() + key).digest()


def authorities_of(certificates: Iterable[x509.Certificate]) -> frozenset[bytes]:
    """See `authority_of`. Certificates whose key has an unknown form, which can verify nothing, are left out."""
    found = set()
    for certificate in certificates:
        try:
            found.add(authority_of(certificate))
        except (ValueError, UnsupportedAlgorithm):
            continue
    return frozenset(found)


def verified_authorities(tls: ssl.SSLObject) -> frozenset[bytes]:
    """The authorities of the chain that a handshake has verified, and the certificate itself."""
    # Public since Python 3.13; 3.10 to 3.12 have it below the public object.
    chain: Any = (tls if hasattr(tls, "get_verified_chain") else tls._sslobj).get_verified_chain()  # type: ignore[attr-defined]  # noqa: SLF001
    ders = [one if isinstance(one, bytes) else one.public_bytes(_ssl.ENCODING_DER) for one in chain or ()]
    return authorities_of(map(x509.load_der_x509_certificate, ders))
