from __future__ import annotations

from functools import partial

import pytest

from kcp_py.logicalcluster import ROOT
from kcp_py.server.chain import compose
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.errors import ErrorsFilter
from kcp_py.server.filters.requestinfo import RequestInfoFilter

pytestmark = pytest.mark.anyio


def chain(probe):
    return compose((ErrorsFilter, partial(ClusterFilter, default_cluster=ROOT), RequestInfoFilter), probe)


async def test_info(ask, probe):
    """The request is parsed from the path without the cluster."""
    await ask(chain(probe), "/clusters/a/apis/g.io/v1/namespaces/n/widgets/w/status", method="PUT")
    info = probe.last.info
    assert (info.verb, info.group, info.version, info.namespace, info.resource, info.name, info.subresource) == (
        "update", "g.io", "v1", "n", "widgets", "w", "status",
    )  # fmt: skip


async def test_malformed_query(ask, probe):
    """A malformed query ends the request."""
    assert (await ask(chain(probe), "/api/v1/pods/x?a=%zz")).status == 400
    assert not probe.seen
