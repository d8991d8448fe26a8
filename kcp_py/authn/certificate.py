"""`ClientCertificates`: the common name is the user, organizations are groups (k8s.io/apiserver `request/x509`).

A certificate that names a logical cluster is a credential in this cluster alone, see `apis.certificates.binding`.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from types import MappingProxyType
from typing import Final, NamedTuple

from cryptography import x509
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.x509.oid import NameOID

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import unauthorized
from kcp_py.apis.certificates.binding import ClusterBinding, binding_of
from kcp_py.authn.authenticator import UNDECIDED, Credentials, Recalled, RecallingAuthenticator
from kcp_py.logicalcluster import Name
from kcp_py.request.user import CLUSTER_NAME_EXTRA, UserInfo, authenticated

CREDENTIAL_ID: Final = "authentication.kubernetes.io/credential-id"
UID: Final = x509.ObjectIdentifier("1.3.6.1.4.1.57683.2")
"""The attribute of a subject that is the uid of the user (upstream's feature `AllowParsingUserUIDFromCertAuth`)."""

ClusterUid = Callable[[Name], Awaitable[str | None]]
"""Gives the uid of a LogicalCluster; None where the cluster does not exist."""

_CACHED_CERTIFICATES: Final = 4096


class _Certificate(NamedTuple):
    user: UserInfo | None
    not_before: float
    not_after: float
    binding: ClusterBinding | None
    """The cluster in which it is valid; None for every cluster."""


class ClientCertificates(RecallingAuthenticator):
    """Reads certificates that TLS has verified. Users are cached by the complete bytes of their certificates. Dates are always checked."""

    def __init__(self, cluster_uid: ClusterUid, *, now: Callable[[], float] = time.time, size: int = _CACHED_CERTIFICATES) -> None:
        """Create an authenticator.

        Args:
            cluster_uid: is asked about the clusters that certificates name.
            now: seconds since the epoch.
            size: the number of cached certificates.
        """
        self._cluster_uid = cluster_uid
        self._now = now
        self._certificates: LRU[bytes, _Certificate] = LRU(size)

    def recall(self, credentials: Credentials) -> Recalled:
        der = credentials.peer_certificate_der
        if der is None:
            return None
        certificate = self._certificates.get(der)
        if certificate is None or certificate.binding is not None or not certificate.not_before <= self._now() <= certificate.not_after:
            return UNDECIDED
        return certificate.user

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
        if (binding := certificate.binding) is not None and (
            credentials.cluster != binding.cluster or await self._cluster_uid(binding.cluster) != binding.uid
        ):
            raise unauthorized()
        return certificate.user


def _read(der: bytes) -> _Certificate:
    """Read a certificate.

    Raises:
        StatusError: 401 for one that cannot be read, or that is ambiguous about its user or its cluster.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
        binding = binding_of(certificate)
        names = subject_texts(certificate, NameOID.COMMON_NAME)
        groups = subject_texts(certificate, NameOID.ORGANIZATION_NAME)
        uid = _uid(certificate)
    except (ValueError, x509.InvalidVersion):
        raise unauthorized() from None
    # As upstream: the last common name is the user, and a certificate without a common name identifies no user.
    if not names or not names[-1]:
        user = None
    else:
        extra = {CREDENTIAL_ID: (f"X509SHA256={certificate.fingerprint(SHA256()).hex()}",)}
        if binding is not None:
            extra[CLUSTER_NAME_EXTRA] = (binding.cluster,)
        user = authenticated(UserInfo(names[-1], uid, tuple(dict.fromkeys(groups)), MappingProxyType(extra)))
    return _Certificate(user, certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp(), binding)


def _uid(certificate: x509.Certificate) -> str:
    """The uid of the user; empty where the subject has none.

    Raises:
        ValueError: there are several, or one that is empty or not a text.
    """
    values = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(UID)]
    if not values:
        return ""
    if len(values) > 1 or not isinstance(values[0], str) or not values[0]:
        raise ValueError("a subject has one uid, which is a text")
    return values[0]


def subject_texts(certificate: x509.Certificate, oid: x509.ObjectIdentifier) -> list[str]:
    """The values of an attribute of the subject, in order."""
    values = [attribute.value for attribute in certificate.subject.get_attributes_for_oid(oid)]
    return [value if isinstance(value, str) else value.decode("latin-1") for value in values]
