"""The server's process: start, second start, signals, and failures that change nothing."""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import platform
import re
import shlex
import signal
import ssl
import subprocess
import sys
from pathlib import Path

import pytest

from kcp_py._version import __version__
from kcp_py.cli.remote import RemoteServer, load_context

READY = "Ctrl-C stops the server."
EVENTS = ["certificates_issued", "server_started", "server_stopping", "server_stopped"]


@pytest.fixture
def ready_server(start_server, read_until, tmp_path):
    """A running server in `.kcp`: its process, what it has printed, and a function that makes connections to it."""
    process = start_server("--secure-port", "0")
    printed = read_until(process, READY)
    port = int(re.search(r"https://127\.0\.0\.1:(\d+)", printed)[1])  # type: ignore[index]

    connections = []

    def connect(path="/"):
        context = ssl.create_default_context(cafile=tmp_path / ".kcp" / "pki" / "ca.crt")
        connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
        connections.append(connection)
        connection.request("GET", path)
        return connection

    yield process, printed, connect, port
    for connection in connections:
        connection.close()


def tree(directory: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below a directory with its mode and content."""
    return {str(path): (path.stat().st_mode, path.read_bytes()) for path in sorted(directory.rglob("*")) if path.is_file()}


def finish(process):
    out, err = process.communicate(timeout=60)
    return process.returncode, out, err


def test_ready_says_what_to_do_next(ready_server, tmp_path):
    """The lines that a user copies come when the server answers, with the absolute path of the kubeconfig."""
    _, printed, connect, _ = ready_server
    assert f"export KUBECONFIG={tmp_path}/.kcp/admin.kubeconfig\n" in printed
    assert "kubectl get namespaces" in printed
    assert json.loads(connect().getresponse().read()) == {"subject": None}


@pytest.mark.parametrize("workers", ["1", "2"])
@pytest.mark.parametrize("output", [">&-", ">/dev/full", "| :"])
def test_next_steps_that_cannot_be_printed_end_no_server(output, workers, tmp_path):
    """A closed output, a full disk or a reader that has gone does not matter to a server that serves."""
    start = f"{shlex.quote(sys.executable)} -m kcp_py start --secure-port 0 --log-format json --workers {workers}"
    command = f"{{ {start} & echo $! >pid; wait $!; echo $? >code; }} {output}"
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(["sh", "-c", command], cwd=tmp_path, env=environ, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        assert any('"server_started"' in line for line in process.stderr)
        os.kill(int((tmp_path / "pid").read_text()), signal.SIGTERM)
        said = process.stderr.read()
    assert "server_stopped" in said
    assert "Traceback" not in said
    assert (tmp_path / "code").read_text() == "0\n"


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_full_pipe_holds_no_server(workers, tmp_path):
    """A server whose output is a pipe that is full and not read ends in order at the first signal."""
    read, write = os.pipe()
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while True:
            os.write(write, bytes(4096))
    os.set_blocking(write, True)
    command = [sys.executable, "-m", "kcp_py", "start", "--secure-port", "0", "--log-format", "json", "--workers", workers]
    environ = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(
        [*command, "--root-directory", str(tmp_path)], env=environ, stdout=write, stderr=subprocess.PIPE, text=True
    ) as process:
        os.close(write)
        try:
            assert process.stderr is not None
            assert any('"server_started"' in line for line in process.stderr)
            process.terminate()
            assert process.wait(20) == 0
        finally:
            process.kill()
            os.close(read)


@pytest.mark.parametrize(
    ("batteries", "expected"),
    [
        ("none", ["kubectl api-resources", "kubectl --server URL/clusters/team-a api-resources"]),
        ("logical-clusters", ["kubectl api-resources", "kcp-py cluster create team-a"]),
        ("namespaces,core", ["kubectl get namespaces", "kubectl --server URL/clusters/team-a get namespaces"]),
    ],
)
def test_the_printed_commands_need_no_battery_that_is_missing(start_real_server, read_until, tmp_path, batteries, expected):
    """kubectl asks for resources that the server has, and each printed command succeeds."""
    directory = Path(sys.executable).parent
    environ = {"PATH": f"{directory}:{os.environ['PATH']}"}
    printed = read_until(start_real_server("--secure-port", "0", "--batteries", batteries, environ=environ), READY)
    url = re.search(r"https://\S+", printed)[0]  # type: ignore[index]
    commands = [line.strip() for line in printed.splitlines() if line.startswith("  ")]
    assert [command.replace(url, "URL") for command in commands[1:]] == expected
    shell = subprocess.run(["bash", "-ec", "\n".join(commands)], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (shell.returncode, shell.stderr) == (0, "")


@pytest.mark.parametrize("in_path", [True, False], ids=["in PATH", "not in PATH"])
def test_the_printed_commands_work(start_server, read_until, tmp_path, in_path):
    """Printed commands run in another shell unchanged, whether or not PATH contains the program."""
    directory = Path(sys.executable).parent
    elsewhere = os.pathsep.join(part for part in os.environ["PATH"].split(os.pathsep) if Path(part) != directory)
    environ = {"PATH": f"{directory}:{elsewhere}" if in_path else elsewhere}
    printed = read_until(start_server("--secure-port", "0", environ=environ), READY)
    commands = [line.strip() for line in printed.splitlines() if line.startswith("  ") and "kubectl" not in line]
    assert [command.startswith("kcp-py ") for command in commands] == [False, in_path]
    shell = subprocess.run(["bash", "-ec", "\n".join(commands)], env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert (shell.returncode, shell.stdout, shell.stderr) == (0, "logical cluster team-a created\n", "")


def test_make_run_leaves_path_alone(tmp_path):
    """The server that `make run` starts sees the user's PATH, so that it prints commands that the user's shell finds."""
    programs = tmp_path / "bin"
    programs.mkdir()
    (programs / "kcp-py").write_text('#!/bin/sh\necho "PATH=$PATH"\n')
    (programs / "python").write_text("#!/bin/sh\n")
    for program in programs.iterdir():
        program.chmod(0o755)
    (tmp_path / ".installed").touch()
    command = ["make", "--no-print-directory", "run", f"VENV={tmp_path}"]
    root = Path(__file__).parents[2]
    environ = {name: value for name, value in os.environ.items() if not name.startswith("MAKE")}
    made = subprocess.run(command, cwd=root, env=environ, capture_output=True, text=True, check=True)
    assert made.stdout == f"PATH={os.environ['PATH']}\n"


def test_everything_made_is_private(ready_server, tmp_path):
    """Nothing below the root directory, nor the directory itself, is open to other users."""
    del ready_server
    root = tmp_path / ".kcp"
    assert [path for path in (root, *root.rglob("*")) if path.stat().st_mode & 0o077] == []


def test_a_second_start_reuses(ready_server, start_server, read_until, tmp_path):
    """Certificates, token and kubeconfig are the same after a restart on the same port."""
    process, _, _, port = ready_server
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 0
    before = tree(tmp_path / ".kcp")
    again = start_server("--secure-port", str(port))
    read_until(again, READY)
    assert tree(tmp_path / ".kcp") == before


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_ends_in_order(ready_server, number):
    """The control plane is told first, the running watch ends cleanly, then the control plane is closed; the exit code is 0."""
    process, _, connect, _ = ready_server
    response = connect("/watch").getresponse()
    assert response.readline() == b"started\n"
    process.send_signal(number)
    assert response.read() == b"ended\n"
    code, out, err = finish(process)
    assert (code, out.split()) == (0, ["begin_shutdown", "closed"])
    assert [event["event"] for event in map(json.loads, err.splitlines())] == EVENTS


def test_start_and_stop_are_logged(ready_server, tmp_path):
    """One line at the start says what runs where and on which data, one at the signal, and one at the end; each has its time."""
    process, _, _, port = ready_server
    process.send_signal(signal.SIGINT)
    lines = {event["event"]: event for event in map(json.loads, finish(process)[2].splitlines())}
    assert list(lines) == EVENTS
    assert all(line.pop("timestamp").endswith("Z") and line.pop("level") == "info" for line in lines.values())
    started = lines["server_started"]
    assert started.pop("seconds") > 0
    assert started == {
        "event": "server_started",
        "version": __version__,
        "python": platform.python_version(),
        "address": f"127.0.0.1:{port}",
        "url": f"https://127.0.0.1:{port}",
        "storage": "sqlite",
        "root_directory": str(tmp_path / ".kcp"),
        "pid": process.pid,
        "uid": os.getuid(),
        "root_cluster_uid": "uid-root",
    }
    assert lines["server_stopping"]["signal"] == "SIGINT"
    assert lines["server_stopped"]["uptime_seconds"] >= 0


def test_requests_in_flight_finish(ready_server, read_until):
    """A request that runs when the signal comes is answered before the control plane is closed."""
    process, _, connect, _ = ready_server
    connection = connect("/drain")
    read_until(process, "draining request")
    process.send_signal(signal.SIGTERM)
    assert json.loads(connection.getresponse().read()) == {"drained": True}
    assert finish(process)[:2] == (0, "begin_shutdown\nclosed\n")


def test_a_second_signal_ends_at_once(ready_server, read_until):
    """Who cannot wait for the grace period signals again: the process ends with exit code 1."""
    process, _, connect, _ = ready_server
    connect("/slow")
    read_until(process, "slow request")
    process.send_signal(signal.SIGTERM)
    read_until(process, "begin_shutdown")
    process.send_signal(signal.SIGTERM)
    assert finish(process)[:2] == (1, "")


def test_the_grace_period_is_kept(start_server, read_until, tmp_path):
    """A request that does not end is cancelled after the grace period, before the control plane is closed."""
    process = start_server("--secure-port", "0", "--shutdown-grace-period", "1s")
    printed = read_until(process, READY)
    port = int(re.search(r"https://127\.0\.0\.1:(\d+)", printed)[1])  # type: ignore[index]
    context = ssl.create_default_context(cafile=tmp_path / ".kcp" / "pki" / "ca.crt")
    connection = http.client.HTTPSConnection("127.0.0.1", port, context=context, timeout=30)
    connection.request("GET", "/slow")
    read_until(process, "slow request")
    process.send_signal(signal.SIGTERM)
    code, out, _ = finish(process)
    assert code == 0
    assert out.splitlines() == ["begin_shutdown", "slow request cancelled", "closed"]
    connection.close()


def test_a_lost_client_is_told_to_the_app(ready_server, read_until):
    """A watch whose client is gone hears of it without reading."""
    process, _, connect, _ = ready_server
    connection = connect("/watch")
    response = connection.getresponse()
    assert response.readline() == b"started\n"
    response.close()
    connection.close()
    read_until(process, "disconnected")


def test_a_port_in_use_changes_nothing(ready_server, start_server, tmp_path):
    """One line, exit code 1, and no root directory is made."""
    port = ready_server[3]
    second = start_server("--secure-port", str(port), "--root-directory", "other")
    assert finish(second) == (1, "", f"error: cannot listen on 127.0.0.1:{port}: the port is in use\n")
    assert not (tmp_path / "other").exists()


def test_a_root_directory_in_use_changes_nothing(ready_server, start_server, tmp_path):
    """A second server on another port leaves the first one's kubeconfig alone."""
    del ready_server
    before = tree(tmp_path / ".kcp")
    second = start_server("--secure-port", "0")
    assert finish(second) == (1, "", f"error: {tmp_path}/.kcp: another kcp-py server is using this root directory\n")
    assert tree(tmp_path / ".kcp") == before


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        pytest.param(lambda root: root.write_text("file"), ".kcp: Not a directory", id="a file"),
        pytest.param(lambda root: (root / "pki" / "ca.crt").mkdir(parents=True), "pki/ca.crt: Is a directory", id="a directory as file"),
    ],
)
def test_an_unusable_root_directory_is_one_line(start_server, tmp_path, prepare, message):
    """What cannot be used is named, without a traceback."""
    prepare(tmp_path / ".kcp")
    code, out, err = finish(start_server("--secure-port", "0"))
    assert (code, out) == (1, "")
    assert message in err
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read every directory")
def test_an_unreadable_root_directory_is_one_line(start_server, tmp_path):
    """A directory of another user is named."""
    (tmp_path / ".kcp").mkdir(mode=0o000)
    assert finish(start_server("--secure-port", "0"))[0] == 1


def test_unusable_certificate_files_are_one_line(start_server, tmp_path):
    """A given file that is not a certificate is named."""
    (tmp_path / "tls.crt").write_text("junk")
    (tmp_path / "tls.key").write_text("junk")
    code, _, err = finish(start_server("--secure-port", "0", "--tls-cert-file", "tls.crt", "--tls-private-key-file", "tls.key"))
    assert code == 1
    assert err.startswith("error: tls.crt: cannot be served with the key tls.key")
    assert err.count("\n") == 1


def test_a_wrong_setting_is_exit_code_2(start_server):
    """The line names the flag or the variable."""
    assert finish(start_server("--storage", "mysql")) == (2, "", 'error: --storage: "mysql" is not one of sqlite, memory, etcd\n')
    assert finish(start_server(environ={"KCP_PY_SECURE_PORT": "x"})) == (2, "", 'error: KCP_PY_SECURE_PORT: "x" is not a whole number\n')


def test_a_wrong_switch_of_admission_is_exit_code_2(start_server, tmp_path):
    """A plugin that does not exist here is refused with the reason, and nothing is made."""
    code, out, err = finish(start_server("--secure-port", "0", "--enable-admission-plugins", "NodeRestriction"))
    assert (code, out) == (2, "")
    assert err.startswith("error: --enable-admission-plugins: NodeRestriction is not available: it restricts the kubelets of nodes, ")
    assert err.count("\n") == 1
    assert not (tmp_path / ".kcp").exists()


def test_an_unknown_controller_is_exit_code_2(start_server, tmp_path):
    """A controller that does not exist is refused with the names of those that do, and nothing is made."""
    code, out, err = finish(start_server("--secure-port", "0", "--controllers", "*,nope"))
    assert (code, out) == (2, "")
    assert err.startswith("error: --controllers: unknown controllers: nope; there are ")
    assert err.count("\n") == 1
    assert not (tmp_path / ".kcp").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        pytest.param(None, "tokens.csv: No such file or directory", id="absent"),
        pytest.param(b"token,\n", "at least 3 columns", id="too few columns"),
        pytest.param(b"\xff\xfe", "is not UTF-8 text", id="binary"),
    ],
)
def test_an_unusable_token_file_is_one_line(start_real_server, tmp_path, content, message):
    """Tokens that the operator asked for and that cannot be read are not left out silently."""
    if content is not None:
        (tmp_path / "tokens.csv").write_bytes(content)
    code, out, err = finish(start_real_server("--secure-port", "0", "--storage", "memory", "--token-auth-file", "tokens.csv"))
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert message in err
    assert err.count("\n") == 1


def damage(path: Path) -> None:
    """Overwrites the middle of a database file."""
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)


def make_newer(path: Path) -> None:
    """Writes the number of a format that does not exist yet (the header's user version) into a database file."""
    content = bytearray(path.read_bytes())
    content[60:64] = (1000).to_bytes(4, "big")
    path.write_bytes(content)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(lambda path: path.write_text("this is no database\n" * 1000), "", id="another kind of file"),
        pytest.param(damage, "", id="damaged"),
        pytest.param(make_newer, "newer", id="newer than the program"),
    ],
)
def test_an_unusable_database_is_one_line_and_left_alone(start_real_server, read_until, tmp_path, change, message):
    """The whole program, with the real control plane, refuses a database that it cannot use."""
    process = start_real_server("--secure-port", "0")
    read_until(process, READY)
    process.send_signal(signal.SIGTERM)
    assert finish(process)[0] == 0
    database = tmp_path / ".kcp" / "kcp.db"
    change(database)
    before = database.read_bytes()
    code, out, err = finish(start_real_server("--secure-port", "0"))
    assert (code, out) == (1, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert message in err
    assert database.read_bytes() == before


def test_one_database_has_one_server(start_real_server, read_until, tmp_path):
    """A second server on the same file, though its root directory is another, is refused with the reason."""
    read_until(start_real_server("--secure-port", "0"), READY)
    path = str(tmp_path / ".kcp" / "kcp.db")
    code, out, err = finish(start_real_server("--secure-port", "0", "--root-directory", "other", "--storage-path", path))
    assert (code, out) == (1, "")
    assert "kcp.db" in err
    assert err.count("\n") == 1


@pytest.mark.parametrize("context", ["root", "base", "system:admin", "shard-base"])
def test_every_context_reaches_the_server(start_real_server, read_until, tmp_path, context):
    """The certificate and the token of admin.kubeconfig are accepted by the real control plane."""
    read_until(start_real_server("--secure-port", "0", "--storage", "memory"), READY)
    access = load_context(str(tmp_path / ".kcp" / "admin.kubeconfig"), context)
    with RemoteServer(access) as server:
        path = str(access.cluster["server"]).removeprefix(access.base_url)
        assert server.request("GET", f"{path}/api/v1/namespaces")["kind"] == "NamespaceList"


def test_managed_fields_name_the_program(start_real_server, read_until, tmp_path):
    """Writes of the command line are owned by the field manager kcp-py."""
    read_until(start_real_server("--secure-port", "0", "--storage", "memory"), READY)
    with RemoteServer(load_context(str(tmp_path / ".kcp" / "admin.kubeconfig"), None)) as server:
        body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}, "data": {"a": "b"}}
        created = server.request("POST", "/clusters/root/api/v1/namespaces/default/configmaps", body)
    assert [entry["manager"] for entry in created["metadata"]["managedFields"]] == ["kcp-py"]


def test_etcd_without_its_extra(start_real_server, tmp_path):
    """Where gRPC is not installed, a start on etcd says in one line how to install it, and all else works."""
    (tmp_path / "grpc.py").write_text("raise ModuleNotFoundError(\"No module named 'grpc'\", name='grpc')\n")
    environ = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"}
    code, out, err = finish(
        start_real_server("--secure-port", "0", "--storage", "etcd", "--etcd-servers", "http://127.0.0.1:1", environ=environ)
    )
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith("error: the storage etcd needs the packages grpcio and protobuf")
    assert "pip install 'kcp-py[etcd]'" in err


def test_missing_descriptions_are_told_at_the_start(start_real_server, read_until, tmp_path):
    """Without the extra `explain` the log says why `kubectl explain` is empty, and what to install."""
    environ = {"PYTHONPATH": f"{tmp_path}{os.pathsep}{Path(__file__).parents[2]}"}
    # A module instead of the package: it has no folder of descriptions.
    (tmp_path / "kubernetes_validate.py").write_text("")
    process = start_real_server("--secure-port", "0", "--storage", "memory", environ=environ)
    read_until(process, READY)
    process.send_signal(signal.SIGTERM)
    lines = {event["event"]: event for event in map(json.loads, finish(process)[2].splitlines())}
    assert "kcp-py[explain]" in lines["descriptions_missing"]["reason"]
