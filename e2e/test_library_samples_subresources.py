"""The samples of subresources do what they say, with kubectl and with a WebSocket client."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from websockets.sync.client import connect

from e2e.programs import serving
from kcp_py import GroupVersionResource, RemoteClient, parse_name

SAMPLES = Path(__file__).parents[1] / "config/samples/library"
FOO = '{"apiVersion": "hello.zeng.dev/v1", "kind": "Foo", "metadata": {"name": "myfoo"}, "spec": {"msg": "testmsg", "msg1": "hi, there👋"}}'
FOOS = "/apis/hello.zeng.dev/v1/namespaces/default/foos"

Kubectl = Callable[..., subprocess.CompletedProcess[str]]


@contextmanager
def sample(name: str, kubectl_binary: str, directory: Path) -> Iterator[tuple[Kubectl, str]]:
    """kubectl on a logical cluster of a sample, and its URL."""
    with serving(SAMPLES / name, directory) as server:
        url = f"{server}/clusters/team-a"

        def run(*arguments: str, document: str = "") -> subprocess.CompletedProcess[str]:
            command = [kubectl_binary, "--server", url, *arguments]
            environment = {"HOME": str(directory), "PATH": "/usr/bin:/bin"}
            return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False, env=environment, input=document)

        yield run, url


async def apply_config(url: str, configuration: dict[str, Any], directory: Path) -> dict[str, Any]:
    """The answer to server-side apply by a client over HTTP, because kubectl applies to no subresource of another kind."""
    cluster = {"name": "sample", "cluster": {"server": url.partition("/clusters/")[0]}}
    context = {"name": "sample", "context": {"cluster": "sample", "user": "me"}}
    file = directory / "kubeconfig"
    users = [{"name": "me", "user": {}}]
    file.write_text(json.dumps({"clusters": [cluster], "contexts": [context], "users": users, "current-context": "sample"}), "utf-8")
    async with RemoteClient.of_kubeconfig(str(file)) as client:
        resource = GroupVersionResource("hello.zeng.dev", "v1", "foos")
        metadata = {**configuration["metadata"], "namespace": "default"}
        applied = {**configuration, "metadata": metadata}
        return await client.apply(parse_name("team-a"), resource, applied, field_manager="e2e", subresource="config")


def test_base64_answers_with_another_kind(kubectl_binary: str, tmp_path: Path) -> None:
    """The answer is that of x-kubernetes; discovery and OpenAPI name the kind; other verbs and bodies are refused."""
    with sample("base64_subresource.py", kubectl_binary, tmp_path) as (kubectl, url):
        assert kubectl("create", "-f", "-", document=FOO).stdout == "foo.hello.zeng.dev/myfoo created\n"
        body = {"apiVersion": "transformation.zeng.dev/v1beta1", "kind": "Base64", "spec": {"fieldPath": "spec"}}
        answer = kubectl("create", "--raw", f"{FOOS}/myfoo/base64", "-f", "-", document=json.dumps(body))
        assert json.loads(answer.stdout) == {
            **body,
            "metadata": {"namespace": "default"},
            "status": {"output": "eyJtc2ciOiJ0ZXN0bXNnIiwibXNnMSI6ImhpLCB0aGVyZfCfkYsifQ=="},
        }
        other = kubectl("create", "--raw", f"{FOOS}/other/base64", "-f", "-", document=json.dumps(body))
        assert 'foos.hello.zeng.dev "other" not found' in other.stderr
        nothing = json.dumps({**body, "spec": {"fieldPath": "spec.nothing"}})
        assert "nothing there" in kubectl("create", "--raw", f"{FOOS}/myfoo/base64", "-f", "-", document=nothing).stderr
        part = {"apiVersion": "hello.zeng.dev/v1", "kind": "Config", "metadata": {"name": "myfoo"}, "spec": {"msg": "part"}}
        assert '"part"' in kubectl("replace", "--raw", f"{FOOS}/myfoo/config", "-f", "-", document=json.dumps(part)).stdout
        assert kubectl("get", "foo", "myfoo", "-o", "jsonpath={.spec.config.msg}{.spec.msg}").stdout == "parttestmsg"
        old = json.dumps({**part, "metadata": {"name": "myfoo", "resourceVersion": "1"}})
        assert "Conflict" in kubectl("replace", "--raw", f"{FOOS}/myfoo/config", "-f", "-", document=old).stderr
        applied = asyncio.run(apply_config(url, {**part, "spec": {"msg1": "applied"}}, tmp_path))
        assert applied["spec"] == {"msg": "part", "msg1": "applied"}
        entries = json.loads(kubectl("get", "foo", "myfoo", "-o", "json", "--show-managed-fields").stdout)["metadata"]["managedFields"]
        assert ("e2e", "Apply", "config") in {(one["manager"], one["operation"], one.get("subresource")) for one in entries}
        assert "not supported" in kubectl("get", "--raw", f"{FOOS}/myfoo/base64").stderr
        (entry,) = [
            one
            for one in json.loads(kubectl("get", "--raw", "/apis/hello.zeng.dev/v1").stdout)["resources"]
            if one["name"] == "foos/base64"
        ]
        assert (entry["group"], entry["version"], entry["kind"], entry["verbs"]) == (
            "transformation.zeng.dev",
            "v1beta1",
            "Base64",
            ["create"],
        )
        paths = json.loads(kubectl("get", "--raw", "/openapi/v3/apis/hello.zeng.dev/v1").stdout)["paths"]
        assert "post" in paths["/apis/hello.zeng.dev/v1/namespaces/{namespace}/foos/{name}/base64"]


def test_logs_and_commands_are_streamed(kubectl_binary: str, tmp_path: Path) -> None:
    """`kubectl logs`, with and without following, `kubectl exec` with input and exit code, and a WebSocket client of version 4."""
    with sample("pod_logs.py", kubectl_binary, tmp_path) as (kubectl, url):
        assert kubectl("run", "web", "--image=nginx").stdout == "pod/web created\n"
        assert kubectl("logs", "web").stdout.splitlines() == [f"team-a/web: line {number}" for number in range(3)]
        assert 'pods "none" not found' in kubectl("logs", "none").stderr
        command = [kubectl_binary, "--server", url, "logs", "-f", "web"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={"HOME": str(tmp_path)}) as follower:
            assert follower.stdout is not None
            assert [follower.stdout.readline() for _ in range(4)][3] == "still running\n"
            follower.kill()
        assert kubectl("exec", "-i", "web", "--", "cat", document="hello\n" * 20_000).stdout == "hello\n" * 20_000
        failed = kubectl("exec", "web", "--", "nope")
        assert (failed.returncode, "nope: not found" in failed.stderr) == (127, True)
        pod = f"{url.replace('http', 'ws', 1)}/api/v1/namespaces/default/pods/web"
        with connect(f"{pod}/exec?command=nope", subprotocols=["v4.channel.k8s.io"], origin="http://localhost") as socket:  # type: ignore[list-item,arg-type]
            received = [bytes(message) for message in socket]  # type: ignore[arg-type]
        assert received[0] == b"\x02nope: not found\n"
        assert json.loads(received[1][1:])["details"]["causes"] == [{"reason": "ExitCode", "message": "127"}]
