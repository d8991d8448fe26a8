"""`authorize_impersonation`: what a caller needs to act as another user. `Impersonation` remembers which permissions that were.

There are several modes, and one of them is enough. In the constrained modes the caller needs the verb `impersonate:MODE` on every part of
the other user, and `impersonate-on:MODE:VERB` on the requested resource. In the legacy mode it needs the verb `impersonate` on every part,
and may then do all that the other user may do.

Source: k8s.io/apiserver `pkg/endpoints/filters/impersonation/mode.go` (KEP-5284).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, NamedTuple

from kcp_py.aio.lru import LRU
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.fielderrors import FieldError, aggregate, invalid
from kcp_py.apimachinery.meta.names import dns_label_problems, dns_subdomain_problems
from kcp_py.authz.authorizer import Authorizer, RecallingAuthorizer
from kcp_py.authz.forbidden import forbidden
from kcp_py.authz.withheld import withheld
from kcp_py.golang.quoting import go_quote
from kcp_py.logicalcluster import ClusterSelection, Wildcard
from kcp_py.request.requestinfo import UNPARSED, RequestInfo
from kcp_py.request.user import (
    ALL_AUTHENTICATED,
    ALL_UNAUTHENTICATED,
    ANONYMOUS,
    CLUSTER_NAME_EXTRA,
    SERVICE_ACCOUNT_PREFIX,
    SYSTEM_MASTERS,
    UserInfo,
    service_account_groups,
)

_AUTHENTICATION: Final = "authentication.k8s.io"
_NODE_PREFIX: Final = "system:node:"
_NODES: Final = "system:nodes"
_NODE_NAME_EXTRA: Final = "authentication.kubernetes.io/node-name"
_ASSOCIATED_NODE_KEYS: Final = "authentication.kubernetes.io/associated-node-keys"
_MANY: Final = 4
"""So many groups, or values of extra fields, are first authorized together, by the name `*`."""
_KEPT_BYTES: Final = 4 * 1024 * 1024
"""Bounded by its own and not by the budget of clusters: the permissions are those of users and not of clusters."""
_ALLOWED_BYTES: Final = 1000
_PART_BYTES: Final = 200
_PATH: Final = re.compile(r"[A-Za-z0-9/\-._~%!$&'()*+,;=:]+")
_PATH_MISMATCH: Final = f"Invalid path (regex used for validation is '{_PATH.pattern}')"


class Wanted(NamedTuple):
    """The user as whom a request wants to be made, as the client names it."""

    name: str
    uid: str
    groups: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]]

    @property
    def is_name_alone(self) -> bool:
        """Whether the server is to decide on the rest."""
        return not (self.uid or self.groups or self.extra)


class _Mode(NamedTuple):
    name: str
    """Empty for the legacy mode."""
    applies: Callable[[Wanted, UserInfo], bool]

    @property
    def verb(self) -> str:
        return f"impersonate:{self.name}" if self.name else "impersonate"

    def verb_on(self, verb: str) -> str:
        """The verb on the requested resource, from that of the request."""
        return f"impersonate-on:{self.name}:{verb}" if self.name else "impersonate"


class _Allowed(NamedTuple):
    """How a caller was allowed to act as another user."""

    mode: _Mode
    requester: UserInfo
    """The caller as authorizers see it."""
    parts: tuple[RequestInfo, ...]
    """The permissions, without that on the requested resource."""
    user: UserInfo
    """The other user."""
    lasting: bool
    """Whether these permissions suffice, whatever others the caller gets."""

    @property
    def weight(self) -> int:
        """About the bytes that it takes."""
        size = _ALLOWED_BYTES + sum(map(len, self.requester.groups))
        return size + sum(_PART_BYTES + len(part.subresource) + len(part.name) for part in self.parts)


class Impersonation:
    """Decides as whom requests go on, and keeps which permissions allow one user to be another one in a cluster.

    The authorizer is asked about each of these permissions for each request. So a permission that is revoked has no effect any more as soon
    as it has none on other requests.
    """

    def __init__(self, authorizer: Authorizer) -> None:
        """Begin without permissions. `authorizer` decides about each part."""
        self._authorizer = authorizer
        self._recall = authorizer.recall if isinstance(authorizer, RecallingAuthorizer) else None
        self._allowed: LRU[tuple[object, ...], _Allowed] = LRU(_KEPT_BYTES, weigh=lambda allowed: allowed.weight)

    def recall(self, requester: UserInfo, cluster: ClusterSelection, *, info: RequestInfo, wanted: Wanted) -> UserInfo | None:
        """The answer of `authorize`, if all permissions are at hand; else None."""
        recall = self._recall
        allowed = self._allowed.get(_key(requester, cluster, wanted)) if recall is not None else None
        if recall is None or allowed is None:
            return None
        requester = allowed.requester
        for part in allowed.parts:
            decision = recall(requester, cluster, part)
            if decision is None or not decision.allowed:
                return None
        if allowed.mode.name:
            decision = recall(requester, cluster, info._replace(verb=allowed.mode.verb_on(info.verb)))
            if decision is None or not decision.allowed:
                return None
        return allowed.user

    async def authorize(self, requester: UserInfo, cluster: ClusterSelection, *, info: RequestInfo, wanted: Wanted) -> UserInfo:
        """See `authorize_impersonation`."""
        allowed = await _find(self._authorizer, requester, cluster, info=info, wanted=wanted)
        if allowed.lasting:
            self._allowed.set(_key(requester, cluster, wanted), allowed)
        return allowed.user


def _key(requester: UserInfo, cluster: ClusterSelection, wanted: Wanted) -> tuple[object, ...]:
    """All that the needed permissions depend on."""
    return (
        cluster,
        *(requester.name, requester.uid, requester.groups, tuple(requester.extra.items())),
        *(wanted.name, wanted.uid, wanted.groups, tuple(wanted.extra.items())),
    )


async def authorize_impersonation(
    authorizer: Authorizer, requester: UserInfo, cluster: ClusterSelection, *, info: RequestInfo, wanted: Wanted
) -> UserInfo:
    """The user as whom the request goes on.

    Args:
        authorizer: decides about each part.
        requester: the caller.
        cluster: of the request.
        info: the request.
        wanted: the other user.

    Raises:
        StatusError: 403 with the refusal of the first mode, if no mode allows it, and for parts that are `withheld`.
    """
    return (await _find(authorizer, requester, cluster, info=info, wanted=wanted)).user


async def _find(authorizer: Authorizer, requester: UserInfo, cluster: ClusterSelection, *, info: RequestInfo, wanted: Wanted) -> _Allowed:
    """The first mode that allows it."""
    modes = [mode for mode in _MODES if mode.applies(wanted, requester)]
    failure: StatusError | None = None
    for mode in modes:
        asker = requester
        if mode.name == "associated-node":
            # Authorizers must not decide by the node: every pod of the service account acts as the node that it runs on.
            asker = requester._replace(extra={_ASSOCIATED_NODE_KEYS: tuple(sorted(requester.extra))})
        try:
            parts = await _authorize(authorizer, asker, cluster, info=info, wanted=wanted, mode=mode)
        except StatusError as error:
            if error.code != 403:
                raise
            failure = failure or error
        else:
            user = _user(wanted, mode)
            if reason := withheld(requester, cluster, user.groups, user.extra):
                raise forbidden(requester, info._replace(verb=modes[0].verb_on(info.verb)), reason)
            # A node has other groups in the stricter modes.
            lasting = mode is modes[0] or _node(wanted.name) is None
            return _Allowed(mode, asker, parts, _of_cluster(user, cluster), lasting)
    assert failure is not None, "the legacy mode always applies"
    raise failure


async def _authorize(
    authorizer: Authorizer, requester: UserInfo, cluster: ClusterSelection, *, info: RequestInfo, wanted: Wanted, mode: _Mode
) -> tuple[RequestInfo, ...]:
    """The permissions on the parts of the other user that allow one mode."""
    allowed: list[RequestInfo] = []

    async def check(attributes: RequestInfo) -> None:
        decision = await authorizer.authorize(requester, cluster, attributes)
        if decision is None or not decision.allowed:
            raise forbidden(requester, attributes, decision.reason if decision is not None else "")

    async def check_part(part: RequestInfo) -> None:
        await check(part)
        allowed.append(part)

    async def check_all(together: RequestInfo, each: list[RequestInfo]) -> None:
        if mode.name and len(each) >= _MANY:
            try:
                await check_part(together)
            except StatusError:
                pass
            else:
                return
        for part in each:
            await check_part(part)

    if mode.name:
        await check(info._replace(verb=mode.verb_on(info.verb)))
    await check_part(_name(mode, wanted))
    part = UNPARSED._replace(is_resource=True, verb=mode.verb, group=_AUTHENTICATION, version="v1")
    if wanted.uid:
        await check_part(part._replace(resource="uids", name=wanted.uid))
    groups = part._replace(group=_group(mode), resource="groups")
    if mode.name:
        _check_groups(requester, groups, wanted)
    await check_all(groups._replace(name="*"), [groups._replace(name=group) for group in wanted.groups])
    extra = part._replace(resource="userextras")
    if mode.name and (problem := next(_extra_problems(wanted.extra), "")):
        raise forbidden(requester, extra, problem)
    values = [extra._replace(subresource=key, name=value) for key, found in wanted.extra.items() for value in found]
    await check_all(extra._replace(subresource="*", name="*"), values)
    return tuple(allowed)


def _name(mode: _Mode, wanted: Wanted) -> RequestInfo:
    """The part that says who the user is."""
    part = UNPARSED._replace(is_resource=True, verb=mode.verb, group=_group(mode), version="v1", resource="users", name=wanted.name)
    if account := service_account(wanted.name):
        return part._replace(resource="serviceaccounts", namespace=account[0], name=account[1])
    if mode.name and (node := _node(wanted.name)):
        return part._replace(resource="nodes", name="*" if mode.name == "associated-node" else node)
    return part


def _group(mode: _Mode) -> str:
    """The API group of users and groups."""
    return _AUTHENTICATION if mode.name else ""


def _check_groups(requester: UserInfo, groups: RequestInfo, wanted: Wanted) -> None:
    if "" in wanted.groups:
        raise forbidden(requester, groups, "impersonating the empty string group is not allowed")
    if SYSTEM_MASTERS in wanted.groups:
        raise forbidden(requester, groups._replace(name=SYSTEM_MASTERS), "impersonating the system:masters group is not allowed")


def _extra_problems(extra: Mapping[str, tuple[str, ...]]) -> Iterator[str]:
    for key, values in extra.items():
        if not key:
            yield "impersonating the empty string key in extra is not allowed"
        if problems := _key_problems(key):
            yield f"impersonating an invalid key in extra is not allowed: {aggregate(problems)}"
        if key != key.lower():
            yield f"impersonating a non-lowercase key in extra is not allowed: {go_quote(key)}"
        if "" in values:
            yield "impersonating the empty string value in extra is not allowed"


def _key_problems(key: str) -> list[FieldError]:
    """Why a text is not a path below a domain, such as `acme.io/foo` (k8s.io/apimachinery `validation.IsDomainPrefixedPath`)."""
    domain, _, path = key.partition("/")
    if not domain or not path:
        return [invalid("extra.key", key, 'must be a domain-prefixed path (such as "acme.io/foo")')]
    problems = [invalid("extra.key", domain, problem) for problem in dns_subdomain_problems(domain)]
    return problems if _PATH.fullmatch(path) else [*problems, invalid("extra.key", path, _PATH_MISMATCH)]


def _user(wanted: Wanted, mode: _Mode) -> UserInfo:
    """The user with the groups that every such user has, unless the request names groups that say otherwise."""
    groups = wanted.groups
    account = service_account(wanted.name)
    if account and not groups:
        groups = service_account_groups(account[0])
    elif mode.name and _node(wanted.name):
        groups = (_NODES,)
    if wanted.name == ANONYMOUS.name:
        groups = groups if ALL_UNAUTHENTICATED in groups else (*groups, ALL_UNAUTHENTICATED)
    elif not {ALL_AUTHENTICATED, ALL_UNAUTHENTICATED} & set(groups):
        groups = (*groups, ALL_AUTHENTICATED)
    return UserInfo(wanted.name, wanted.uid, groups, wanted.extra)


def _of_cluster(user: UserInfo, cluster: ClusterSelection) -> UserInfo:
    """A service account is one of the cluster of the request, as with its token."""
    if isinstance(cluster, Wildcard) or service_account(user.name) is None:
        return user
    return user._replace(extra={CLUSTER_NAME_EXTRA: (cluster,), **user.extra})


def service_account(name: str) -> tuple[str, str] | None:
    """Namespace and name of the service account that a user name names; None for other users."""
    if not name.startswith(SERVICE_ACCOUNT_PREFIX):
        return None
    namespace, colon, account = name.removeprefix(SERVICE_ACCOUNT_PREFIX).partition(":")
    if not colon or dns_label_problems(namespace) or dns_subdomain_problems(account):
        return None
    return namespace, account


def _node(name: str) -> str | None:
    """The node that a user name names; None for other users."""
    node = name.removeprefix(_NODE_PREFIX)
    return node if name.startswith(_NODE_PREFIX) and not dns_subdomain_problems(node) else None


def _is_associated(wanted: Wanted, requester: UserInfo) -> bool:
    """Whether a service account wants to be the node that its token is bound to."""
    node = _node(wanted.name)
    bound = requester.extra.get(_NODE_NAME_EXTRA)
    return node is not None and wanted.is_name_alone and service_account(requester.name) is not None and bound == (node,)


_MODES: Final = (
    _Mode("associated-node", _is_associated),
    _Mode("arbitrary-node", lambda wanted, _: wanted.is_name_alone and _node(wanted.name) is not None),
    _Mode("serviceaccount", lambda wanted, _: wanted.is_name_alone and service_account(wanted.name) is not None),
    _Mode("user-info", lambda wanted, _: _node(wanted.name) is None and service_account(wanted.name) is None),
    _Mode("", lambda _wanted, _requester: True),
)
"""The stricter ones first."""
