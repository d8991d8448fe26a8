from __future__ import annotations

from functools import partial

import pytest

from kcp_py.authn.anonymous import AnonymousAccess
from kcp_py.authn.requestheader import ProxyHeaders
from kcp_py.logicalcluster import ROOT
from kcp_py.request.user import UserInfo
from kcp_py.server.chain import compose
from kcp_py.server.filters.authentication import AuthenticationFilter
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.requestinfo import RequestInfoFilter

pytestmark = pytest.mark.anyio

ALICE = ("authorization", "Bearer alice")


@pytest.fixture
def chain(probe, tokens):
    def make(**settings):
        filters = (
            ErrorsFilter,
            partial(ClusterFilter, default_cluster=ROOT),
            RequestInfoFilter,
            partial(AuthenticationFilter, authenticator=tokens, **settings),
        )
        return compose(filters, probe)

    return make


async def test_context(ask, probe, chain):
    """The facts about a request are frozen together with its user."""
    await ask(chain(), "/clusters/a/api/v1/pods?watch=1", headers=[ALICE])
    context = probe.last.context
    assert (context.user.name, context.cluster, context.explicit_cluster, context.info.verb) == ("alice", "a", True, "watch")
    assert context.audit_id == probe.last.audit_id
    assert context.warnings is probe.last.warnings
    with pytest.raises(AttributeError):
        context.cluster = "b"


async def test_anonymous(ask, probe, chain):
    """Without credentials the user is the anonymous one, in its group alone."""
    await ask(chain(), "/api")
    assert (probe.last.user.name, probe.last.user.groups) == ("system:anonymous", ("system:unauthenticated",))


async def test_anonymous_switched_off(ask, probe, chain):
    """Where anonymous requests are not allowed, a request without credentials is 401."""
    assert (await ask(chain(anonymous=AnonymousAccess(enabled=False)), "/healthz")).status == 401
    assert not probe.seen


async def test_bad_credentials(ask, probe, chain):
    """A bad token is 401, not anonymous."""
    answer = await ask(chain(), "/healthz", headers=[("authorization", "Bearer guess")])
    assert (answer.status, answer.json()["reason"], answer.json()["message"]) == (401, "Unauthorized", "Unauthorized")
    assert not probe.seen


@pytest.mark.parametrize("second", ["Bearer alice", "Bearer admin", "Basic eDp5"])
async def test_authorization_twice(ask, probe, chain, second):
    """Two Authorization headers are 401, though they are equal."""
    assert (await ask(chain(), "/api", headers=[ALICE, ("authorization", second)])).status == 401
    assert not probe.seen


@pytest.mark.parametrize(
    "value",
    [
        "Authorization",
        "close, Authorization",
        "keep-alive,impersonate-user",
        "Impersonate-Extra-scopes",
        "X-Remote-User",
        "X-Forwarded-For",
        " audit-id ",
        "X-Kubernetes-Cluster",
        "X-Tenant",
        "Upgrade, Sec-WebSocket-Protocol",
        "Host",
    ],
)
async def test_connection_names_identity(ask, probe, chain, value):
    """A proxy must not be told to remove what identity depends on."""
    assert (await ask(chain(security_headers=["X-Tenant"]), "/api", headers=[ALICE, ("connection", value)])).status == 400
    assert not probe.seen


@pytest.mark.parametrize("value", ["keep-alive", "close", "Keep-Alive", "upgrade", "TE, keep-alive", ""])
async def test_ordinary_connection(ask, chain, value):
    """Other Connection headers are of no interest."""
    assert (await ask(chain(), "/api", headers=[ALICE, ("connection", value)])).status == 200


async def test_second_connection_header(ask, chain):
    """All Connection headers are looked at, not only the first."""
    headers = [ALICE, ("connection", "keep-alive"), ("connection", "authorization")]
    assert (await ask(chain(), "/api", headers=headers)).status == 400


@pytest.mark.parametrize("name", ["X-Remote-User", "X-Remote-Group", "X_Remote_User", "X-Remote-Extra-a"])
async def test_front_proxy_headers_are_ignored(ask, probe, chain, name):
    """The header of a front proxy does not identify a user."""
    await ask(chain(), "/api", headers=[(name, "admin")])
    assert probe.last.user.name == "system:anonymous"
    await ask(chain(), "/api", headers=[ALICE, (name, "system:masters")])
    assert probe.last.user.name == "alice"
    assert "system:masters" not in probe.last.user.groups


HEADERS = ProxyHeaders.of(["X-Remote-User"], ["X-Remote-Uid"], ["X-Team"], ["X-Remote-Extra-", "X-More-"])


class Proxied:
    """Shows the credentials of a request of a front proxy."""

    def __init__(self):
        self.seen = []

    async def authenticate(self, credentials):
        self.seen.append(credentials)
        return UserInfo("alice")


def proxied(probe, authenticator):
    filters = (
        ErrorsFilter,
        partial(ClusterFilter, default_cluster=ROOT),
        RequestInfoFilter,
        partial(AuthenticationFilter, authenticator=authenticator, proxy_headers=HEADERS),
    )
    return compose(filters, probe)


async def test_headers_of_a_front_proxy(ask, probe):
    """The authenticator sees all values, and what follows sees neither these headers nor their repetitions."""
    sent = [("x-remote-user", "alice"), ("x-team", "a"), ("x-team", "b"), ("x-more-key", "v"), ("accept", "*/*")]
    proxies = Proxied()
    assert (await ask(proxied(probe, proxies), "/api", headers=sent, state={"proxy_certificate": b"der"})).status == 200
    (credentials,) = proxies.seen
    assert credentials.proxy_certificate_der == b"der"
    assert credentials.values_of(b"x-team") == [b"a", b"b"]
    assert credentials.values_of(b"x-remote-user") == [b"alice"]
    assert probe.last.headers == {b"accept": b"*/*"}
    assert probe.last.scope["headers"] == [(b"accept", b"*/*")]


@pytest.mark.parametrize("header", ["X-Remote-User", "x-remote-uid"])
@pytest.mark.parametrize("values", [("alice", "mallory"), ("alice", "alice"), ("", "alice")])
async def test_a_repeated_name(ask, probe, header, values):
    """A proxy that added its header to that of its client would let the client choose: the request is 400."""
    sent = [("x-remote-user", "alice")] if header == "x-remote-uid" else []
    proxies = Proxied()
    answer = await ask(
        proxied(probe, proxies), "/api", headers=[*sent, *((header, value) for value in values)], state={"proxy_certificate": b"der"}
    )
    assert (answer.status, answer.json()["message"]) == (400, f"the header {header.lower()} must not be repeated")
    assert not proxies.seen


async def test_the_same_headers_without_a_front_proxy(ask, probe):
    """They have no meaning: they are not shown as credentials, and may be repeated."""
    proxies = Proxied()
    sent = [("x-remote-user", "alice"), ("x-remote-user", "bob")]
    for state in ({}, {"proxy_certificate": None}):
        assert (await ask(proxied(probe, proxies), "/api", headers=sent, state=state)).status == 200
        assert proxies.seen[-1].proxy_certificate_der is None
        assert proxies.seen[-1].repeated == ()


@pytest.mark.parametrize("named", ["X-Team", "x-more-key", "X-Remote-User", "x-remote-extra-scopes", "close, x-team"])
async def test_connection_must_not_name_headers_of_front_proxies(ask, probe, named):
    """A proxy in between would remove them, and with them a group or a restriction of the user."""
    answer = await ask(proxied(probe, Proxied()), "/api", headers=[("connection", named)])
    assert answer.status == 400
    assert not probe.seen
