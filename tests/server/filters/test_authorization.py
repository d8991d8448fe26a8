from __future__ import annotations

from functools import partial

import pytest

from kcp_py.authz import ALLOWED, DENIED, AlwaysAllowPaths, AuthorizerUnion, PrivilegedGroups
from kcp_py.logicalcluster import ROOT
from kcp_py.server.chain import compose
from kcp_py.server.filters.authentication import AuthenticationFilter
from kcp_py.server.filters.authorization import AuthorizationFilter
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.requestinfo import RequestInfoFilter

pytestmark = pytest.mark.anyio

ADMIN = [("authorization", "Bearer admin")]
ALICE = [("authorization", "Bearer alice")]


@pytest.fixture
def chain(probe, tokens):
    def make(*authorizers):
        filters = (
            ErrorsFilter,
            partial(ClusterFilter, default_cluster=ROOT),
            RequestInfoFilter,
            partial(AuthenticationFilter, authenticator=tokens),
            partial(AuthorizationFilter, authorizer=AuthorizerUnion(*(authorizers or (AlwaysAllowPaths(), PrivilegedGroups())))),
        )
        return compose(filters, probe)

    return make


class Reading:
    """Allows all reads."""

    async def authorize(self, user, cluster, info):
        del user, cluster
        return ALLOWED if info.verb == "get" else None


async def test_who_may_read_opens_no_connection_to_a_pod(ask, probe, chain):
    """A GET of `exec`, `attach` or `portforward` needs the verb create as well. That of a log, and one of another resource, do not."""
    pods, creating = "/api/v1/namespaces/n/pods/x", ("attach", "exec", "portforward")
    for subresource in creating:
        answer = await ask(chain(Reading()), f"{pods}/{subresource}", headers=ALICE)
        assert (answer.status, answer.json()["message"]) == (403, 'pods "x" is forbidden: ')
        assert not probe.seen
        assert (await ask(chain(PrivilegedGroups()), f"{pods}/{subresource}", headers=ADMIN)).status == 200
        probe.seen.clear()
    for path in (f"{pods}/log", "/apis/g.io/v1/namespaces/n/pods/x/exec", "/api/v1/namespaces/n/services/x/exec"):
        assert (await ask(chain(Reading()), path, headers=ALICE)).status == 200


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(("GET", "/api/v1/namespaces/n/pods/x",
            'pods "x" is forbidden: User "alice" cannot get resource "pods" in API group "" in the namespace "n"'), id="namespaced"),
        pytest.param(("GET", "/apis/g.io/v1/widgets",
            'widgets.g.io is forbidden: User "alice" cannot list resource "widgets" in API group "g.io" at the cluster scope'), id="list"),
        pytest.param(("PUT", "/apis/g.io/v1/w/x/status",
            'w.g.io "x" is forbidden: User "alice" cannot update resource "w/status" in API group "g.io" at the cluster scope'),
            id="subresource"),
        pytest.param(("GET", "/metrics", 'forbidden: User "alice" cannot get path "/metrics"'), id="path"),
        pytest.param(("POST", "/", 'forbidden: User "alice" cannot post path "/"'), id="index"),
        pytest.param(("GET", "/apis", 'forbidden: User "alice" cannot get path "/apis"'), id="discovery"),
    ],
)  # fmt: skip
async def test_denial(ask, probe, chain, case):
    """Who is not allowed gets 403 in upstream's words, with the same answer in every cluster."""
    method, target, message = case
    for prefix in ("", "/clusters/team-a") if target != "/metrics" else ("",):
        answer = await ask(chain(), prefix + target, method=method, headers=ALICE)
        assert (answer.status, answer.json()["reason"], answer.json()["message"]) == (403, "Forbidden", message)
    assert not probe.seen


async def test_anonymous_denial(ask, chain):
    """Without credentials the denial names the anonymous user."""
    answer = await ask(chain(), "/api/v1/secrets")
    assert answer.status == 403
    assert 'User "system:anonymous" cannot list resource "secrets"' in answer.json()["message"]


async def test_privileged(ask, chain):
    """system:masters may do anything, wildcard included."""
    for target in ("/api/v1/secrets", "/clusters/*/api/v1/secrets", "/metrics", "/"):
        assert (await ask(chain(), target, headers=ADMIN)).status == 200


async def test_unknown_cluster_is_like_a_forbidden_one(ask, chain):
    """Whether a cluster exists cannot be told from the answer to a stranger."""

    class Existing:
        async def authorize(self, _user, cluster, _info):
            return None if cluster == "team-a" else DENIED

    app = chain(AlwaysAllowPaths(), Existing(), PrivilegedGroups())
    answers = [await ask(app, f"/clusters/{name}/api/v1/pods", headers=ALICE) for name in ("team-a", "nosuch")]
    assert answers[0].status == 403
    assert answers[0].body == answers[1].body
    assert [(await ask(app, f"/clusters/{name}/api/v1/pods", headers=ADMIN)).status for name in ("team-a", "nosuch")] == [200, 403]
