"""`Callers`: in whose name requests are made, and `Access`: what a caller may read, as the API server says."""

from __future__ import annotations

import asyncio
import math
import secrets
import time
from collections.abc import Callable, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import orjson
from cryptography import x509
from cryptography.x509.oid import NameOID

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import StatusError, bad_request, unauthorized
from kcp_py.apis.certificates.binding import binding_of
from kcp_py.authn.certificate import subject_texts
from kcp_py.proxy.reads import Read
from kcp_py.proxy.upstream import Header, UnreachableError, Upstream

_IMPERSONATE: Final = b"impersonate-"
_REVIEWS: Final = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
_KEPT: Final = 65_536
_CERTIFICATES: Final = 4096
_CLUSTER_HEADER: Final = b"x-kubernetes-cluster"
_LOOPBACK: Final = frozenset((b"localhost", b"127.0.0.1", b"[::1]"))


class Caller(NamedTuple):
    """In whose name a request is made."""

    own: bool
    """Whether with the credentials of the proxy."""
    headers: tuple[Header, ...]
    """That identify the caller."""


class Callers:
    """Finds out the caller of each request."""

    def __init__(self, *, share_credentials: bool, accept_certificates: bool, now: Callable[[], float] = time.time) -> None:
        """Choose.

        Args:
            share_credentials: whether requests without credentials are made with those of the proxy.
            accept_certificates: whether the client certificates that TLS has verified name users, which the proxy impersonates.
            now: seconds since the epoch.
        """
        self._share = share_credentials
        self._accepts_certificates = accept_certificates
        self._now = now
        self._certificates: LRU[bytes, _Certificate] = LRU(_CERTIFICATES)

    def of(self, headers: Sequence[Header], certificate: bytes | None) -> Caller:
        """The caller of a request.

        Args:
            headers: of the request; names in lower case.
            certificate: of the client, in DER; None or empty for none.

        Raises:
            StatusError: 400 or 401 where that is not clear.
        """
        tokens = [value for name, value in headers if name == b"authorization"]
        impersonating = [(name, value) for name, value in headers if name.startswith(_IMPERSONATE)]
        for name, value in headers:
            if name == b"connection" and any(_is_identity(one.strip()) for one in value.lower().split(b",")):
                raise bad_request("the Connection header must not name a header that decides about identity")
            if name == _CLUSTER_HEADER:
                # The cache and the questions about permissions know the cluster from the path.
                raise bad_request("requests through this proxy name their logical cluster in the path: /clusters/NAME")
        if len(tokens) > 1:
            raise unauthorized()
        if tokens:
            return Caller(False, ((b"authorization", tokens[0]), *impersonating))
        if self._accepts_certificates and certificate:
            if impersonating:
                raise bad_request("a client with a certificate cannot impersonate through this proxy: use a token")
            return Caller(True, self._named_by(certificate))
        if self._share:
            _check_page(headers)
        return Caller(self._share, tuple(impersonating))

    def _named_by(self, der: bytes) -> tuple[Header, ...]:
        """The headers that impersonate the user of a certificate.

        Raises:
            StatusError: 401 for a certificate that names no user who can be impersonated now.
        """
        certificate = self._certificates.get(der)
        if certificate is None:
            certificate = _read(der)
            self._certificates.set(der, certificate)
        # TLS has looked at the dates when the connection began.
        if not certificate.headers or not certificate.not_before <= self._now() <= certificate.not_after:
            raise unauthorized()
        return certificate.headers


class _Certificate(NamedTuple):
    headers: tuple[Header, ...]
    """That impersonate the user; empty where there is none."""
    not_before: float
    not_after: float


class _Decision(NamedTuple):
    allowed: bool
    at: float


class Access:
    """Asks the API server whether a caller may read, in the caller's own name, and keeps the answers for a short time."""

    def __init__(
        self,
        upstream: Upstream,
        *,
        kept_seconds: float,
        offline_seconds: float,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Prepare.

        Args:
            upstream: the API server.
            kept_seconds: how long an answer counts.
            offline_seconds: how long a permission counts while the server cannot be asked.
            clock: seconds.
        """
        self._upstream = upstream
        self._kept_seconds = kept_seconds
        self._offline_seconds = offline_seconds
        self._clock = clock
        self._secret = secrets.token_bytes(32)
        self._decisions: LRU[bytes, _Decision] = LRU(_KEPT)
        self._asking: dict[bytes, asyncio.Task[bool]] = {}

    async def allows(self, caller: Caller, read: Read) -> bool:
        """Whether the caller may read from the cache. Where not, the API server answers the request itself.

        Raises:
            UnreachableError: the server cannot be asked, and has not allowed it recently.
        """
        if caller.own and not caller.headers:
            # The cache has been read with the same credentials.
            return True
        attributes = {"namespace": read.namespace, "verb": read.verb, "name": read.name}
        place = read.place
        attributes |= {"group": place.group, "version": place.version, "resource": place.resource}
        key = self._key(caller, place.prefix, attributes)
        known = self._decisions.get(key)
        age = self._clock() - known.at if known is not None else math.inf
        if known is not None and age < self._kept_seconds:
            return known.allowed
        try:
            return await self._asked(key, caller, place.prefix, attributes)
        except UnreachableError:
            if known is not None and known.allowed and age < self._offline_seconds:
                return True
            raise

    def _key(self, caller: Caller, prefix: str, attributes: dict[str, str]) -> bytes:
        """A hash: tokens do not stay in memory."""
        parts = [b"own" if caller.own else b"", prefix.encode(), *(value.encode() for value in attributes.values())]
        for name, value in caller.headers:
            parts += (name, value)
        joined = b"".join(b"%d:%b" % (len(part), part) for part in parts)
        return blake2b(joined, key=self._secret, digest_size=32).digest()

    async def _asked(self, key: bytes, caller: Caller, prefix: str, attributes: dict[str, str]) -> bool:
        """The answer of one question, which all requests with the same question share."""
        task = self._asking.get(key)
        if task is None:
            task = self._asking[key] = asyncio.create_task(self._ask(key, caller, prefix, attributes))
            task.add_done_callback(lambda _: self._asking.pop(key, None))
        return await asyncio.shield(task)

    async def _ask(self, key: bytes, caller: Caller, prefix: str, attributes: dict[str, str]) -> bool:
        given = {name: value for name, value in attributes.items() if value}
        body = {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {"resourceAttributes": given},
        }
        headers = (*caller.headers, (b"Accept", b"application/json"), (b"Content-Type", b"application/json"))
        target = f"{prefix}{_REVIEWS}".encode()
        answer = await self._upstream.fetch("POST", target, headers=headers, own=caller.own, body=orjson.dumps(body))
        if answer.status >= 500 or answer.status == 429:
            raise UnreachableError(f"status {answer.status}")
        allowed = False
        if answer.status == 201:
            status = orjson.loads(answer.body).get("status") or {}
            allowed = status.get("allowed") is True and status.get("denied") is not True
        self._decisions.set(key, _Decision(allowed, self._clock()))
        return allowed


def _is_identity(header: bytes) -> bool:
    return header == b"authorization" or header.startswith(_IMPERSONATE)


def _check_page(headers: Sequence[Header]) -> None:
    """Refuse requests that a page of another site makes a browser send, also one whose name leads to this machine (DNS rebinding).

    Raises:
        StatusError: 403.
    """
    found = dict(headers)
    host = found.get(b"host", b"").lower()
    name = host.partition(b"]")[0] + b"]" if host.startswith(b"[") else host.partition(b":")[0]
    origin = found.get(b"origin")
    if name not in _LOOPBACK or (origin is not None and origin.partition(b"://")[2] != host):
        raise StatusError(403, "Forbidden", "requests without credentials are for programs of this machine")


def _read(der: bytes) -> _Certificate:
    """Read a certificate: the common name is the user, the organizations are groups.

    A certificate that names a logical cluster is not a credential here: the server behind the proxy would accept the user in every cluster.
    """
    try:
        certificate = x509.load_der_x509_certificate(der)
        if binding_of(certificate) is not None:
            return _NOBODY
        names = subject_texts(certificate, NameOID.COMMON_NAME)[-1:]
        groups = subject_texts(certificate, NameOID.ORGANIZATION_NAME)
    except (ValueError, x509.InvalidVersion):
        return _NOBODY
    if not names or not all(map(_is_header_text, (*names, *groups))):
        return _NOBODY
    headers = [(b"impersonate-user", names[0].encode()), *((b"impersonate-group", group.encode()) for group in groups)]
    return _Certificate(tuple(headers), certificate.not_valid_before_utc.timestamp(), certificate.not_valid_after_utc.timestamp())


_NOBODY: Final = _Certificate((), 0, 0)


def _is_header_text(text: str) -> bool:
    """Whether a name stays what it is in a header: no line breaks, and no spaces that are cut off at its ends."""
    return bool(text) and text.isprintable() and text == text.strip()
