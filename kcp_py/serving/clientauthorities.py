"""`ServerTLS`: an `SSLContext` that knows its successor, and `PeerCertificate`: for what a client's authority is accepted now.

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
        authorities: those that certificates of users are verified by, see `authority_of`.
        proxy_authorities: those that certificates of front proxies are verified by.
        versions: which settings are in use now.
    """

    authorities: frozenset[bytes] = frozenset()
    proxy_authorities: frozenset[bytes] = frozenset()
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
        if (newest.authorities, newest.proxy_authorities) != (before.authorities, before.proxy_authorities):
            for listener in self._listeners:
                listener()


class PeerCertificate:
    """The client certificate of one connection. The handshake verifies it by all authorities; for what it counts depends on its own one."""

    __slots__ = ("_client", "_der", "_proxy", "_settings", "_tls", "_was_client", "_was_proxy")

    def __init__(self, tls: ssl.SSLObject, der: bytes) -> None:
        """Keep a certificate that has been verified with the settings of the connection."""
        self._tls = tls
        self._der = self._client = der
        self._proxy: bytes | None = None
        self._was_client, self._was_proxy = True, False
        context = tls.context
        self._settings = context if isinstance(context, ServerTLS) else None
        if self._settings is not None and self._settings.proxy_authorities:
            self._was_client = False
            self._judge(self._settings)

    def current(self) -> bytes:
        """The certificate in DER as one of a user, or `REVOKED` where its authority is not accepted for users, or not any more."""
        self._refresh()
        return self._client

    def proxy(self) -> bytes | None:
        """The certificate in DER as one of a front proxy; None where its authority is not accepted for front proxies."""
        self._refresh()
        return self._proxy

    def is_revoked(self) -> bool:
        """Whether the authority is not accepted any more for something that it was accepted for."""
        self._refresh()
        return (self._was_client and self._client is REVOKED) or (self._was_proxy and self._proxy is None)

    def _refresh(self) -> None:
        if self._settings is not None and (newest := self._settings.versions.newest) is not self._settings:
            self._judge(newest)

    def _judge(self, settings: ServerTLS) -> None:
        self._settings = settings
        authorities = verified_authorities(self._tls)
        self._client = REVOKED if settings.authorities.isdisjoint(authorities) else self._der
        self._proxy = None if settings.proxy_authorities.isdisjoint(authorities) else self._der
        self._was_client |= self._client is not REVOKED
        self._was_proxy |= self._proxy is not None


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
