"""Host names of logical clusters."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.request.clusterhost import ClusterHosts

HOSTS = ClusterHosts("kcp.example")


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        (b"team-a.kcp.example", "team-a"),
        (b"team-a.kcp.example:6443", "team-a"),
        (b"Team-A.KCP.example", "team-a"),
        (b"team-a.kcp.example.", "team-a"),
        (b"team-a.kcp.example.:443", "team-a"),
        (b"root.kcp.example", "root"),
        (b"kcp.example", None),
        (b"kcp.example:6443", None),
        (b"xkcp.example", None),
        (b"team-a.kcp.example.org", None),
        (b"127.0.0.1:6443", None),
        (b"[::1]:6443", None),
        (b"", None),
        (b"a" * 300, None),
    ],
)
def test_cluster_of_a_host(host: bytes, expected: str | None) -> None:
    """The label in front of the domain is the cluster, in any case, with a port and a final dot or without."""
    assert HOSTS.cluster_of(host) == expected


@pytest.mark.parametrize(
    "host", [b"a.b.kcp.example", b".kcp.example", b"*.kcp.example", b"team_a.kcp.example", b"-.kcp.example", b"a." * 150 + b"kcp.example"]
)
def test_hosts_that_are_no_names(host: bytes) -> None:
    """A host below the domain that does not name a cluster is refused: the default cluster would answer instead."""
    with pytest.raises(StatusError, match="the host names no logical cluster: ") as caught:
        HOSTS.cluster_of(host)
    assert caught.value.code == 400


def test_the_domain_in_another_form() -> None:
    """Case and a final dot of the option make no difference."""
    assert ClusterHosts("KCP.Example.").cluster_of(b"a.kcp.example") == "a"
