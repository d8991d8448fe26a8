"""`AuthenticationFilter`: finds out who asks, for every route alike, and freezes the request context."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable
from typing import Final

from kcp_py.apimachinery.errors import StatusError, bad_request, unauthorized
from kcp_py.authn.anonymous import ALL_ANONYMOUS, AnonymousAccess
from kcp_py.authn.authenticator import UNDECIDED, Authenticator, Credentials, recall_of
from kcp_py.authn.requestheader import ProxyHeaders
from kcp_py.request.context import RequestContext
from kcp_py.request.notes import NOTES
from kcp_py.request.user import ANONYMOUS, UserInfo
from kcp_py.server.connectionstate import PEER_CERTIFICATE, PROXY_CERTIFICATE
from kcp_py.server.exchange import Exchange, Handler
from kcp_py.server.websocket import WebSocket

_HARMLESS_CONNECTION: Final = frozenset((b"keep-alive", b"Keep-Alive", b"close", b"Close"))
_SECURITY_HEADERS: Final = frozenset(
    (b"authorization", b"cookie", b"audit-id", b"x-kubernetes-cluster", b"host", b"sec-websocket-protocol")
)
_SECURITY_PREFIXES: Final = (b"impersonate-", b"x-remote-", b"x-forwarded-")


class AuthenticationFilter:
    """Sets `user` and `context` of the exchange. Headers that name users have a meaning in requests of front proxies alone."""

    def __init__(
        self,
        handler: Handler,
        *,
        authenticator: Authenticator,
        anonymous: AnonymousAccess = ALL_ANONYMOUS,
        security_headers: Iterable[str] = (),
        proxy_headers: ProxyHeaders | None = None,
    ) -> None:
        """Wrap `handler`.

        Args:
            handler: the next filter, or what answers requests.
            authenticator: knows the credentials.
            anonymous: which requests without credentials go on as `system:anonymous`; others are 401.
            security_headers: further headers that `Connection:` must not name.
            proxy_headers: those of front proxies; None where no proxy is trusted.
        """
        self._handler = handler
        self._authenticator = authenticator
        self._recall = recall_of(authenticator)
        self._anonymous = anonymous
        self._security_headers = _SECURITY_HEADERS.union(name.lower().encode() for name in security_headers)
        self._proxy_headers = proxy_headers

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        headers = exchange.headers
        connection = headers.get(b"connection")
        if connection is not None and (connection not in _HARMLESS_CONNECTION or exchange.has_duplicates):
            self._check_connection(exchange)
        if exchange.has_duplicates and len(exchange.header_values(b"authorization")) > 1:
            raise unauthorized()
        credentials = Credentials(headers, exchange.state.get(PEER_CERTIFICATE), exchange.cluster, exchange.path)
        if self._proxy_headers is not None and (proxy := exchange.state.get(PROXY_CERTIFICATE)) is not None:
            credentials = _of_proxy(credentials, proxy, exchange, self._proxy_headers)
        elif exchange.websocket is None:
            user = self._recall(credentials)
            if user is not UNDECIDED:
                return self._go_on(exchange, credentials, user)
        return self._authenticated(exchange, credentials)

    async def _authenticated(self, exchange: Exchange, credentials: Credentials) -> None:
        before = NOTES.set(exchange)
        try:
            if exchange.websocket is None:
                user = await self._authenticator.authenticate(credentials)
            else:
                credentials, user = await self._authenticate_websocket(credentials, exchange.websocket)
        finally:
            NOTES.reset(before)
        await self._go_on(exchange, credentials, user)

    def _go_on(self, exchange: Exchange, credentials: Credentials, user: UserInfo | None) -> Awaitable[None]:
        if user is None:
            if not self._anonymous.allows(exchange.path):
                raise unauthorized()
            user = ANONYMOUS
        if credentials.proxy_certificate_der is not None and self._proxy_headers is not None:
            _remove_headers(exchange, self._proxy_headers)
        exchange.credentials = credentials
        exchange.user = user
        exchange.context = RequestContext(
            exchange.audit_id,
            exchange.cluster,
            exchange.explicit_cluster,
            exchange.info,
            user,
            exchange.warnings,
            exchange.audit_annotations,
        )
        return self._handler(exchange)

    async def _authenticate_websocket(self, credentials: Credentials, websocket: WebSocket) -> tuple[Credentials, UserInfo | None]:
        """The user, and the credentials that identified it."""
        token = websocket.split().token
        failure: StatusError | None = None
        try:
            user = await self._authenticator.authenticate(credentials)
        except StatusError as error:
            user, failure = None, error
        if user is None and token is not None:
            subprotocol = Credentials({b"authorization": b"Bearer " + token}, None, credentials.cluster, credentials.path)
            user = await self._authenticator.authenticate(subprotocol)
            if user is None:
                raise unauthorized()
            return subprotocol, user
        if user is None and failure is not None:
            raise failure
        return credentials, user

    def _check_connection(self, exchange: Exchange) -> None:
        """A proxy removes the headers that `Connection` names; one that carries identity must not get lost on the way."""
        for value in exchange.header_values(b"connection"):
            for token in value.lower().split(b","):
                name = token.strip()
                if (
                    name in self._security_headers
                    or name.startswith(_SECURITY_PREFIXES)
                    or (self._proxy_headers is not None and self._proxy_headers.reads(name))
                ):
                    raise bad_request("the Connection header must not name a header that decides about identity")


def _of_proxy(credentials: Credentials, certificate: bytes, exchange: Exchange, names: ProxyHeaders) -> Credentials:
    """The credentials of a request of a front proxy.

    Raises:
        StatusError: 400 for a repeated name or uid. A proxy that adds its header to that of a client would let the client choose.
    """
    if not exchange.has_duplicates:
        return credentials._replace(proxy_certificate_der=certificate)
    for name in (*names.users, *names.uids):
        if len(exchange.header_values(name)) > 1:
            raise bad_request(f"the header {name.decode()} must not be repeated")
    return credentials._replace(proxy_certificate_der=certificate, repeated=exchange.scope["headers"])


def _remove_headers(exchange: Exchange, names: ProxyHeaders) -> None:
    """Nothing further in sees the headers of a front proxy: what they say is done."""
    exchange.headers = {name: value for name, value in exchange.headers.items() if not names.reads(name)}
    exchange.scope["headers"] = [header for header in exchange.scope["headers"] if not names.reads(header[0])]
