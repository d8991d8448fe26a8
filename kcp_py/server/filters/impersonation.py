"""`ImpersonationFilter`: lets callers that may do so act as another user, as `kubectl --as` asks for.

Source: k8s.io/apiserver `pkg/endpoints/filters/impersonation`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Final

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import bad_request
from kcp_py.authz.authorizer import Authorizer
from kcp_py.authz.impersonation import Impersonation, Wanted
from kcp_py.golang.quoting import go_quote
from kcp_py.request.headertexts import extra_key, header_text
from kcp_py.request.user import UserInfo
from kcp_py.server.exchange import Exchange, Handler
from kcp_py.server.responsehead import Header

_PREFIX: Final = b"impersonate-"
_USER: Final = b"impersonate-user"
_GROUP: Final = b"impersonate-group"
_UID: Final = b"impersonate-uid"
_EXTRA: Final = b"impersonate-extra-"
_ORDINARY: Final = frozenset(
    b"accept accept-encoding authorization connection content-length content-type host kubectl-command kubectl-session user-agent".split()
)
"""What nearly all requests have and no more: looking closer at each name costs half a microsecond."""
_KEPT_USERS: Final = 1024
_LONGEST_HEADERS: Final = 2048
"""Bytes of the headers whose meaning is kept."""


class ImpersonationFilter:
    """Replaces the user of the exchange and of its context, once the caller is allowed to impersonate each part of the other."""

    def __init__(self, handler: Handler, *, authorizer: Authorizer) -> None:
        """Wrap `handler`. `authorizer` is asked for the verb `impersonate` on users, groups, uids and userextras."""
        self._handler = handler
        self._impersonation = Impersonation(authorizer)
        self._wanted: LRU[tuple[Header, ...], Wanted] = LRU(_KEPT_USERS)

    def __call__(self, exchange: Exchange) -> Awaitable[None]:
        if not _ORDINARY.issuperset(exchange.headers) and any(name.startswith(_PREFIX) for name in exchange.headers):
            wanted = self._read(exchange)
            context = exchange.context
            user = self._impersonation.recall(context.user, context.cluster, info=context.info, wanted=wanted)
            if user is None:
                return self._go_on_as_another(exchange, wanted)
            _replace_user(exchange, wanted, user)
        return self._handler(exchange)

    async def _go_on_as_another(self, exchange: Exchange, wanted: Wanted) -> None:
        context = exchange.context
        user = await self._impersonation.authorize(context.user, context.cluster, info=context.info, wanted=wanted)
        _replace_user(exchange, wanted, user)
        await self._handler(exchange)

    def _read(self, exchange: Exchange) -> Wanted:
        """What the headers of a request ask for.

        Raises:
            StatusError: 400 for headers that say nothing, or more than is known: the request would run with more rights than its author
                thinks.
        """
        given: list[Header] = exchange.scope["headers"]
        asked = tuple((name, value) for name, value in given if name.startswith(_PREFIX))
        wanted = self._wanted.get(asked)
        if wanted is None:
            wanted = _wanted(asked)
            if not wanted.name:
                raise bad_request(f"requested {_printed(wanted)} without impersonating a user name")
            if sum(len(name) + len(value) for name, value in asked) <= _LONGEST_HEADERS:
                self._wanted.set(asked, wanted)
        return wanted


def _replace_user(exchange: Exchange, wanted: Wanted, user: UserInfo) -> None:
    """Go on as another user. Nothing further in sees the headers: what they say is done."""
    for name in [name for name in exchange.headers if name.startswith(_PREFIX)]:
        del exchange.headers[name]
    exchange.scope["headers"] = [header for header in exchange.scope["headers"] if not header[0].startswith(_PREFIX)]
    exchange.impersonator = exchange.user
    exchange.wanted_user = wanted
    exchange.user = user
    exchange.context = exchange.context._replace(user=user)


def _wanted(asked: Sequence[Header]) -> Wanted:
    """What headers ask for.

    Raises:
        StatusError: 400 for a header of this kind that is not known: the request would run with more rights than its author thinks.
    """
    extra: dict[str, list[str]] = {}
    for header, value in asked:
        if header.startswith(_EXTRA):
            extra.setdefault(extra_key(header.removeprefix(_EXTRA)), []).append(header_text(value))
        elif header not in {_USER, _GROUP, _UID}:
            raise bad_request(f"unknown impersonation header {go_quote(header.decode('latin-1'))}")
    (name,), (uid,) = (_texts(asked, header)[:1] or [""] for header in (_USER, _UID))
    return Wanted(name, uid, tuple(_texts(asked, _GROUP)), {key: tuple(extra[key]) for key in sorted(extra)})


def _texts(asked: Sequence[Header], wanted: bytes) -> list[str]:
    return [header_text(value) for header, value in asked if header == wanted]


def _printed(wanted: Wanted) -> str:
    """As Go prints the structure in upstream's message."""
    groups = f"[]string{{{', '.join(map(go_quote, wanted.groups))}}}" if wanted.groups else "[]string(nil)"
    values = [f"{go_quote(key)}:[]string{{{', '.join(map(go_quote, found))}}}" for key, found in wanted.extra.items()]
    extra = f"map[string][]string{{{', '.join(values)}}}" if values else "map[string][]string(nil)"
    return f'&user.DefaultInfo{{Name:"", UID:{go_quote(wanted.uid)}, Groups:{groups}, Extra:{extra}}}'
