"""`ClusterOptions`: the settings of logical clusters: how requests name them, and what each of them has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from kcp_py.options.fields import CLUSTERS, setting
from kcp_py.options.kinds import (
    ADDRESS_RANGES,
    BATTERIES,
    BOOLEAN,
    DURATION,
    HEADER,
    LIST,
    OPTIONAL_CLUSTER,
    PAIRS,
    PORT_RANGE,
    SIZE,
    choice,
)


@dataclass(frozen=True, kw_only=True)
class ClusterOptions:
    """The settings of logical clusters: how requests name them, and what each of them has."""

    default_cluster: str = setting(
        OPTIONAL_CLUSTER,
        "root",
        CLUSTERS,
        "Logical cluster of requests without one. Empty: they are refused, so that a client that drops the path of its URL writes nowhere.",
    )
    logical_clusters: Literal["implicit", "declared"] = setting(
        choice("implicit", "declared"),
        "implicit",
        CLUSTERS,
        "Whether privileged callers may use a logical cluster that does not exist yet (implicit: the first write creates it).",
    )
    logical_cluster_deletion_grace: float = setting(
        DURATION,
        0.0,
        CLUSTERS,
        "How long a deleted logical cluster can be undeleted before its content is deleted, unless the deletion has a gracePeriodSeconds.",
    )
    cluster_header: str = setting(
        HEADER,
        "X-Kubernetes-Cluster",
        CLUSTERS,
        "Request header that names the logical cluster, as an alternative to the path /clusters/NAME; empty disables it.",
    )
    cluster_hostnames: bool = setting(
        BOOLEAN,
        default=False,
        section=CLUSTERS,
        text="Whether each logical cluster has a host name of its own, NAME.EXTERNAL_HOSTNAME, for clients that drop the path of a URL. "
        "The server's own serving certificate then has the name *.EXTERNAL_HOSTNAME, and the DNS has to resolve it.",
    )
    single_cluster: bool = setting(
        BOOLEAN,
        default=False,
        section=CLUSTERS,
        text="Serve one logical cluster, root, as kube-apiserver serves its only one: URLs, headers and host names name no cluster, nor do "
        "issuers of tokens, and the resources of kcp are absent. For tests of programs that expect kube-apiserver.",
        hidden=True,
    )
    namespace_objects: bool = setting(
        BOOLEAN,
        default=True,
        section=CLUSTERS,
        text="Whether each namespace has the objects that controllers of Kubernetes create in it: the service account default and "
        "kube-root-ca.crt.",
        hidden=True,
    )
    runtime_config: tuple[str, ...] = setting(
        PAIRS,
        (),
        CLUSTERS,
        "Versions of the API to serve or not, as api/beta=false,apps/v1=false; what names a version comes before api/alpha, api/beta, "
        "api/ga, and these before api/all.",
        hidden=True,
    )
    cluster_annotation: Literal["always", "wildcard"] = setting(
        choice("always", "wildcard"),
        "always",
        CLUSTERS,
        "Which answers name the logical cluster of each object in the annotation kcp.io/cluster: all of them, as kcp's, or only those to "
        "wildcard requests, for clients that compare annotations.",
    )
    cluster_cache_bytes: int = setting(
        SIZE,
        128 * 1024 * 1024,
        CLUSTERS,
        "Memory for the definitions, roles, policies and quotas of logical clusters that are kept between requests, and read from the "
        "storage again where it is needed. 0: only for the cluster that was used last.",
    )
    batteries: tuple[str, ...] = setting(
        BATTERIES,
        ("*",),
        CLUSTERS,
        "Built-in resources that logical clusters serve, with their controllers and admission plugins: '*' stands for all that are on "
        "by default, 'foo' adds foo, '-foo' removes it, none serves no built-in resource.",
    )
    builtin_kinds: tuple[str, ...] = setting(
        LIST,
        (),
        CLUSTERS,
        "Kinds of Kubernetes that every logical cluster serves without a definition of its own: pods, deployments.apps, '*.batch', all.",
    )
    service_cluster_ip_range: tuple[str, ...] = setting(
        ADDRESS_RANGES,
        (),
        CLUSTERS,
        "Ranges from which the services of each logical cluster get their cluster IPs: one range, or one of each IP family, the default "
        "one first. They then get node ports, too. Empty: services get neither.",
    )
    service_node_port_range: str = setting(
        PORT_RANGE,
        "30000-32767",
        CLUSTERS,
        "Ports of nodes for the services of each logical cluster. Without --service-cluster-ip-range they are not given out.",
    )
