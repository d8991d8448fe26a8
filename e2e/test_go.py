"""client-go's shared informers over every logical cluster at once: the program of `e2e/go`, fed with writes from here."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import configmap, create_definition, definition

# A first build compiles client-go.
BUILD_SECONDS = 900
GROUP = "go.example.com"
MODULE = Path(__file__).parent / "go"

pytestmark = pytest.mark.xdist_group("go")


@pytest.fixture(scope="session")
def informer_binary(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The program, built outside of the checkout."""
    go = shutil.which("go")
    if go is None:
        pytest.skip("no Go toolchain in PATH")
    binary = tmp_path_factory.mktemp("go") / "informer"
    command = [go, "build", "-buildvcs=false", "-o", str(binary), "."]
    built = subprocess.run(command, cwd=MODULE, capture_output=True, text=True, timeout=BUILD_SECONDS, check=False)
    assert built.returncode == 0, built.stderr
    return binary


class GoInformer:
    """The running program."""

    def __init__(self, binary: Path, server: ServerProcess, *resources: str, watch_list: bool) -> None:
        self.process = subprocess.Popen(
            [str(binary), "--host", f"{server.url}/clusters/*", "--ca-file", str(server.ca_file), "--token", server.token, *resources],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "KUBE_FEATURE_WatchListClient": str(watch_list).lower()},
        )

    def read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, self.process.communicate()[1]
        found: dict[str, Any] = json.loads(line)
        return found

    def until(self, enough: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
        """The events up to the one that is enough."""
        seen: list[dict[str, Any]] = []
        while not enough(seen):
            seen.append(self.read())
        return seen

    def finish(self) -> tuple[list[str], str]:
        """Keys that the informers hold, and what was written to standard error."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None
        out, err = self.process.communicate(timeout=60)
        assert self.process.returncode == 0, err
        return json.loads(out.splitlines()[-1])["keys"], err


@pytest.fixture
def clusters(server: ServerProcess, request: pytest.FixtureRequest) -> Iterator[tuple[str, str, str, str]]:
    """Names of four clusters, the first two with a CRD of one name and different schemas, and the CRD's plural."""
    mark = "wl" if request.getfixturevalue("watch_list") else "lw"
    names = (f"go-{mark}-a", f"go-{mark}-b", f"go-{mark}-c")
    plural = f"things{mark}"
    create_definition(server, names[0], definition(GROUP, plural, f"Thing{mark}", {"size": {"type": "integer"}}))
    create_definition(server, names[1], definition(GROUP, plural, f"Thing{mark}", {"color": {"type": "string"}}))
    yield (*names, plural)
    for name in names:
        server.request("DELETE", f"/clusters/{name}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster")


@pytest.mark.parametrize("watch_list", [False, True], ids=["list and watch", "watch list"])
def test_informers_on_all_clusters(
    informer_binary: Path, server: ServerProcess, clusters: tuple[str, str, str, str], *, watch_list: bool
) -> None:
    """Adds, updates and deletes of built-in and custom objects arrive from clusters old and new, each object of its own schema."""
    a, b, c, plural = clusters
    kind = plural.capitalize().replace("s", "", 1)

    def write(method: str, cluster: str, resource: str, name: str, body: dict[str, Any] | None = None) -> None:
        prefix = "api/v1" if resource == "configmaps" else f"apis/{GROUP}/v1"
        suffix = "" if method == "POST" else f"/{name}"
        answer = server.request(
            method,
            f"/clusters/{cluster}/{prefix}/namespaces/default/{resource}{suffix}",
            body,
            headers={"Content-Type": "application/merge-patch+json"} if method == "PATCH" else None,
        )
        assert answer.code in (200, 201), answer.body

    def thing(name: str, **spec: object) -> dict[str, Any]:
        return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": {"name": name}, "spec": spec}

    for cluster in (a, b):
        write("POST", cluster, "configmaps", "same", configmap("same", {"of": cluster}))
    write("POST", a, plural, "same", thing("same", size=1))
    write("POST", b, plural, "same", thing("same", color="red"))

    informer = GoInformer(informer_binary, server, "configmaps.v1.", f"{plural}.v1.{GROUP}", watch_list=watch_list)
    try:
        first = informer.until(lambda seen: sum(event["type"] == "synced" for event in seen) == 2)
        ours = [event for event in first if event.get("cluster") in (a, b, c)]
        assert {(event["resource"], event["cluster"], event["name"]) for event in ours} == {
            ("configmaps", a, "same"),
            ("configmaps", b, "same"),
            (plural, a, "same"),
            (plural, b, "same"),
        }
        specs = {event["cluster"]: event["object"]["spec"] for event in ours if event["resource"] == plural}
        assert specs == {a: {"size": 1}, b: {"color": "red"}}

        write("PATCH", a, plural, "same", {"spec": {"size": 2}})
        write("PATCH", b, plural, "same", {"spec": {"color": "blue"}})
        create_definition(server, c, definition(GROUP, plural, kind, {"weight": {"type": "number"}}))
        write("POST", c, plural, "late", thing("late", weight=1.5))
        write("DELETE", a, plural, "same")
        write("POST", c, "configmaps", "late", configmap("late", {"of": c}))
        write("PATCH", b, "configmaps", "same", {"data": {"more": "x"}})
        write("DELETE", a, "configmaps", "same")

        expected = {
            plural: [("update", a), ("update", b), ("add", c), ("delete", a)],
            "configmaps": [("add", c), ("update", b), ("delete", a)],
        }
        seen = informer.until(lambda seen: sum(event.get("cluster") in (a, b, c) for event in seen) == 7)
        for resource, changes in expected.items():
            found = [event for event in seen if event.get("cluster") in (a, b, c) and event["resource"] == resource]
            assert [(event["type"], event["cluster"]) for event in found] == changes
            assert all(event["object"]["metadata"]["annotations"]["kcp.io/cluster"] == event["cluster"] for event in found)
            versions = [int(event["resourceVersion"]) for event in found]
            assert versions == sorted(versions)
        late = next(event for event in seen if event["type"] == "add" and event["resource"] == plural)
        assert late["object"]["spec"] == {"weight": 1.5}
        keys, complaints = informer.finish()
        assert {key for key in keys if key.split("/")[1].split("|")[0] in (a, b, c)} == {
            f"default/{b}|same",
            f"default/{c}|late",
        }
        assert complaints == ""
    finally:
        informer.process.kill()
        informer.process.wait()
