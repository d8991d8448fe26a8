"""Rows about servers in front of or behind another one: the caching proxy, and an aggregated API server. All of them on one core."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Final

from tests.benchmarks.load import Target, run
from tests.benchmarks.objects import config_map, creates, repeated
from tests.benchmarks.processes import kcp, listening, trusting
from tests.benchmarks.row import Row, percentiles
from tests.serving.authorities import Issued, new_authority

SAMPLE: Final = f"{Path(__file__).resolve().parents[2] / 'config/samples/library/aggregated.py'}:control_plane"
MAPS: Final = "/api/v1/namespaces/default/configmaps"
FOOS: Final = "/apis/hello.zeng.dev/v1/namespaces/default/foos"
FOO: Final = {"apiVersion": "hello.zeng.dev/v1", "kind": "Foo", "metadata": {"name": "one"}, "spec": {"msg": "hi"}}
CONNECTIONS: Final = 16
REQUESTS: Final = 5_000
LISTS: Final = 200


async def proxy_row(directory: Path) -> AsyncIterator[Row]:
    """GET and list through the proxy, from its cache and passed on, compared with the server behind it."""
    root, home = directory / "proxied", directory / "proxy"
    with kcp(root, plain=False) as server:
        names = (f"m{number}" for number in range(500))
        await run(
            server.target, creates(server.target, MAPS, names, lambda name: config_map(name, "x" * 700)), connections=16, expect=b" 201 "
        )
        command = ["proxy", "--kubeconfig", str(root / "admin.kubeconfig"), "--listen", "127.0.0.1:0", "--root-directory", str(home)]
        with listening(command, directory / "proxy.log") as (_, port, _seconds):
            token = (root / "admin-tokens.csv").read_text().partition(",")[0]
            target = Target(port, tls=trusting(home / "pki"), token=token)
            paths = {
                "GET of a 1 KB object, from the cache": (f"{MAPS}/m7?resourceVersion=0", REQUESTS),
                "GET of a 1 KB object, passed on": (f"{MAPS}/m7", REQUESTS),
                "list of 500 objects of 1 KB, from the cache": (f"{MAPS}?resourceVersion=0", LISTS),
            }
            for work, (path, count) in paths.items():
                yield await _compared(f"proxy: {work}", server.target, target, path, count)


async def aggregated_row(directory: Path) -> AsyncIterator[Row]:
    """GET by a front proxy in the name of a user, compared with the same program as a server of its own."""
    alone, delegate, root = directory / "alone", directory / "delegate", directory / "aggregated"
    proxies = new_authority("proxies")
    certificate = directory / "front-proxy.pem"
    certificate.write_bytes(_with_key(proxies.issue("front-proxy")))
    with kcp(alone, "--app", SAMPLE, "--storage", "memory", plain=False) as direct, kcp(delegate, plain=False) as other:
        body = json.dumps(_published(proxies)).encode()
        answer = await other.target.one("POST", "/api/v1/namespaces/kube-system/configmaps", body)
        assert b" 201 " in answer[:16], answer
        command = ["aggregated", SAMPLE, "--kubeconfig", str(delegate / "admin.kubeconfig"), "--root-directory", str(root)]
        with listening([*command, "--secure-port", "0"], directory / "aggregated.log") as (_, port, _seconds):
            for name, user in (
                ("a member of system:masters", ("admin", "system:masters")),
                ("a user that the delegate permits", ("bob", "dev")),
            ):
                headers = {"X-Remote-User": user[0], "X-Remote-Group": user[1]}
                target = Target(port, tls=trusting(root / "pki", certificate), headers=headers)
                if user[0] == "admin":
                    for one in (direct.target, target):
                        answer = await one.one("POST", FOOS, json.dumps(FOO).encode())
                        assert b" 201 " in answer[:16], answer
                else:
                    await _permit(other.target, user[1])
                yield await _compared(f"aggregated: GET by {name}", direct.target, target, f"{FOOS}/one", REQUESTS)


async def _compared(work: str, direct: Target, through: Target, path: str, count: int) -> Row:
    for one in (direct, through):
        await run(one, repeated(one.head("GET", path), count // 10), connections=CONNECTIONS)
    theirs = await run(direct, repeated(direct.head("GET", path), count), connections=CONNECTIONS)
    mine = await run(through, repeated(through.head("GET", path), count), connections=CONNECTIONS)
    return Row(work, f"{mine.rate:,.0f}/s", f"{theirs.rate:,.0f}/s", f"{mine.rate / theirs.rate:.0%}", "", percentiles(mine))


async def _permit(delegate: Target, group: str) -> None:
    """A role of the delegate, and access to its logical cluster."""
    roles = "/apis/rbac.authorization.k8s.io/v1"
    rules = [{"apiGroups": ["hello.zeng.dev"], "resources": ["foos"], "verbs": ["get"]}]
    bodies = [("clusterroles", {"metadata": {"name": "foos"}, "rules": rules})]
    for name in ("foos", "system:kcp:workspace:access"):
        reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
        subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": group}
        bodies.append(("clusterrolebindings", {"metadata": {"name": f"dev:{name}"}, "roleRef": reference, "subjects": [subject]}))
    for kind, body in bodies:
        answer = await delegate.one("POST", f"{roles}/{kind}", json.dumps(body).encode())
        assert b" 201 " in answer[:16], answer


def _published(proxies: Issued) -> dict[str, object]:
    """The ConfigMap by which a server says how its requests can be known."""
    lists = {"allowed-names": ["front-proxy"], "username-headers": ["X-Remote-User"], "group-headers": ["X-Remote-Group"]}
    data = {f"requestheader-{name}": json.dumps(values) for name, values in lists.items()}
    data |= {"requestheader-client-ca-file": proxies.pem.decode(), "client-ca-file": new_authority("users").pem.decode()}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "extension-apiserver-authentication"}, "data": data}


def _with_key(issued: Issued) -> bytes:
    from cryptography.hazmat.primitives import serialization

    plain = serialization.NoEncryption()
    return issued.key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, plain) + issued.pem


PROXY_ROWS: dict[str, Callable[[Path], AsyncIterator[Row]]] = {
    "proxy": proxy_row,
    "aggregated": aggregated_row,
}
