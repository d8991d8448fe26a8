"""What every namespace has, as kubectl shows it: the ServiceAccount `default` and the ConfigMap `kube-root-ca.crt`."""

from __future__ import annotations

import contextlib
import json
import subprocess
from collections.abc import Callable, Iterator, Sequence

from e2e.conftest import Kubectl, ServerProcess, lines_of


@contextlib.contextmanager
def watching(team: Kubectl, *arguments: str) -> Iterator[Callable[[], Sequence[str]]]:
    """A watch with kubectl; gives the words of its next line."""
    process: subprocess.Popen[str] = team.start("get", *arguments, "-w", "--output-watch-events", "--no-headers", "--request-timeout=60s")
    try:
        assert process.stdout is not None
        yield lambda: process.stdout.readline().split()  # type: ignore[union-attr]
    finally:
        process.kill()
        process.communicate()


def test_kubectl_finds_both_in_every_namespace(server: ServerProcess, kubectl: Callable[[str], Kubectl]) -> None:
    """`get` has their columns, `create` finds them taken, a deleted one comes back, and the certificates verify the server."""
    team = kubectl("defaults")
    team.run("create", "namespace", "shop")
    assert [line.split()[0] for line in lines_of(team.run("get", "sa", "-n", "shop"))] == ["NAME", "default"]
    assert team.run("get", "cm", "-n", "shop") == ""
    (header, row) = lines_of(team.run("get", "cm", "kube-root-ca.crt", "-n", "shop"))
    assert (header.split(), row.split()[:2]) == (["NAME", "DATA", "AGE"], ["kube-root-ca.crt", "1"])
    assert len(lines_of(team.run("get", "sa", "-A", "--no-headers"))) == 5
    assert "already exists" in team.run("create", "sa", "default", "-n", "shop", fails=True)
    team.run("create", "sa", "builder", "-n", "shop")
    assert team.run("get", "sa", "-n", "shop", "-o", "name").split() == ["serviceaccount/builder", "serviceaccount/default"]
    for kind, name in (("sa", "default"), ("cm", "kube-root-ca.crt")):
        before = team.json("get", kind, name, "-n", "shop")["metadata"]["uid"]
        team.run("delete", kind, name, "-n", "shop", "--timeout=60s")
        assert team.json("get", kind, name, "-n", "shop")["metadata"]["uid"] != before
    team.run("patch", "cm", "kube-root-ca.crt", "-n", "shop", "-p", json.dumps({"data": {"ca.crt": "forged"}}))
    published = team.json("get", "cm", "kube-root-ca.crt", "-n", "shop")["data"]
    assert published == {"ca.crt": server.ca_file.read_text()}


def test_watches_follow_namespaces_that_come_and_go(kubectl: Callable[[str], Kubectl]) -> None:
    """ADDED with a namespace and DELETED with it, changed or not; the deletion of the namespace waits for nothing."""
    team = kubectl("watched-defaults")
    team.run("create", "namespace", "first")
    with (
        watching(team, "sa", "-A", "--field-selector=metadata.namespace=shop") as accounts,
        watching(team, "sa", "-n", "first") as first,
    ):
        # The watch has begun when it shows the account that exists.
        assert first()[:2] == ["ADDED", "default"]
        team.run("create", "namespace", "shop")
        assert accounts()[:3] == ["ADDED", "shop", "default"]
        team.run("patch", "sa", "default", "-n", "shop", "-p", json.dumps({"imagePullSecrets": [{"name": "registry"}]}))
        assert accounts()[:3] == ["MODIFIED", "shop", "default"]
        team.run("delete", "namespace", "shop", "--timeout=60s")
        assert accounts()[:3] == ["DELETED", "shop", "default"]
    assert "NotFound" in team.run("get", "sa", "default", "-n", "shop", fails=True)
    team.run("create", "namespace", "shop")
    assert "imagePullSecrets" not in team.json("get", "sa", "default", "-n", "shop")
