"""`ImpersonationFilter`: lets callers that may do so act as another user, as `kubectl --as` asks for.

Source: k8s.io/apiserver `pkg/endpoints/filters/impersonation`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Mapping, Sequence
from typing import Final, NamedTuple
from urllib.parse import unquote_to_bytes

from kcp_py.apimachinery.errors import StatusError, bad_request
from kcp_py.authz.authorizer import Authorizer
from kcp_py.authz.forbidden import forbidden
from kcp_py.authz.impersonation import withheld
from kcp_py.golang.quoting import go_quote
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.user import ALL_AUTHENTICATED, ALL_UNAUTHENTICATED, ANONYMOUS, SERVICE_ACCOUNT_PREFIX, UserInfo
from kcp_py.server.exchange import Exchange, Handler

_PREFIX: Final = b"impersonate-"
_USER: Final = b"impersonate-user"
_GROUP: Final = b"impersonate-group"
_UID: Final = b"impersonate-uid"
_EXTRA: Final = b"impersonate-extra-"
_ORDINARY: Final = frozenset(
    b"accept accept-encoding authorization connection content-length content-type host kubectl-command kubectl-session user-agent".split()
)
"""What nearly all requests have and no more: looking closer at each name costs half a microsecond."""
_NODE: Final = "system:node:"
_AUTHENTICATION: Final = "authentication.k8s.io"


class _Wanted(NamedTuple):
    """Whom a request wants to act as: what its headers say."""

    name: str
    uid: str
    groups: Sequence[str]
    extra: Mapping[str, Sequence[str]]


class ImpersonationFilter:
    """Replaces the user of the exchange and of its context, once the caller is allowed to impersonate each part of the other."""

    def __init__(self, handler: Handler, *, authorizer: Authorizer) -> None:
        """Wrap `handler`. `authorizer` is asked for the verb `impersonate` on users, groups, uids and userextras."""
        self._handler = handler
        self._authorizer = authorizer

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        if not _ORDINARY.issuperset(exchange.headers) and any(name.startswith(_PREFIX) for name in exchange.headers):
            return self._go_on_as_another(exchange)
        return self._handler(exchange)

    async def _go_on_as_another(self, exchange: Exchange) -> None:
        await self._impersonate(exchange)
        await self._handler(exchange)

    async def _impersonate(self, exchange: Exchange) -> None:
        wanted = _wanted(exchange)
        if not wanted.name:
            raise bad_request(f"requested {_printed(wanted)} without impersonating a user name")
        context = exchange.context
        needed = _attributes(wanted)
        for attributes in needed:
            decision = await self._authorizer.authorize(context.user, context.cluster, attributes)
            if decision is None or not decision.allowed:
                raise _refusal(exchange, wanted, decision.reason if decision is not None else "")
        if reason := withheld(context.user, context.cluster, wanted.groups, wanted.extra):
            raise _refusal(exchange, wanted, reason)
        _remove_headers(exchange)
        exchange.impersonator = exchange.user
        exchange.impersonation = needed
        exchange.user = _user(wanted)
        exchange.context = context._replace(user=exchange.user)


def _refusal(exchange: Exchange, wanted: _Wanted, reason: str) -> StatusError:
    context = exchange.context
    info = context.info._replace(verb=f"impersonate-on:{_mode(wanted.name)}:{context.info.verb}")
    return forbidden(context.user, info, reason)


def _wanted(exchange: Exchange) -> _Wanted:
    """What the headers ask for.

    Raises:
        StatusError: 400 for a header of this kind that is not known: the request would run with more rights than its author thinks.
    """
    extra: dict[str, list[str]] = {}
    for header in exchange.headers:
        if header.startswith(_EXTRA):
            key = _unescaped(header.removeprefix(_EXTRA))
            extra.setdefault(key, []).extend(_texts(exchange, header))
        elif header.startswith(_PREFIX) and header not in {_USER, _GROUP, _UID}:
            raise bad_request(f"unknown impersonation header {go_quote(header.decode('latin-1'))}")
    (name,), (uid,) = (_texts(exchange, header)[:1] or [""] for header in (_USER, _UID))
    return _Wanted(name, uid, _texts(exchange, _GROUP), {key: extra[key] for key in sorted(extra)})


def _texts(exchange: Exchange, header: bytes) -> list[str]:
    return [value.decode("utf-8", "replace") for value in exchange.header_values(header)]


def _unescaped(key: bytes) -> str:
    """An extra key. Header names can have percent-encoded characters; malformed ones stay as they are."""
    escapes = key.split(b"%")[1:]
    if any(len(escape) < 2 or not escape[:2].isalnum() or escape[:2].strip(b"0123456789abcdefABCDEF") for escape in escapes):
        return key.decode("latin-1")
    return unquote_to_bytes(key).decode("utf-8", "replace")


def _attributes(wanted: _Wanted) -> list[RequestInfo]:
    """One request for each part of the wanted user, as an authorizer is asked about it."""
    impersonate = UNPARSED._replace(is_resource=True, verb="impersonate", version="v1")
    namespace, _, account = wanted.name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if wanted.name.startswith(SERVICE_ACCOUNT_PREFIX) and namespace and account:
        found = [impersonate._replace(resource="serviceaccounts", namespace=namespace, name=account)]
    else:
        found = [impersonate._replace(resource="users", name=wanted.name)]
    found += [impersonate._replace(resource="groups", name=group) for group in wanted.groups]
    authentication = impersonate._replace(group=_AUTHENTICATION)
    found += [
        authentication._replace(resource="userextras", subresource=key, name=value)
        for key, values in wanted.extra.items()
        for value in values
    ]
    return [*found, authentication._replace(resource="uids", name=wanted.uid)] if wanted.uid else found


def _user(wanted: _Wanted) -> UserInfo:
    """The user with the groups that every such user has, unless the request names groups that say otherwise."""
    groups = tuple(wanted.groups)
    namespace, _, account = wanted.name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if wanted.name.startswith(SERVICE_ACCOUNT_PREFIX) and namespace and account and not groups:
        groups = ("system:serviceaccounts", f"system:serviceaccounts:{namespace}")
    if wanted.name == ANONYMOUS.name:
        groups = groups if ALL_UNAUTHENTICATED in groups else (*groups, ALL_UNAUTHENTICATED)
    elif not {ALL_AUTHENTICATED, ALL_UNAUTHENTICATED} & set(groups):
        groups = (*groups, ALL_AUTHENTICATED)
    return UserInfo(wanted.name, wanted.uid, groups, {key: tuple(values) for key, values in wanted.extra.items()})


def _mode(name: str) -> str:
    """What a refusal calls this kind of impersonation."""
    if name.startswith(SERVICE_ACCOUNT_PREFIX):
        return "serviceaccount"
    return "arbitrary-node" if name.startswith(_NODE) else "user-info"


def _printed(wanted: _Wanted) -> str:
    """As Go prints the structure in upstream's message."""
    groups = f"[]string{{{', '.join(map(go_quote, wanted.groups))}}}" if wanted.groups else "[]string(nil)"
    values = [f"{go_quote(key)}:[]string{{{', '.join(map(go_quote, found))}}}" for key, found in wanted.extra.items()]
    extra = f"map[string][]string{{{', '.join(values)}}}" if values else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"", UID:{go_quote(wanted.uid)}, Groups:{groups}, Extra:{extra}}}'


def _remove_headers(exchange: Exchange) -> None:
    """Nothing further in sees the headers: what they say is done."""
    for name in [name for name in exchange.headers if name.startswith(_PREFIX)]:
        del exchange.headers[name]
    exchange.scope["headers"] = [header for header in exchange.scope["headers"] if not header[0].startswith(_PREFIX)]
