"""Logical clusters with markers in them, and requests that try to read or change those of others."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from kcp_py.logicalcluster import Name
from tests.authz.conftest import GROUP as RBAC_GROUP
from tests.authz.conftest import binding
from tests.server.handlers.conftest import Api

HOST: Final = "kcp.test"
CRDS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
LOGICAL_CLUSTERS: Final = "/apis/core.kcp.io/v1alpha1/logicalclusters"
MEDIA_TYPES: Final = (
    "application/json",
    "application/yaml",
    "application/vnd.kubernetes.protobuf",
    "application/json;as=Table;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io",
    "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
    "application/json;as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io",
    "application/com.github.proto-openapi.spec.v2@v1.0+protobuf",
)


@dataclass(frozen=True)
class Tenant:
    """A logical cluster and its administrator.

    Attributes:
        number: among all.
        marker: a text that is in objects of this cluster alone, and in no request to another one.
    """

    number: int
    marker: str

    @property
    def cluster(self) -> Name:
        return Name(f"canary-{self.number}")

    @property
    def user(self) -> str:
        return f"keeper-{self.number}"

    @property
    def group(self) -> str:
        """Of its own CRD. The name is known to the others."""
        return f"canary-{self.number}.example.com"

    async def token(self, api: Api) -> str:
        """A token of its service account."""
        path = f"/clusters/{self.cluster}/api/v1/namespaces/default/serviceaccounts/known/token"
        issued: str = (await api.ok("POST", path, {}))["status"]["token"]
        return issued

    def paths(self) -> Sequence[str]:
        """Of resources and pages in its cluster, below the prefix of the cluster."""
        core, own = "/api/v1/namespaces/default", f"/apis/{self.group}/v1"
        return (
            "/", "/api", "/apis", "/api/v1", own, f"/apis/{self.group}", "/version", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1",
            f"/openapi/v3{own}", "/.well-known/openid-configuration", "/openid/v1/jwks", "/healthz?verbose", "/metrics", "/tap/v1/changes",
            "/api/v1/namespaces", "/api/v1/namespaces/default", f"{core}/configmaps", f"{core}/configmaps/known", f"{core}/secrets",
            f"{core}/secrets/known", f"{core}/serviceaccounts", f"{core}/serviceaccounts/known", "/api/v1/configmaps", "/api/v1/secrets",
            "/api/v1/events", CRDS, f"{CRDS}/birds.{self.group}", f"{own}/birds", f"{own}/namespaces/default/birds/known",
            f"{own}/namespaces/default/birds/known/status", f"/apis/{RBAC_GROUP}/v1/clusterroles", f"/apis/{RBAC_GROUP}/v1/roles",
            f"/apis/{RBAC_GROUP}/v1/clusterrolebindings", f"/apis/{RBAC_GROUP}/v1/clusterroles/known", LOGICAL_CLUSTERS,
            f"{LOGICAL_CLUSTERS}/cluster", "/apis/metrics.kcp-py.dev/v1alpha1/clusterusages", "/apis/coordination.k8s.io/v1/leases",
            "/apis/certificates.k8s.io/v1/certificatesigningrequests",
        )  # fmt: skip

    def objects(self) -> Iterator[tuple[str, dict[str, Any]]]:
        """What its cluster contains: the path of a collection, and an object."""
        core = "/api/v1/namespaces/default"
        for name in ("known", self.marker):
            metadata = {"name": name, "labels": {"marker": self.marker}, "annotations": {"marker": self.marker}}
            yield f"{core}/configmaps", {"metadata": metadata, "data": {"marker": self.marker}}
            yield f"{core}/secrets", {"metadata": metadata, "stringData": {"marker": self.marker}}
            yield f"{core}/serviceaccounts", {"metadata": metadata}
            yield f"/apis/{RBAC_GROUP}/v1/clusterroles", {"metadata": metadata, "rules": []}
            yield "/apis/coordination.k8s.io/v1/namespaces/default/leases", {"metadata": metadata, "spec": {"holderIdentity": self.marker}}
        yield "/api/v1/namespaces", {"metadata": {"name": self.marker}}
        yield CRDS, self.definition()

    def definition(self) -> dict[str, Any]:
        """The CRD of its birds."""
        properties = {"song": {"type": "string", "description": self.marker, "default": self.marker}}
        schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}, "status": {"type": "object"}}}
        version = {"name": "v1", "served": True, "storage": True, "subresources": {"status": {}}, "schema": {"openAPIV3Schema": schema}}
        names = {"plural": "birds", "singular": "bird", "kind": "Bird", "shortNames": [self.marker]}
        spec = {"group": self.group, "scope": "Namespaced", "names": names, "versions": [version]}
        return {"metadata": {"name": f"birds.{self.group}"}, "spec": spec}

    async def settle(self, api: Api) -> None:
        """Make its cluster, with two administrators, and an object of each kind. The second is the service account `known`."""
        prefix = f"/clusters/{self.cluster}"
        bound = binding("keepers", "cluster-admin", f"User:{self.user}", "ServiceAccount:default:known")
        await api.ok("POST", f"{prefix}/apis/{RBAC_GROUP}/v1/clusterrolebindings", bound)
        for path, found in self.objects():
            await api.ok("POST", f"{prefix}{path}", found)
        birds = f"{prefix}/apis/{self.group}/v1/namespaces/default/birds"
        while (await api("GET", birds)).status_code == 404:
            await asyncio.sleep(0)
        for name in ("known", self.marker):
            await api.ok("POST", birds, {"apiVersion": f"{self.group}/v1", "kind": "Bird", "metadata": {"name": name}, "spec": {}})

    def marks(self) -> Sequence[bytes]:
        """The forms in which its marker shows in an answer."""
        plain = self.marker.encode()
        # Base64 of the marker alone, as in the data of a Secret.
        return plain, base64.b64encode(plain).rstrip(b"=")


@dataclass(frozen=True)
class Caller:
    """A holder of a credential.

    Attributes:
        token: a bearer token.
        home: a cluster that it may read.
        sees: the numbers of the tenants whose clusters it may read.
        account: whether it is a service account, whose requests without a cluster go to its own.
        everywhere: whether it tries the wildcard more often than others.
    """

    token: str
    home: Tenant
    sees: frozenset[int]
    account: bool = False
    everywhere: bool = False


@dataclass(frozen=True)
class Attack:
    """One request."""

    method: str
    url: str
    headers: Sequence[tuple[str, str]]
    body: bytes | None


def attack(random: Random, caller: Caller, victim: Tenant, borrowed: Sequence[str]) -> Attack:
    """A request for what another tenant has.

    Args:
        random: decides.
        caller: whose token it has. It reads its own cluster, too, and writes nothing there.
        victim: whose names it knows, but not the marker.
        borrowed: texts from earlier answers to the caller, such as tokens of pages.
    """
    attacker = caller.home
    own = random.random() < 0.2
    if own:
        # What a tenant reads in its own cluster must not show others either.
        victim = attacker
    path, _, query = random.choice(victim.paths()).partition("?")
    method = random.choice(("GET", "GET", "GET", "GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS"))
    headers: list[tuple[str, str]] = [("Authorization", random.choice((*(f"Bearer {caller.token}",) * 3, "Bearer x", "")))]
    headers.append(("Accept", random.choice(MEDIA_TYPES)))
    url, chosen = ("/clusters/*", []) if caller.everywhere and random.random() < 0.5 else _address(random, attacker, victim)
    headers += chosen
    if own or (caller.account and not url and not chosen) or any(name == "X-Forwarded-Host" for name, _ in chosen):
        method = "GET"
    headers += random.choice(_IDENTITIES)(attacker, victim) if random.random() < 0.3 else []
    parameters = [query] if query else []
    if random.random() < 0.4:
        parameters.append(random.choice(_parameters(victim, borrowed)))
    body = _body(random, attacker, victim) if method in {"POST", "PUT", "PATCH", "DELETE"} else None
    if body is not None:
        headers.append(("Content-Type", _content_type(random, method)))
    if method == "PATCH":
        parameters += ["fieldManager=x", "force=true"]
    target = url + path + ("?" + "&".join(parameters) if parameters else "")
    return Attack(method, target, [header for header in headers if header[1]], body)


def _address(random: Random, attacker: Tenant, victim: Tenant) -> tuple[str, list[tuple[str, str]]]:
    """The beginning of a URL that leads, or might lead, to the cluster of the victim."""
    mine, theirs = attacker.cluster, victim.cluster
    header = "X-Kubernetes-Cluster"
    if random.random() < 0.5:
        return f"/clusters/{theirs}", []
    forms: Sequence[tuple[str, list[tuple[str, str]]]] = (
        ("", [(header, theirs)]),
        (f"/clusters/{mine}", [(header, theirs)]),
        ("", [(header, mine), (header, theirs)]),
        ("", [(header, f"{mine},{theirs}")]),
        ("", [(header, "*")]),
        ("/clusters/*", []),
        ("/clusters/%2A", []),
        ("/clusters/**", []),
        (f"/clusters/{mine},{theirs}", []),
        (f"/clusters/{mine}/../{theirs}", []),
        (f"/clusters/{mine}/%2e%2e/{theirs}", []),
        (f"/clusters/{mine}%2f..%2f{theirs}", []),
        (f"/clusters/{mine}%00/clusters/{theirs}", []),
        (f"/clusters/{mine}/clusters/{theirs}", []),
        (f"/clusters/{theirs.upper()}", []),
        (f"/clusters/{theirs}.", []),
        (f"/clusters/{theirs};x=1", []),
        (f"//clusters/{theirs}", []),
        (f"/clusters/root:{theirs}", []),
        (f"/clusters/{mine}/services/apiexport/{theirs}", []),
        (f"https://{theirs}.{HOST}", []),
        (f"https://{mine}.{HOST}/clusters/{theirs}", []),
        (f"https://{mine}.{HOST}", [(header, theirs)]),
        (f"https://{mine}.{HOST}", [("X-Forwarded-Host", f"{theirs}.{HOST}"), ("X-Forwarded-Prefix", f"/clusters/{theirs}")]),
        ("", []),
    )
    return random.choice(forms)


_IDENTITIES: Final = (
    lambda _, victim: [("Impersonate-User", victim.user)],
    lambda _, victim: [("Impersonate-User", victim.user), ("Impersonate-Group", "system:masters")],
    lambda *_: [("Impersonate-User", "x"), ("Impersonate-Group", "system:kcp:admin")],
    lambda _, victim: [
        ("Impersonate-User", "system:serviceaccount:default:known"),
        ("Impersonate-Extra-authentication.kcp.io%2fcluster-name", victim.cluster),
    ],
    lambda _, victim: [("Impersonate-User", f"system:kcp:serviceaccount:{victim.cluster}:default:known")],
    lambda _, victim: [("Impersonate-User", "x"), ("Impersonate-Extra-Authorization.kcp.io%2Fwarrant", json.dumps({"user": victim.user}))],
    lambda *_: [("Connection", "Impersonate-User, Authorization"), ("Impersonate-User", "x")],
    lambda _, victim: [("X-Remote-User", victim.user), ("X-Remote-Group", "system:masters")],
    lambda _, victim: [("X_Remote_User", victim.user), ("Impersonate_User", "kcp-admin")],
    lambda _, victim: [("Authorization", victim.user)],
    lambda *_: [("Authorization", "Bearer secretx")],
)


def _parameters(victim: Tenant, borrowed: Sequence[str]) -> Sequence[str]:
    return (
        "watch=1&timeoutSeconds=1",
        "watch=1&timeoutSeconds=1&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
        "limit=1",
        "resourceVersion=0",
        "resourceVersion=1&resourceVersionMatch=Exact",
        "labelSelector=marker",
        "fieldSelector=metadata.name%3Dknown",
        f"fieldSelector=metadata.namespace%3D..%2F..%2F{victim.cluster}",
        f"cluster={victim.cluster}",
        "dryRun=All",
        "pretty=true",
        "timeout=60s",
        *(f"continue={text}" for text in borrowed),
    )


def _body(random: Random, attacker: Tenant, victim: Tenant) -> bytes:
    """An object that names the attacker: where it gets to shows whose cluster it changed."""
    trace = f"from-{attacker.user}"
    metadata: dict[str, Any] = {"name": random.choice(("known", trace, f"../{victim.cluster}/known", "")), "labels": {"from": trace}}
    metadata |= random.choice(
        (
            {},
            {"namespace": "default"},
            {"namespace": f"../{victim.cluster}"},
            {"generateName": f"{victim.cluster}/"},
            {"annotations": {"kcp.io/cluster": victim.cluster}},
            {"clusterName": victim.cluster},
            {"ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": "known", "uid": "1", "blockOwnerDeletion": True}]},
        )
    )
    attributes = {"verb": "*", "resource": "*", "group": "*", "namespace": "default"}
    spec = {
        "user": victim.user,
        "groups": ["system:masters"],
        "resourceAttributes": attributes,
        "token": victim.user,
        "namespace": "default",
    }
    kind, version = random.choice(
        (
            ("ConfigMap", "v1"),
            ("Secret", "v1"),
            ("Bird", f"{victim.group}/v1"),
            ("ClusterRole", f"{RBAC_GROUP}/v1"),
            ("LogicalCluster", "core.kcp.io/v1alpha1"),
            ("SubjectAccessReview", "authorization.k8s.io/v1"),
            ("DeleteOptions", "v1"),
        )
    )
    return json.dumps({"apiVersion": version, "kind": kind, "metadata": metadata, "spec": spec, "data": {}, "rules": []}).encode()


def _content_type(random: Random, method: str) -> str:
    if method != "PATCH":
        return random.choice(("application/json", "application/yaml"))
    kinds = ("merge-patch+json", "strategic-merge-patch+json", "apply-patch+yaml", "json-patch+json")
    return f"application/{random.choice(kinds)}"
