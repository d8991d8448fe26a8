"""Credentials from programs."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from kcp_py.kubeconfig import KubeconfigContext, KubeconfigError
from kcp_py.kubeconfig.credentials import Credentials
from kcp_py.kubeconfig.execplugin import has_plugin, run_plugin

V1 = "client.authentication.k8s.io/v1"
PROGRAM = """
import json, os, sys
info = json.loads(os.environ["KUBERNETES_EXEC_INFO"])
count = int(open(sys.argv[1]).read() or "0") + 1
open(sys.argv[1], "w").write(str(count))
status = {"token": f"{os.environ['PREFIX']}-{count}", **json.loads(sys.argv[2])}
print(json.dumps({"apiVersion": info["apiVersion"], "kind": "ExecCredential", "status": status}))
"""


def context_of(folder: Path, *, status: dict[str, Any] | None = None, **more: Any) -> KubeconfigContext:
    """A context whose token is `t-1`, `t-2`, ..."""
    (folder / "program.py").write_text(PROGRAM)
    (folder / "count").touch()
    arguments = [str(folder / "program.py"), str(folder / "count"), json.dumps(status or {})]
    spec = {"apiVersion": V1, "command": sys.executable, "args": arguments, "env": [{"name": "PREFIX", "value": "t"}], **more}
    return KubeconfigContext(folder / "config", {"server": "http://127.0.0.1:1"}, {"exec": spec}, "jane")


@pytest.mark.anyio
async def test_a_token_is_used_until_it_expires_or_is_refused(tmp_path: Path) -> None:
    """Then the program is run again; not before."""
    now = [1000.0]
    expires = {"expirationTimestamp": "1970-01-01T01:00:00Z"}
    credentials = Credentials(context_of(tmp_path, status=expires), clock=lambda: now[0], wall=lambda: now[0])

    async def token() -> str:
        return dict((await credentials.current()).headers)["Authorization"]

    assert [await token(), await token()] == ["Bearer t-1", "Bearer t-1"]
    now[0] = 2000.0
    assert await token() == "Bearer t-1"
    credentials.refused(now[0])
    assert await token() == "Bearer t-2"
    now[0] = 3601.0
    assert await token() == "Bearer t-3"


@pytest.mark.anyio
async def test_without_any_credential_nothing_is_sent(tmp_path: Path) -> None:
    """A later failure leaves the last one in use."""
    context = context_of(tmp_path)
    credentials = Credentials(context)
    (tmp_path / "program.py").write_text("raise SystemExit(3)")
    with pytest.raises(KubeconfigError, match="failed with exit code 3"):
        await credentials.current()
    context_of(tmp_path)
    assert (await credentials.current()).headers
    (tmp_path / "program.py").write_text("raise SystemExit(3)")
    credentials.refused(credentials.now())
    assert (await credentials.current()).headers


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"apiVersion": "client.authentication.k8s.io/v1alpha1"}, "needs a command, and the apiVersion"),
        ({"command": "/no/such/program", "installHint": "install it"}, "No such file or directory; install it"),
        ({"interactiveMode": "Always"}, "wants a terminal"),
        ({"args": ["-c", "print('hello')"]}, "is not a credential"),
        ({"args": ["-c", "print('{\"status\": {}}')"]}, "is not a credential: expected an ExecCredential"),
        ({"status": {"token": ""}}, "neither a token nor a certificate"),
        ({"status": {"clientCertificateData": "x"}}, "a certificate and its key belong together"),
    ],
    ids=["version", "missing", "terminal", "text", "other object", "empty", "half"],
)
def test_what_is_not_a_credential_is_named(tmp_path: Path, change: dict[str, Any], message: str) -> None:
    """In one line that begins with the file."""
    with pytest.raises(KubeconfigError, match=message) as caught:
        run_plugin(context_of(tmp_path, **change))
    assert str(caught.value).startswith(f"{tmp_path / 'config'}: user 'jane': exec: ")
    assert "\n" not in str(caught.value)


def test_other_credentials_go_before(tmp_path: Path) -> None:
    """As in client-go."""
    context = context_of(tmp_path)
    assert has_plugin(context)
    assert not has_plugin(KubeconfigContext(context.file, context.cluster, {**context.user, "token": "t"}, "jane"))


def test_the_program_may_ask_for_the_cluster(tmp_path: Path) -> None:
    """`provideClusterInfo`; a relative path is one from the kubeconfig."""
    program = tmp_path / "plugin"
    head = f"#!{sys.executable}\nimport json, os\ninfo = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
    answer = {"apiVersion": V1, "kind": "ExecCredential"}
    program.write_text(f"{head}print(json.dumps({{**{answer!r}, 'status': {{'token': info['spec']['cluster']['server']}}}}))\n")
    program.chmod(0o755)
    context = context_of(tmp_path, command="./plugin", args=[], provideClusterInfo=True)
    assert run_plugin(context).token == "http://127.0.0.1:1"
