from __future__ import annotations

import pytest

from kcp_py.authn import UserInfo
from kcp_py.authz import forbidden
from kcp_py.request.requestinfo import parse_query, parse_request


def status(user: str, method: str, url: str, reason: str = ""):
    path, _, query = url.partition("?")
    return forbidden(UserInfo(user), parse_request(method, path, parse_query(query.encode())), reason).to_status()


@pytest.mark.parametrize(
    ("method", "url", "message", "details"),
    [
        pytest.param(
            "GET", "/api/v1/namespaces/ns/pods/x",
            'pods "x" is forbidden: User "u" cannot get resource "pods" in API group "" in the namespace "ns"',
            {"name": "x", "kind": "pods"}, id="named",
        ),
        pytest.param(
            "POST", "/apis/apps/v1/namespaces/ns/deployments",
            'deployments.apps is forbidden: User "u" cannot create resource "deployments" in API group "apps" in the namespace "ns"',
            {"group": "apps", "kind": "deployments"}, id="without a name",
        ),
        pytest.param(
            "GET", "/api/v1/nodes?watch=1",
            'nodes is forbidden: User "u" cannot watch resource "nodes" in API group "" at the cluster scope',
            {"kind": "nodes"}, id="cluster scope",
        ),
        pytest.param(
            "PATCH", "/apis/g.io/v1/widgets/w/status",
            'widgets.g.io "w" is forbidden: User "u" cannot patch resource "widgets/status" in API group "g.io" at the cluster scope',
            {"name": "w", "group": "g.io", "kind": "widgets"}, id="subresource",
        ),
        pytest.param(
            "GET", "/api/v1/namespaces/ns/secrets?fieldSelector=metadata.name%3Dx",
            'secrets "x" is forbidden: User "u" cannot list resource "secrets" in API group "" in the namespace "ns"',
            {"name": "x", "kind": "secrets"}, id="field selector",
        ),
        pytest.param("GET", "/metrics", 'forbidden: User "u" cannot get path "/metrics"', {}, id="path"),
    ],
)  # fmt: skip
def test_texts(method, url, message, details):
    """A denial has upstream's words and details."""
    body = status("u", method, url)
    assert (body["code"], body["reason"], body["message"]) == (403, "Forbidden", message)
    assert body.get("details") == details


def test_reason():
    """What an authorizer adds stands at the end."""
    assert status("u", "GET", "/x", "workspace access not permitted")["message"].endswith('path "/x": workspace access not permitted')


def test_markup_is_neutralised():
    """Names with markup are escaped in the message."""
    message = status("<b>&", "GET", "/<script>")["message"]
    assert message == 'forbidden: User "&lt;b&gt;&amp;" cannot get path "/&lt;script&gt;"'


def test_quotes():
    """Quotes and control characters of a name are escaped."""
    assert 'User "a\\"b\\n"' in status('a"b\n', "GET", "/x")["message"]
