"""kubectl patches, applies and watches a resource that a class of a program serves."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from e2e.programs import serving

SERVER = Path(__file__).with_name("server_of_moons.py")
EUROPA = '{"apiVersion": "example.com/v1", "kind": "Moon", "metadata": {"name": "europa"}, "spec": {"color": "white"}}'

Kubectl = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def start(kubectl_binary: str, tmp_path: Path) -> Iterator[Kubectl]:
    """Starts kubectl on a logical cluster of the server."""
    with serving(SERVER, tmp_path) as url:

        def kubectl(cluster: str, *arguments: str) -> subprocess.Popen[str]:
            command = [kubectl_binary, "--server", f"{url}/clusters/{cluster}", "--request-timeout=60s", *arguments]
            environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
            pipe = subprocess.PIPE
            return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.STDOUT, text=True, env=environment)

        yield kubectl


def run(process: subprocess.Popen[str], document: str = "") -> str:
    """What a command prints."""
    return process.communicate(document, timeout=60)[0].strip()


def next_words(watch: subprocess.Popen[str]) -> list[str]:
    assert watch.stdout is not None
    return watch.stdout.readline().split()


def test_kubectl_changes_and_watches(start: Kubectl) -> None:
    """Merge and JSON patches, labels, server-side apply with its conflicts, and watches of one cluster and of all."""
    assert "moon.example.com/io patched" in run(start("a", "patch", "moon", "io", "--type=merge", "-p", '{"spec": {"color": "red"}}'))
    watches = start("a", "get", "moons", "-w", "--output-watch-events"), start("*", "get", "moons", "-w", "--output-watch-events")
    one, everywhere = watches
    try:
        # kubectl prints the objects of its list, then those with which the watch begins.
        assert [next_words(one) for _ in range(3)] == [["EVENT", "NAME", "COLOR"], ["ADDED", "io", "red"], ["ADDED", "io", "red"]]
        assert next_words(everywhere) == ["EVENT", "CLUSTER", "NAME", "COLOR"]
        assert [next_words(everywhere) for _ in range(2)] == [["ADDED", "root", "io", "yellow"]] * 2
        json_patch = '[{"op": "replace", "path": "/spec/color", "value": "blue"}]'
        assert "patched" in run(start("a", "patch", "moon", "io", "--type=json", "-p", json_patch))
        assert next_words(one) == ["MODIFIED", "io", "blue"]
        assert "labeled" in run(start("a", "label", "moon", "io", "size=3"))
        assert next_words(one) == ["MODIFIED", "io", "blue"]
        assert "serverside-applied" in run(start("a", "apply", "--server-side", "-f", "-"), EUROPA)
        assert next_words(one) == ["ADDED", "europa", "white"]
        other = EUROPA.replace("white", "grey")
        assert 'conflict with "kubectl"' in run(start("a", "apply", "--server-side", "--field-manager=other", "-f", "-"), other)
        forced = start("a", "apply", "--server-side", "--field-manager=other", "--force-conflicts", "-f", "-")
        assert "serverside-applied" in run(forced, other)
        assert next_words(one) == ["MODIFIED", "europa", "grey"]
        # A cluster exists from its first stored object on.
        assert "created" in run(start("b", "create", "configmap", "one"))
        assert next_words(everywhere) == ["ADDED", "b", "io", "yellow"]
    finally:
        for watch in watches:
            watch.kill()
            watch.communicate()
