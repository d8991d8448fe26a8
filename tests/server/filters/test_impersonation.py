"""Callers that may do so act as other users; no request runs as another user than it asks for."""

from __future__ import annotations

from functools import partial

import pytest

from kcp_py.authz import PrivilegedGroups
from kcp_py.logicalcluster import ROOT
from kcp_py.server.chain import compose
from kcp_py.server.filters.authentication import AuthenticationFilter
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.impersonation import ImpersonationFilter
from kcp_py.server.filters.requestinfo import RequestInfoFilter

pytestmark = pytest.mark.anyio

ADMIN = ("authorization", "Bearer admin")
ALICE = ("authorization", "Bearer alice")
MAPS = "/clusters/a/api/v1/namespaces/default/configmaps"


@pytest.fixture
def chain(probe, tokens):
    filters = (
        ErrorsFilter,
        partial(ClusterFilter, default_cluster=ROOT),
        RequestInfoFilter,
        partial(AuthenticationFilter, authenticator=tokens),
        partial(ImpersonationFilter, authorizer=PrivilegedGroups()),
    )
    return compose(filters, probe)


OF_A = {"authentication.kcp.io/cluster-name": ("a",)}
"""The extra field of a service account in the cluster of the requests."""
CASES = {
    "a user": ([("Impersonate-User", "bob")], ("bob", "", ("system:authenticated",), {})),
    "all there is": (
        [
            ("Impersonate-User", "bob"), ("Impersonate-Group", "dev"), ("Impersonate-Group", "ops"), ("Impersonate-Uid", "u1"),
            ("Impersonate-Extra-Scopes", "a"), ("Impersonate-Extra-Scopes", "b"), ("Impersonate-Extra-acme.com%2fX", "c"),
            ("Impersonate-Extra-100%zz", "d"),
        ],
        ("bob", "u1", ("dev", "ops", "system:authenticated"), {"scopes": ("a", "b"), "acme.com/X": ("c",), "100%zz": ("d",)}),
    ),
    "a service account": (
        [("Impersonate-User", "system:serviceaccount:default:sa")],
        (
            "system:serviceaccount:default:sa", "",
            ("system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"), OF_A,
        ),
    ),
    "a service account with groups": (
        [("Impersonate-User", "system:serviceaccount:default:sa"), ("Impersonate-Group", "dev")],
        ("system:serviceaccount:default:sa", "", ("dev", "system:authenticated"), OF_A),
    ),
    "the anonymous user": ([("Impersonate-User", "system:anonymous")], ("system:anonymous", "", ("system:unauthenticated",), {})),
    "a user that is not authenticated": (
        [("Impersonate-User", "bob"), ("Impersonate-Group", "system:unauthenticated")], ("bob", "", ("system:unauthenticated",), {}),
    ),
}  # fmt: skip


@pytest.mark.parametrize(("headers", "user"), CASES.values(), ids=CASES)
async def test_users(ask, probe, chain, headers, user):
    """The request goes on as the other user, with the groups that such a user has, and without the headers."""
    assert (await ask(chain, MAPS, headers=[ADMIN, *headers])).status == 200
    exchange = probe.last
    name, uid, groups, extra = user
    assert exchange.user == exchange.context.user == (name, uid, groups, {key.lower(): value for key, value in extra.items()})
    assert exchange.impersonator.name == "admin"
    assert not [name for name in (*exchange.headers, *dict(exchange.scope["headers"])) if b"impersonate" in name]


async def test_nobody_else_may(ask, probe, chain):
    """The refusal names the caller and the requested identity, and the handler does not run."""
    answer = await ask(chain, MAPS, headers=[ALICE, ("Impersonate-User", "bob")])
    assert (answer.status, answer.json()["reason"]) == (403, "Forbidden")
    assert answer.json()["message"] == (
        'configmaps is forbidden: User "alice" cannot impersonate-on:user-info:list resource "configmaps" in API group "" in the '
        'namespace "default"'
    )
    answer = await ask(chain, MAPS, headers=[("Impersonate-User", "system:serviceaccount:a:b"), ("Impersonate-Group", "system:masters")])
    assert answer.json()["message"] == (
        'serviceaccounts "b" is forbidden: User "system:anonymous" cannot impersonate resource "serviceaccounts" in API group "" in the '
        'namespace "a"'
    )
    assert not probe.seen


@pytest.mark.parametrize(("header", "printed"), [
    (("Impersonate-Group", "dev"), 'UID:"", Groups:[]string{"dev"}, Extra:map[string][]string(nil)'),
    (("Impersonate-Uid", "1"), 'UID:"1", Groups:[]string(nil), Extra:map[string][]string(nil)'),
    (("Impersonate-Extra-a", "1"), 'UID:"", Groups:[]string(nil), Extra:map[string][]string{"a":[]string{"1"}}'),
    (("Impersonate-User", ""), 'UID:"", Groups:[]string(nil), Extra:map[string][]string(nil)'),
])  # fmt: skip
async def test_without_a_name(ask, probe, chain, header, printed):
    """A request for parts of another identity never runs with the caller's own."""
    for user in (ADMIN, ALICE):
        answer = await ask(chain, MAPS, headers=[user, header])
        assert (answer.status, answer.json()["reason"]) == (400, "BadRequest")
    assert answer.json()["message"] == f'requested &user.DefaultInfo{{Name:"", {printed}}} without impersonating a user name'
    assert not probe.seen


@pytest.mark.parametrize("name", ["Impersonate-", "Impersonate-Users", "Impersonate-Extra"])
async def test_unknown_headers(ask, probe, chain, name):
    """A header that looks like these is refused, since the request would run with more rights than its author thinks."""
    answer = await ask(chain, MAPS, headers=[ADMIN, ("Impersonate-User", "bob"), (name, "x")])
    assert answer.status == 400
    assert not probe.seen


async def test_others_are_not_touched(ask, probe, chain):
    """A request without these headers stays its caller's."""
    await ask(chain, MAPS, headers=[ALICE, ("x-other", "1")])
    assert probe.last.user.name == "alice"
    assert probe.last.impersonator is None


@pytest.mark.parametrize("name", ["Impersonate_User", "impersonate_user", "Impersonate_Group", "Impersonate_Extra_scopes"])
async def test_a_name_with_underscores_is_another_name(ask, probe, chain, name):
    """As in kube-apiserver, such a header says nothing about users: the request stays its caller's."""
    for user, name_of_user in ((ADMIN, "admin"), (ALICE, "alice")):
        answer = await ask(chain, MAPS, headers=[user, (name, "bob")])
        assert answer.status == 200
        assert probe.last.user.name == name_of_user
        assert probe.last.impersonator is None
