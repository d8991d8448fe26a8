from __future__ import annotations

from functools import partial

import pytest

from kcp_py.logicalcluster import ROOT, WILDCARD, Name
from kcp_py.request.clusterhost import ClusterHosts
from kcp_py.server.chain import compose
from kcp_py.server.filters.cluster import ClusterFilter
from kcp_py.server.filters.errors import ErrorsFilter

pytestmark = pytest.mark.anyio


def chain(probe, **settings):
    return compose((ErrorsFilter, partial(ClusterFilter, **{"default_cluster": ROOT, **settings})), probe)


async def test_path(ask, probe):
    """The exchange has cluster and path separately."""
    assert (await ask(chain(probe), "/clusters/team-a/api/v1/pods/system%3Ax?limit=1")).status == 200
    assert (probe.last.cluster, probe.last.explicit_cluster, probe.last.path) == ("team-a", True, "/api/v1/pods/system:x")


async def test_default(ask, probe):
    """A request that names no cluster is for the default one, and known not to have named it."""
    await ask(chain(probe, default_cluster=Name("main")), "/api/v1/pods")
    assert (probe.last.cluster, probe.last.explicit_cluster) == ("main", False)


@pytest.mark.parametrize(
    ("header", "named"),
    [("X-Kubernetes-Cluster", " or in the header X-Kubernetes-Cluster"), ("X-Tenant", " or in the header X-Tenant"), ("", "")],
    ids=["usual header", "another header", "no header"],
)
async def test_no_default(ask, probe, header, named):
    """Where there is no default cluster, the refusal says how a request names one."""
    refused = await ask(chain(probe, default_cluster=None, header=header), "/api/v1/pods")
    assert (refused.status, refused.json()["reason"]) == (400, "BadRequest")
    fix = f"name it in the server URL (https://HOST:PORT/clusters/NAME){named}"
    assert refused.json()["message"] == f"the request names no logical cluster: {fix}"


async def test_no_default_and_a_header(ask, probe):
    """The header is enough."""
    await ask(chain(probe, default_cluster=None), "/api/v1/pods", headers=[("X-Kubernetes-Cluster", "team-a")])
    assert probe.last.cluster == "team-a"


async def test_wildcard(ask, probe):
    """The wildcard is its own value, not a name."""
    await ask(chain(probe), "/clusters/*/api/v1/pods")
    assert probe.last.cluster is WILDCARD


async def test_header(ask, probe):
    """The header names the cluster, in any case of its own name."""
    await ask(chain(probe), "/api", headers=[("X-Kubernetes-Cluster", "team-a")])
    assert (probe.last.cluster, probe.last.explicit_cluster) == ("team-a", True)


async def test_configured_header(ask, probe):
    """Another header can be configured, and the usual one then means nothing."""
    app = chain(probe, header="X-Tenant")
    await ask(app, "/api", headers=[("X-Tenant", "team-a"), ("X-Kubernetes-Cluster", "team-b")])
    assert probe.last.cluster == "team-a"


async def test_header_switched_off(ask, probe):
    """Without a header name, no header is looked at, however often it is there."""
    headers = [("X-Kubernetes-Cluster", "team-a"), ("X-Kubernetes-Cluster", "../x"), ("", "team-b")]
    await ask(chain(probe, header=""), "/api", headers=headers)
    assert probe.last.cluster == ROOT


async def test_header_twice(ask, probe):
    """Two headers are 400, though they are equal."""
    headers = [("X-Kubernetes-Cluster", "team-a"), ("X-Kubernetes-Cluster", "team-a")]
    assert (await ask(chain(probe), "/api", headers=headers)).status == 400
    assert not probe.seen


@pytest.mark.parametrize("header", ["X-Forwarded-Prefix", "X-Forwarded-Host", "X-Original-URL", "X-Rewrite-URL", "Host"])
async def test_other_headers_never_choose(ask, probe, header):
    """No header of proxies, nor the host, has a say in the cluster."""
    await ask(chain(probe), "/clusters/team-a/api", headers=[(header, "/clusters/team-b")])
    assert probe.last.cluster == "team-a"


async def test_query_never_chooses(ask, probe):
    """No query parameter has a say in the cluster."""
    await ask(chain(probe), "/api?cluster=team-b&clusterName=team-b")
    assert probe.last.cluster == ROOT


async def test_path_is_resolved(ask, probe):
    """A path of several segments becomes the name at its end."""

    async def resolve(path):
        return Name("2x8k") if path == "root:org" else None

    app = chain(probe, resolve=resolve)
    assert (await ask(app, "/clusters/root:org/api")).status == 200
    assert probe.last.cluster == "2x8k"
    answer = await ask(app, "/clusters/root:nosuch/api")
    assert (answer.status, answer.json()["reason"]) == (404, "NotFound")
    assert answer.json()["message"] == 'workspaces.tenancy.kcp.io "root:nosuch" not found'


async def test_system_clusters_are_names(ask, probe):
    """A system cluster is not resolved, for all its colons."""
    await ask(chain(probe), "/clusters/system:admin/api")
    assert probe.last.cluster == "system:admin"


async def test_metrics_in_a_cluster(ask, probe):
    """Metrics belong to the server, not to a cluster: plain text 501."""
    answer = await ask(chain(probe), "/clusters/root/metrics")
    assert (answer.status, answer.body) == (501, b"shard-level endpoint not available at workspace scope\n")
    assert answer.header("content-type") == "text/plain; charset=utf-8"


async def test_refusal_is_a_status(ask, probe):
    """A bad name is told in kcp's words."""
    answer = await ask(chain(probe), "/clusters/Bad_Name/api")
    assert (answer.status, answer.json()["reason"]) == (400, "BadRequest")
    assert answer.json()["message"] == 'invalid cluster: "Bad_Name" does not match the regex'


@pytest.mark.parametrize(
    ("root", "path", "cluster"),
    [
        pytest.param("/kube", "/kube/clusters/team-a/api", "team-a", id="mounted"),
        pytest.param("/kube/", "/kube/clusters/team-a/api", "team-a", id="with a slash"),
        pytest.param("/kube", "/kube/api", "root", id="default"),
        pytest.param("/clusters/team-b", "/clusters/team-b/clusters/team-a/api", "team-a", id="a mount that looks like a cluster"),
    ],
)
async def test_mounted(ask, probe, root, path, cluster):
    """An application that is mounted below a path reads only the rest of the path."""
    assert (await ask(chain(probe), path, root_path=root)).status == 200
    assert (probe.last.cluster, probe.last.path) == (cluster, "/api")


@pytest.mark.parametrize("path", ["/kubeX/clusters/team-a/api", "/clusters/team-a/api", "/%6bube/clusters/team-a/api"])
async def test_beside_the_mount(ask, probe, path):
    """What does not come in through the mount is nowhere."""
    assert (await ask(chain(probe), path, root_path="/kube")).status == 404
    assert not probe.seen


@pytest.mark.parametrize("name", ["X_Kubernetes_Cluster", "X-Kubernetes_Cluster", "x_kubernetes-cluster"])
async def test_a_name_with_underscores_is_another_name(ask, probe, name):
    """A header that is spelled with an underscore does not name a cluster, alone or together with the real one."""
    await ask(chain(probe), "/api", headers=[(name, "team-a")])
    assert probe.last.cluster == ROOT
    await ask(chain(probe), "/api", headers=[("X-Kubernetes-Cluster", "team-b"), (name, "team-a")])
    assert probe.last.cluster == "team-b"


HOSTS = ClusterHosts("kcp.example")


async def test_host(ask, probe):
    """The host name alone names the cluster; the server's own host leaves that to the path."""
    await ask(chain(probe, hosts=HOSTS), "/api", headers=[("Host", "team-a.kcp.example:6443")])
    assert (probe.last.cluster, probe.last.explicit_cluster, probe.last.path) == ("team-a", True, "/api")
    await ask(chain(probe, hosts=HOSTS), "/clusters/team-b/api", headers=[("Host", "kcp.example")])
    assert probe.last.cluster == "team-b"
    await ask(chain(probe, hosts=HOSTS), "/clusters/team-a/api", headers=[("Host", "team-a.kcp.example")])
    assert probe.last.cluster == "team-a"


@pytest.mark.parametrize("path", ["/clusters/team-b/api", "/clusters/*/api", "/clusters/root:a:b/api"])
async def test_a_path_below_the_host_of_another_cluster(ask, probe, path):
    """A path that names another cluster, or all of them, is refused."""
    refused = await ask(chain(probe, hosts=HOSTS), path, headers=[("Host", "team-a.kcp.example")])
    assert (refused.status, refused.json()["message"]) == (400, "the host and the path or the header name different logical clusters")


async def test_a_header_and_a_host(ask, probe):
    """They must agree, too."""
    for cluster, status in (("team-a", 200), ("team-b", 400), ("*", 400)):
        headers = [("Host", "team-a.kcp.example"), ("X-Kubernetes-Cluster", cluster)]
        assert (await ask(chain(probe, hosts=HOSTS), "/api", headers=headers)).status == status


async def test_hosts_are_nothing_without_the_option(ask, probe):
    """Without it a Host header does not choose a cluster, nor do the headers of proxies with it."""
    await ask(chain(probe), "/api", headers=[("Host", "team-a.kcp.example")])
    assert probe.last.cluster == "root"
    await ask(chain(probe, hosts=HOSTS), "/api", headers=[("Host", "kcp.example"), ("X-Forwarded-Host", "team-a.kcp.example")])
    assert probe.last.cluster == "root"


@pytest.mark.parametrize(
    ("handshake", "host", "status"),
    [
        ("team-a.kcp.example", "team-a.kcp.example:6443", 200),
        ("team-b.kcp.example", "team-a.kcp.example", 421),
        ("kcp.example", "team-a.kcp.example", 421),
        ("team-a.kcp.example", "kcp.example", 421),
        ("other.example", "kcp.example", 200),
        (None, "team-a.kcp.example", 200),
    ],
)
async def test_the_host_of_the_handshake(ask, probe, handshake, host, status):
    """A connection to the host of one cluster is not for another one."""
    answer = await ask(chain(probe, hosts=HOSTS), "/api", headers=[("Host", host)], state={"server_name": handshake})
    assert answer.status == status
