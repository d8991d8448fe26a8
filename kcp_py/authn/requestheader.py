"""`RequestHeaders`: a front proxy, known by its client certificate, names the user of a request in headers.

Source: k8s.io/apiserver `pkg/authentication/request/headerrequest` and `request/x509` (`Verifier`).

TLS has verified the certificate by the authorities of front proxies. Certificates of other authorities do not come here: see
`serving.clientauthorities`. Headers of other requests have no meaning.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import structlog
from cryptography import x509
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import unauthorized
from kcp_py.apis.certificates.binding import binding_of
from kcp_py.authn.authenticator import Credentials
from kcp_py.authn.certificate import subject_texts
from kcp_py.authn.vouched import Place, UnplacedUserError, user_in
from kcp_py.request.headertexts import extra_key, header_text
from kcp_py.request.user import UserInfo

_CACHED_CERTIFICATES: Final = 256
_CLIENT_USAGES: Final = frozenset((ExtendedKeyUsageOID.CLIENT_AUTH, ExtendedKeyUsageOID.ANY_EXTENDED_KEY_USAGE))

_log: structlog.typing.FilteringBoundLogger = structlog.get_logger("kcp_py.authn")


class ProxyHeaders(NamedTuple):
    """The headers of front proxies, by their names in lower case."""

    users: tuple[bytes, ...]
    """With the user name; the first one with a value counts."""
    uids: tuple[bytes, ...]
    """With the uid; the first one with a value counts."""
    groups: tuple[bytes, ...]
    """With a group in each value."""
    extra_prefixes: tuple[bytes, ...]
    """What headers with extra fields begin with; the key follows."""

    @classmethod
    def of(cls, users: Sequence[str], uids: Sequence[str], groups: Sequence[str], extra_prefixes: Sequence[str]) -> ProxyHeaders:
        """From names as they stand in options."""
        return cls(*(tuple(name.lower().encode() for name in names) for names in (users, uids, groups, extra_prefixes)))

    def reads(self, header: bytes) -> bool:
        """Whether a header belongs to these."""
        return header in self.users or header in self.uids or header in self.groups or header.startswith(self.extra_prefixes)


class _Proxy(NamedTuple):
    not_before: float
    not_after: float
    problem: str
    """Why this certificate is not one of a front proxy; empty if it is."""


class RequestHeaders:
    """An `Authenticator` of requests of front proxies."""

    def __init__(
        self, headers: ProxyHeaders, allowed_names: Sequence[str], *, place: Place = user_in, now: Callable[[], float] = time.time
    ) -> None:
        """Prepare.

        Args:
            headers: those that front proxies set.
            allowed_names: common names of their certificates; empty for any name.
            place: makes a user of a logical cluster of the one that the headers name.
            now: seconds since the epoch.
        """
        self._headers = headers
        self._allowed_names = frozenset(allowed_names)
        self._place = place
        self._now = now
        self._proxies: LRU[bytes, _Proxy] = LRU(_CACHED_CERTIFICATES)

    async def authenticate(self, credentials: Credentials) -> UserInfo | None:
        der = credentials.proxy_certificate_der
        if der is None:
            return None
        proxy = self._proxies.get(der)
        if proxy is None:
            proxy = self._read(der)
            self._proxies.set(der, proxy)
        problem = proxy.problem or ("" if proxy.not_before <= self._now() <= proxy.not_after else "the certificate is not valid now")
        if problem:
            _log.debug("front_proxy_refused", error=problem)
            raise unauthorized()
        user = self._user(credentials)
        if user is None:
            return None
        try:
            return self._place(credentials.cluster, user)
        except UnplacedUserError as error:
            _log.debug("front_proxy_refused", error=str(error))
            raise unauthorized() from None

    def _user(self, credentials: Credentials) -> UserInfo | None:
        """The user of the headers; None without a name."""
        headers = self._headers
        name, uid = (
            next((text for header in names for text in map(header_text, credentials.values_of(header)[:1]) if text), "")
            for names in (headers.users, headers.uids)
        )
        if not name:
            return None
        groups = tuple(text for header in headers.groups for text in map(header_text, credentials.values_of(header)) if text)
        extra: dict[str, tuple[str, ...]] = {}
        for prefix in headers.extra_prefixes:
            for header in credentials.headers:
                if header.startswith(prefix):
                    key = extra_key(header.removeprefix(prefix))
                    extra[key] = extra.get(key, ()) + tuple(map(header_text, credentials.values_of(header)))
        return UserInfo(name, uid, groups, MappingProxyType(extra))

    def _read(self, der: bytes) -> _Proxy:
        try:
            certificate = x509.load_der_x509_certificate(der)
            problem = self._problem(certificate)
        except (ValueError, x509.InvalidVersion, x509.DuplicateExtension, x509.UnsupportedGeneralNameType):
            return _Proxy(0, 0, "the certificate cannot be read")
        return _Proxy(certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp(), problem)

    def _problem(self, certificate: x509.Certificate) -> str:
        if binding_of(certificate) is not None:
            # Tenants choose the names in these, and the authority of the server signs them.
            return "the certificate is one of a logical cluster"
        try:
            usages = certificate.extensions.get_extension_for_class(x509.ExtendedKeyUsage).value
        except x509.ExtensionNotFound:
            pass
        else:
            if _CLIENT_USAGES.isdisjoint(usages):
                return "the certificate is not made for clients"
        names = subject_texts(certificate, NameOID.COMMON_NAME)
        if self._allowed_names and (not names or names[-1] not in self._allowed_names):
            return f"x509: subject with cn={names[-1] if names else ''} is not in the allowed list"
        return ""
