from __future__ import annotations

from functools import partial

import pytest

from kcp_py.logicalcluster import ROOT
from kcp_py.server.chain import compose
from kcp_py.server.filters.authentication import AuthenticationFilter
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.requestinfo import RequestInfoFilter
from kcp_py.server.filters.wildcard import WildcardFilter

pytestmark = pytest.mark.anyio


@pytest.fixture
def app(probe, tokens):
    filters = (
        ErrorsFilter,
        partial(ClusterFilter, default_cluster=ROOT),
        RequestInfoFilter,
        partial(AuthenticationFilter, authenticator=tokens),
        WildcardFilter,
    )
    return compose(filters, probe)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/clusters/*/api/v1/pods", 200),
        ("GET", "/clusters/*/api/v1/pods?watch=1", 200),
        ("GET", "/clusters/*/api/v1/namespaces/n/pods", 200),
        ("GET", "/clusters/*/apis", 200),
        ("GET", "/clusters/*/api/v1/namespaces/n/pods/x", 200),
        ("GET", "/clusters/*/api/v1/namespaces/n/pods/x/status", 405),
        ("POST", "/clusters/*/api/v1/namespaces/n/pods", 405),
        ("PUT", "/clusters/*/api/v1/namespaces/n/pods/x", 405),
        ("PATCH", "/clusters/*/api/v1/namespaces/n/pods/x", 405),
        ("DELETE", "/clusters/*/api/v1/namespaces/n/pods/x", 405),
        ("DELETE", "/clusters/*/api/v1/pods", 405),
        ("BREW", "/clusters/*/api/v1/pods", 405),
        ("POST", "/clusters/*/api/v1/watch/pods", 405),
        ("POST", "/clusters/a/api/v1/pods", 200),
    ],
)
async def test_verbs(ask, app, method, path, status):
    """Across clusters, resources are read; nothing else."""
    assert (await ask(app, path, method=method)).status == status


async def test_message(ask, app):
    """The refusal is kcp's."""
    answer = await ask(app, "/clusters/*/apis/apps/v1/namespaces/n/deployments/x/scale")
    assert answer.json()["reason"] == "MethodNotAllowed"
    assert answer.json()["message"] == 'get is not supported on resources of kind "deployments.apps" in the `*` logical cluster'
