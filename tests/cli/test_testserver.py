"""`kcp-py test-server`: its line, its end with the process that it runs for, and its files, which nothing leaves behind."""

from __future__ import annotations

import json
import os
import signal
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

from kcp_py.cli.root import run

COMMAND = [sys.executable, "-m", "kcp_py", "test-server"]
PARENT = """
import subprocess, sys, threading
processes = []
def start():
    processes.append(subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True))
thread = threading.Thread(target=start)
thread.start()
thread.join()
print(processes[0].stdout.readline(), end="", flush=True)
sys.stdin.read()
"""
ORPHANING = """
import os, subprocess, sys
print(subprocess.Popen(sys.argv[1:], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).pid, flush=True)
os._exit(0)
"""
"""Ends at once, and leaves a server with a pipe without a reader."""
DELAYED = """
import os, runpy, sys
import kcp_py.cli.startedby
output = sys.argv[1]
parent = os.getpid()
if (pid := os.fork()):
    print(pid, flush=True)
    os._exit(0)
kcp_py.cli.startedby.STARTED_BY = parent
while os.getppid() == parent:
    pass
for number in (1, 2):
    os.dup2(os.open(output, os.O_WRONLY | os.O_CREAT), number)
sys.argv = ["kcp-py", *sys.argv[3:]]
runpy.run_module("kcp_py", run_name="__main__")
"""
"""Becomes a server whose parent ended when it had noted it."""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: ships.fleet.example.com}
spec:
  group: fleet.example.com
  scope: Namespaced
  names: {plural: ships, singular: ship, kind: Ship}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
"""


def start(*arguments, stdin=subprocess.DEVNULL, **options):
    process = subprocess.Popen([*COMMAND, *arguments], stdin=stdin, stdout=subprocess.PIPE, text=True, **options)
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())


def ask(line, path, *, token=None, method="GET", body=None):
    """The status and the decoded answer of a request."""
    context = ssl.create_default_context(cadata=line["caData"])
    headers = {"Authorization": f"Bearer {token or line['token']}", "Content-Type": "application/json"}
    request = urllib.request.Request(
        line["url"] + path, method=method, headers=headers, data=None if body is None else json.dumps(body).encode()
    )
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, None


def until_gone(pid, directory):
    """Wait until a process that is not a child, and its directory, do not exist any more."""
    give_up = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists() or Path(directory).exists():
        assert time.monotonic() < give_up, "the server, or its directory, still exists"
        time.sleep(0.02)


def test_the_line_is_all_that_a_client_needs(tmp_path):
    """URL, authority, token, kubeconfigs and clusters with their definitions; a signal ends the server with code 0 and without files."""
    (tmp_path / "crd.yaml").write_text(CRD)
    process, line = start("--clusters", "2", "--crds", str(tmp_path))
    assert (line["apiVersion"], line["kind"], line["pid"]) == ("testing.kcp-py.dev/v1", "TestServer", process.pid)
    assert [cluster["name"] for cluster in line["clusters"]] == ["test-1", "test-2"]
    for cluster in line["clusters"]:
        status, listed = ask(line, f"/clusters/{cluster['name']}/apis/fleet.example.com/v1/ships")
        assert (status, listed["kind"]) == (200, "ShipList")
        assert f"server: {cluster['url']}" in Path(cluster["kubeconfig"]).read_text()
    assert ask(line, "/clusters/other/apis/fleet.example.com/v1/ships")[0] == 404
    configmap = {"metadata": {"name": "a"}}
    assert ask(line, "/clusters/any-name/api/v1/namespaces/default/configmaps", method="POST", body=configmap)[0] == 201
    assert ask(line, "/clusters/other-name/api/v1/namespaces/default/configmaps/a")[0] == 404
    assert ask(line, "/clusters/any-name/api/v1/configmaps", token="wrong")[0] == 401
    assert Path(line["kubeconfig"]).stat().st_mode & 0o777 == 0o600
    control = line["testingURL"].removeprefix(line["url"])
    assert ask(line, f"{control}/faults", token="wrong")[0] == 401
    fault = {"kind": "storageError", "cluster": "any-name", "times": 1}
    assert ask(line, f"{control}/faults", method="POST", body=fault)[0] == 201
    assert ask(line, "/clusters/any-name/api/v1/namespaces/default/configmaps/a", method="DELETE")[0] == 503
    assert ask(line, f"{control}/clock", method="POST", body={"advance": "8h"})[0] == 200
    assert ask(line, "/clusters/any-name/api/v1/namespaces/default/configmaps/a", method="DELETE")[0] == 200
    process.terminate()
    assert process.communicate(timeout=60) == ("", None)
    assert process.wait() == 0
    until_gone(process.pid, line["rootDirectory"])


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_it_ends_with_its_parent_and_not_with_a_thread_of_it():
    """The thread that started the server ends at once; the parent is killed later."""
    parent = subprocess.Popen([sys.executable, "-c", PARENT, *COMMAND], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    line = json.loads(parent.stdout.readline())
    assert ask(line, "/api")[0] == 200
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    until_gone(line["pid"], line["rootDirectory"])


@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
@pytest.mark.skipif(sys.platform != "linux", reason="looks at /proc")
def test_a_server_whose_parent_ends_during_the_start_ends():
    """The parent is killed as soon as the server exists: it has no parent to look at, and its line has no reader."""
    parent = subprocess.Popen([sys.executable, "-c", ORPHANING, *COMMAND], stdout=subprocess.PIPE, text=True)
    pid = int(parent.communicate()[0])
    give_up = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < give_up, "the server still exists"
        time.sleep(0.02)


@pytest.mark.skipif(sys.platform != "linux", reason="needs fork")
def test_a_parent_that_ends_during_the_imports_is_noticed(tmp_path):
    """The line goes to a file, which needs no reader, so that the parent alone can tell."""
    path = tmp_path / "line"
    parent = subprocess.Popen([sys.executable, "-c", DELAYED, str(path), *COMMAND[1:]], stdout=subprocess.PIPE, text=True)
    pid = int(parent.communicate()[0])
    give_up = time.monotonic() + 60
    while Path(f"/proc/{pid}").exists():
        assert time.monotonic() < give_up, "the server still exists"
        time.sleep(0.02)


def test_a_kill_leaves_no_files():
    """Another process removes the directory when the server cannot."""
    process, line = start()
    assert Path(line["rootDirectory"]).exists()
    process.kill()
    process.communicate()
    until_gone(process.pid, line["rootDirectory"])


def test_it_ends_when_its_standard_input_is_closed():
    """A parent that gave it a pipe closes it, or ends."""
    process, line = start(stdin=subprocess.PIPE)
    process.stdin.close()
    assert process.wait(timeout=60) == 0
    assert not Path(line["rootDirectory"]).exists()
    process.stdout.close()


def test_it_ends_with_another_process():
    """--for-pid names it."""
    other = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    process, _ = start("--for-pid", str(other.pid))
    other.communicate(b"\n")
    assert process.wait(timeout=60) == 0
    process.stdout.close()


def test_several_run_at_once_and_share_nothing(tmp_path):
    """A given directory stays, with the files of its server."""
    (first, one), (second, two) = start("--root-dir", str(tmp_path / "kept"), "--no-parent"), start("--no-parent")
    assert one["url"] != two["url"]
    assert ask(one, "/clusters/a/api/v1/namespaces", token=two["token"])[0] == 401
    for process in (first, second):
        process.terminate()
        assert process.wait(timeout=60) == 0
        process.stdout.close()
    assert one["rootDirectory"] == str(tmp_path / "kept")
    assert Path(one["kubeconfig"]).exists()


@pytest.mark.parametrize(
    ("arguments", "code", "text"),
    [
        (["--no-parent", "--for-pid", "1"], 2, "error: --no-parent and --for-pid exclude each other"),
        (["--crds", "x"], 2, "error: --crds needs --clusters"),
        (["--storage", "tape"], 2, "tape"),
        (["--clusters", "1", "--crds", "/nonexistent/crd.yaml"], 1, "error: /nonexistent/crd.yaml: No such file or directory"),
    ],
    ids=["two parents", "no cluster", "setting", "no file"],
)
def test_mistakes_are_one_line(arguments, code, text):
    """On standard error, with the exit code of the other commands."""
    finished = subprocess.run([*COMMAND, *arguments], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=60)
    assert (finished.returncode, finished.stdout) == (code, "")
    assert text in finished.stderr
    assert finished.stderr.startswith("error: ")
    assert finished.stderr.count("\n") == 1


def test_help_names_the_settings_that_the_command_has(capsys):
    """Those of the server without the ones that it decides."""
    assert run(["test-server", "--help"]) == 0
    out = capsys.readouterr().out
    assert "--simulate" in out
    assert "\n  --secure-port" not in out
