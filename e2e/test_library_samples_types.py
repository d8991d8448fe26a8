"""The sample of types does what it says, with kubectl, and its CRD defines the same kind elsewhere."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from e2e.programs import serving

SAMPLE = Path(__file__).parents[1] / "config/samples/library/foos.py"
FOO = {"apiVersion": "hello.zeng.dev/v1", "kind": "Foo", "metadata": {"name": "myfoo"}, "spec": {"msg": "testmsg"}}
GO = "jsonpath={.apiVersion} {.spec.config.msg} {.spec.config.msg1} {.spec.image}"


@pytest.fixture
def kubectl(kubectl_binary: str, tmp_path: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """kubectl on a URL."""

    def run(url: str, *arguments: str, document: Any = None) -> subprocess.CompletedProcess[str]:
        command = [kubectl_binary, "--server", url, *arguments]
        environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        text = document if isinstance(document, str) else json.dumps(document)
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment, input=text, cwd=tmp_path)

    return run


def test_foos(kubectl: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    """kubectl creates a Foo in one version, reads, explains, patches and applies it in the other, and is refused as the class says."""
    written = subprocess.run(
        [sys.executable, "-m", "kcp_py", "generate", "crds", str(SAMPLE)], capture_output=True, text=True, check=True, timeout=60
    )
    with serving(SAMPLE, tmp_path) as server:
        url = f"{server}/clusters/team-a"
        assert kubectl(url, "create", "-f", "-", document=FOO).stdout == "foo.hello.zeng.dev/myfoo created\n"
        assert kubectl(url, "get", "foos.v2.hello.zeng.dev", "myfoo", "-o", GO).stdout == "hello.zeng.dev/v2 testmsg hi, there👋 nginx"
        assert [line.split() for line in kubectl(url, "get", "fo").stdout.splitlines()] == [["NAME", "MSG", "PHASE"], ["myfoo", "testmsg"]]
        assert "The image that says it." in kubectl(url, "explain", "foos.spec.image", "--api-version", "hello.zeng.dev/v2").stdout
        assert (
            "a Foo does not curse"
            in kubectl(url, "patch", "fo", "myfoo", "--type", "merge", "-p", '{"spec":{"config":{"msg":"damn"}}}').stderr
        )
        assert "is immutable" in kubectl(url, "patch", "fo", "myfoo", "--type", "merge", "-p", '{"spec":{"image":"other"}}').stderr
        patch = ("patch", "fo", "myfoo", "--type", "merge", "-p")
        status = '{"status":{"phase":"Ready"}}'
        assert kubectl(url, *patch, status, "--subresource", "status").returncode == 0
        assert kubectl(url, "get", "foos.v1.hello.zeng.dev", "myfoo", "-o", "jsonpath={.status.phase}").stdout == "Ready"
        applied = {**FOO, "spec": {"msg": "applied"}}
        assert kubectl(url, "apply", "--server-side", "--force-conflicts", "-f", "-", document=applied).returncode == 0
        assert kubectl(url, "get", "fo", "myfoo", "-o", "jsonpath={.spec.config.msg}").stdout == "applied"
        refused = kubectl(url, "create", "-f", "-", document=written.stdout.replace("name: v2", "name: v3"))
        assert "built-in" in refused.stderr
        assert kubectl(url, "delete", "foos.v1.hello.zeng.dev", "myfoo").returncode == 0


def test_the_definition_is_taken_by_another_server(kubectl: Callable[..., subprocess.CompletedProcess[str]], tmp_path: Path) -> None:
    """`kcp-py generate crds` writes what kubectl creates and what a server establishes."""
    written = subprocess.run(
        [sys.executable, "-m", "kcp_py", "generate", "crds", str(SAMPLE)], capture_output=True, text=True, check=True, timeout=60
    )
    program = SAMPLE.read_text("utf-8").replace("apis=[Foo]", "apis=[]")
    (tmp_path / "empty.py").write_text(program, "utf-8")
    with serving(tmp_path / "empty.py", tmp_path) as server:
        url = f"{server}/clusters/team-a"
        assert kubectl(url, "create", "-f", "-", document=written.stdout).returncode == 0
        waited = kubectl(url, "wait", "--for", "condition=established", "crd/foos.hello.zeng.dev", "--timeout", "30s")
        assert waited.returncode == 0, waited.stderr
        assert kubectl(url, "create", "-f", "-", document=FOO).returncode == 0
