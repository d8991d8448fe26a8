"""The programs for test environments, as processes."""

from __future__ import annotations

import base64
import contextlib
import fcntl
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from kcp_py.cli.envtest.assets import first_lines, link_kubectl, write_program, write_programs
from kcp_py.serving.certificates import key_pem
from tests.ports import reserve_port
from tests.serving.authorities import new_authority

ADMIN: Final = "secret-of-admin"
SECONDS: Final = 60


@pytest.fixture(scope="module")
def assets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("assets")
    write_programs(directory)
    return directory


class Server:
    """A program in the place of kube-apiserver."""

    def __init__(self, program: Path, directory: Path, *flags: str, environment: dict[str, str] | None = None, port: int = 0) -> None:
        self.directory = directory
        self.port = port or reserve_port()
        self.authority = new_authority("clients")
        (directory / "ca.crt").write_bytes(self.authority.pem)
        (directory / "tokens.csv").write_text(f'{ADMIN},admin,1,"system:masters"\n')
        key = rsa.generate_private_key(65537, 2048)
        encoding = serialization.Encoding.PEM
        private = key.private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        (directory / "sa.key").write_bytes(private)
        (directory / "sa.pub").write_bytes(key.public_key().public_bytes(encoding, serialization.PublicFormat.SubjectPublicKeyInfo))
        self.issuer = f"https://127.0.0.1:{self.port}/"
        command = [
            str(program),
            f"--cert-dir={directory}",
            "--bind-address=127.0.0.1",
            f"--secure-port={self.port}",
            f"--client-ca-file={directory}/ca.crt",
            f"--token-auth-file={directory}/tokens.csv",
            f"--service-account-issuer={self.issuer}",
            f"--service-account-key-file={directory}/sa.pub",
            f"--service-account-signing-key-file={directory}/sa.key",
            "--authorization-mode=RBAC",
            "--disable-admission-plugins=ServiceAccount",
            "--allow-privileged=true",
            "--etcd-servers=http://127.0.0.1:1",
            "--feature-gates=AnyGate=true",
            *flags,
        ]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, env={**os.environ, **(environment or {})}, cwd=directory)

    def call(self, method: str, path: str, body: Any = None, *, token: str = ADMIN, certificate: str = "") -> tuple[int, Any]:
        context = ssl.create_default_context(cafile=str(self.directory / "apiserver.crt"))
        if certificate:
            context.load_cert_chain(certificate)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {token}"} if token else {})
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"https://127.0.0.1:{self.port}{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, context=context, timeout=SECONDS) as response:
                status, content = response.status, response.read()
        except urllib.error.HTTPError as error:
            status, content = error.code, error.read()
        try:
            return status, json.loads(content)
        except ValueError:
            return status, content.decode()

    def wait(self) -> None:
        deadline = time.monotonic() + SECONDS
        while True:
            assert self.process.poll() is None, self.process.stderr.read().decode() if self.process.stderr else ""
            with contextlib.suppress(OSError):
                if self.call("GET", "/healthz", token="") == (200, "ok"):
                    return
            assert time.monotonic() < deadline
            time.sleep(0.02)

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGTERM)
        _, errors = self.process.communicate(timeout=SECONDS)
        return self.process.returncode, errors.decode()


@contextlib.contextmanager
def running(program: Path, directory: Path, *flags: str, environment: dict[str, str] | None = None) -> Iterator[Server]:
    server = Server(program, directory, *flags, environment=environment)
    try:
        server.wait()
        yield server
    finally:
        server.process.kill()
        server.process.communicate()


@pytest.fixture(scope="module")
def server(assets: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    with running(assets / "kube-apiserver", tmp_path_factory.mktemp("server"), "--frobnicate=1") as found:
        yield found


def test_health_needs_no_credentials_and_everything_else_does(server: Server) -> None:
    """As in kube-apiserver with RBAC."""
    assert [server.call("GET", f"/{page}", token="")[0] for page in ("healthz", "readyz", "livez", "version")] == [200] * 4
    assert server.call("GET", "/api/v1/namespaces", token="")[0] == 403
    assert server.call("GET", "/api/v1/namespaces", token="other")[0] == 401


def test_nothing_shows_logical_clusters(server: Server) -> None:
    """Neither paths and headers nor objects, and not discovery."""
    status, made = server.call("POST", "/api/v1/namespaces/default/configmaps", {"metadata": {"name": "plain"}})
    assert status == 201
    assert "annotations" not in made["metadata"]
    for path in ("/clusters/root/api/v1/namespaces", "/clusters/other/apis", "/clusters/*/api/v1/namespaces"):
        assert server.call("GET", path)[0] == 404
    groups = [group["name"] for group in server.call("GET", "/apis")[1]["groups"]]
    assert "apps" in groups
    assert not [name for name in groups if "kcp" in name]
    rbac = "/apis/rbac.authorization.k8s.io/v1"
    for kind in ("clusterroles", "clusterrolebindings"):
        names = [one["metadata"]["name"] for one in server.call("GET", f"{rbac}/{kind}")[1]["items"]]
        assert "cluster-admin" in names
        assert not [name for name in names if "kcp" in name]
    assert server.call("GET", f"{rbac}/clusterroles/system:kcp:workspace:access")[0] == 404
    network = server.call("GET", "/apis/networking.k8s.io/v1/servicecidrs/kubernetes")[1]
    assert network["spec"]["cidrs"] == ["10.0.0.0/24"]
    assert "v1beta1" not in {v["version"] for g in server.call("GET", "/apis")[1]["groups"] for v in g["versions"]}


def test_no_controller_is_seen(server: Server) -> None:
    """A namespace stays in deletion, dependents of nothing stay, and the default service account is the test's to create."""
    assert server.call("POST", "/api/v1/namespaces", {"metadata": {"name": "gone"}})[0] == 201
    assert server.call("GET", "/api/v1/namespaces/gone/serviceaccounts/default")[0] == 404
    assert server.call("POST", "/api/v1/namespaces/gone/serviceaccounts", {"metadata": {"name": "default"}})[0] == 201
    assert server.call("GET", "/api/v1/namespaces/gone/configmaps/kube-root-ca.crt")[0] == 404
    status, deleted = server.call("DELETE", "/api/v1/namespaces/gone")
    assert (status, deleted["status"]["phase"], deleted["spec"]["finalizers"]) == (200, "Terminating", ["kubernetes"])
    assert server.call("GET", "/api/v1/namespaces/gone/serviceaccounts/default")[0] == 200
    assert server.call("GET", "/api/v1/namespaces/gone")[1]["status"]["phase"] == "Terminating"


def test_the_authority_of_clients_names_users_and_groups(server: Server) -> None:
    """CN is the user, O are the groups; RBAC needs no permission to enter a logical cluster."""
    reader = server.directory / "reader.pem"
    issued = server.authority.issue("reader", "readers")
    reader.write_bytes(issued.pem + key_pem(issued.key))
    path = "/api/v1/namespaces/default/configmaps"
    assert server.call("GET", path, token="", certificate=str(reader))[0] == 403
    role = {"metadata": {"name": "readers"}, "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}]}
    binding = {
        "metadata": {"name": "readers"},
        "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "readers"},
        "subjects": [{"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "readers"}],
    }
    rbac = "/apis/rbac.authorization.k8s.io/v1/namespaces/default"
    assert server.call("POST", f"{rbac}/roles", role)[0] == 201
    assert server.call("POST", f"{rbac}/rolebindings", binding)[0] == 201
    assert server.call("GET", path, token="", certificate=str(reader))[0] == 200


def test_tokens_are_those_of_the_keys_of_the_test(server: Server) -> None:
    """The issuer is the one of the command line, without the name of a cluster, and tokens are valid."""
    assert server.call("POST", "/api/v1/namespaces/default/serviceaccounts", {"metadata": {"name": "builder"}})[0] == 201
    status, answer = server.call("POST", "/api/v1/namespaces/default/serviceaccounts/builder/token", {"spec": {}})
    assert status == 201, answer
    token = answer["status"]["token"]
    header, claims = (json.loads(base64.urlsafe_b64decode(part + "===")) for part in token.split(".")[:2])
    assert header["alg"] == "RS256"
    assert (claims["iss"], claims["aud"]) == (server.issuer, [server.issuer])
    assert "clusterName" not in claims["kubernetes.io"]
    review = {"spec": {"token": token}}
    status, reviewed = server.call("POST", "/apis/authentication.k8s.io/v1/tokenreviews", review)
    assert reviewed["status"]["user"]["username"] == "system:serviceaccount:default:builder"
    assert server.call("GET", "/.well-known/openid-configuration")[1]["jwks_uri"] == f"{server.issuer}openid/v1/jwks"


def test_a_server_stops_at_sigterm_and_has_warned(assets: Path, tmp_path: Path) -> None:
    """All controllers run where the environment asks for them, and a stopped server leaves no files."""
    (tmp_path / "all").mkdir()
    environment = {"KCP_PY_ENVTEST_CONTROLLERS": "*"}
    with running(assets / "kube-apiserver", tmp_path / "all", "--frobnicate=1", environment=environment) as found:
        assert found.call("GET", "/api/v1/namespaces/default/serviceaccounts/default")[0] == 200
        code, errors = found.stop()
    assert code == 0
    assert "Warning: unknown flag --frobnicate" in errors
    files = {"ca.crt", "tokens.csv", "sa.key", "sa.pub", "apiserver.crt", "apiserver.key"}
    assert {path.name for path in (tmp_path / "all").iterdir()} == files


def test_flags_that_cannot_be_used_end_the_process(assets: Path, tmp_path: Path) -> None:
    """With one line and code 1."""
    command = [str(assets / "kube-apiserver"), f"--cert-dir={tmp_path}", "--secure-port=http"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (completed.returncode, completed.stdout) == (1, "")
    assert completed.stderr.startswith("Error: --secure-port: ")


def test_help_and_version_are_those_of_kube_apiserver(assets: Path) -> None:
    """Envtest asks for help before each start."""
    for flag, text in (("--help", "      --secure-port value\n"), ("--version", "Kubernetes v1.")):
        completed = subprocess.run([str(assets / "kube-apiserver"), flag], capture_output=True, text=True, timeout=SECONDS, check=True)
        assert text in completed.stdout


def test_etcd_answers_health_checks(assets: Path, tmp_path: Path) -> None:
    """In pieces, too; other paths are not found, and SIGTERM ends it with code 0."""
    port = reserve_port()
    url = f"http://127.0.0.1:{port}"
    command = [str(assets / "etcd"), f"--listen-client-urls={url}", f"--data-dir={tmp_path}", "--unsafe-no-fsync=true", "--x", "y"]
    process = subprocess.Popen(command)
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=SECONDS) as response:
                assert json.load(response) == {"health": "true", "reason": ""}
                break
            assert time.monotonic() < deadline
            time.sleep(0.02)
        with pytest.raises(urllib.error.HTTPError, match="404"):
            urllib.request.urlopen(f"{url}/v3/kv", timeout=SECONDS)
        process.send_signal(signal.SIGTERM)
        assert process.wait(SECONDS) == 0
    finally:
        process.kill()
        process.wait()
    assert list(tmp_path.iterdir()) == []


def test_programs_start_below_any_path(tmp_path: Path) -> None:
    """A path with blanks, or one that is too long for the first line, is given to the shell."""
    place = tmp_path / f"it's a {'long ' * 30}path"
    place.mkdir()
    interpreter = place / "python"
    interpreter.write_text(f'#!/bin/sh\nexec "{sys.executable}" "$@"\n')
    interpreter.chmod(0o755)
    program = tmp_path / "program"
    program.write_text(first_lines(str(interpreter)) + "import sys\nprint(sys.argv[1:], sys.flags.isolated)\n")
    program.chmod(0o755)
    completed = subprocess.run([str(program), "a b", "c"], capture_output=True, text=True, timeout=SECONDS, check=True)
    assert completed.stdout == "['a b', 'c'] 1\n"


def test_kubectl_is_a_real_one_or_says_that_there_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What an earlier run has written is not taken for a real one."""
    assets, other = tmp_path / "assets", tmp_path / "other"
    assets.mkdir()
    other.mkdir()
    monkeypatch.setenv("PATH", f"{assets}:{other}")
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    assert link_kubectl(assets) is None
    assert link_kubectl(assets) is None
    monkeypatch.undo()
    write_program(assets / "kubectl", (assets / "kubectl").read_text().partition("\n")[2])
    environment = {"PATH": f"{assets}:{other}"}
    completed = subprocess.run([str(assets / "kubectl"), "version"], capture_output=True, text=True, check=False, env=environment)
    assert completed.returncode == 127
    assert "kubectl was not found" in completed.stderr
    (other / "kubectl").write_text("#!/bin/sh\necho real $1\n")
    (other / "kubectl").chmod(0o755)
    completed = subprocess.run([str(assets / "kubectl"), "version"], capture_output=True, text=True, check=True, env=environment)
    assert completed.stdout == "real version\n"
    assert link_kubectl(assets, other / "kubectl") == other / "kubectl"
    assert (assets / "kubectl").resolve() == (other / "kubectl").resolve()


@pytest.fixture
def shared(tmp_path: Path) -> Iterator[Path]:
    """Programs with a warm process, which ends with the test."""
    directory = tmp_path / "shared"
    directory.mkdir()
    write_programs(directory, shared=True)
    yield directory
    for number in warm_processes(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def test_environments_of_a_warm_process_share_nothing(shared: Path, tmp_path: Path) -> None:
    """Several at once, with flags of their own; each ends with its program, by SIGTERM with code 0, and by SIGKILL."""
    with contextlib.ExitStack() as stack:
        servers = []
        for name in ("one", "two"):
            (tmp_path / name).mkdir()
            servers.append(Server(shared / "kube-apiserver", tmp_path / name, "--frobnicate=1"))
            stack.callback(servers[-1].process.communicate)
            stack.callback(servers[-1].process.kill)
        for server in servers:
            server.wait()
        one, two = servers
        assert one.call("POST", "/api/v1/namespaces", {"metadata": {"name": "mine"}})[0] == 201
        assert two.call("GET", "/api/v1/namespaces/mine")[0] == 404
        code, errors = one.stop()
        assert (code, errors) == (0, "Warning: unknown flag --frobnicate\n")
        two.process.kill()
        two.process.wait()
        deadline = time.monotonic() + SECONDS
        for server in servers:
            while is_listening(server.port):
                assert time.monotonic() < deadline
                time.sleep(0.02)


def test_environments_start_whatever_has_become_of_the_spare(shared: Path, tmp_path: Path) -> None:
    """With one that is killed, with more environments at once than are ready, and after the warm process itself was killed."""
    for attempt in range(3):
        with contextlib.ExitStack() as stack:
            servers = []
            for number in range(3):
                directory = tmp_path / f"{attempt}-{number}"
                directory.mkdir()
                servers.append(Server(shared / "kube-apiserver", directory))
                stack.callback(servers[-1].process.communicate)
                stack.callback(servers[-1].process.kill)
            for server in servers:
                server.wait()
            names = [f"of-{server.port}" for server in servers]
            for server, name in zip(servers, names, strict=True):
                assert server.call("POST", "/api/v1/namespaces", {"metadata": {"name": name}})[0] == 201
            for server, name in zip(servers, names, strict=True):
                assert [server.call("GET", f"/api/v1/namespaces/{other}")[0] for other in names] == [
                    200 if other == name else 404 for other in names
                ]
            if attempt < 2:
                kill_warm(shared, oldest=bool(attempt))


def warm_processes(directory: Path) -> list[int]:
    """The ids of the warm process and of its forks, oldest first."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if f"{directory}/.warm".encode() in (process / "cmdline").read_bytes():
                found.append(int(process.name))
    return sorted(found, key=lambda number: int((Path("/proc") / str(number) / "stat").read_text().rpartition(")")[2].split()[19]))


def kill_warm(directory: Path, *, oldest: bool) -> None:
    """Kill the warm process, or its forks: the servers and the spare."""
    first, *forks = warm_processes(directory)
    for number in [first] if oldest else forks:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def test_a_warm_process_that_is_unused_leaves_nothing(tmp_path: Path) -> None:
    """Neither its socket nor the directory of it, and a second one ends at once while the lock is held."""
    path = tmp_path / "warm" / "socket"
    text = f"from kcp_py.cli.envtest import warm; warm.IDLE_SECONDS = 0; print(warm.main({str(path)!r}), warm.main({str(path)!r}))"
    command = [sys.executable, "-c", text]
    assert subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout == "0 0\n"
    assert list(tmp_path.iterdir()) == []
    path.parent.mkdir()
    with path.with_name("socket.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True).stdout == "0 0\n"
    assert [file.name for file in path.parent.iterdir()] == ["socket.lock"]


def test_flags_are_refused_through_a_warm_process(shared: Path, tmp_path: Path) -> None:
    """With the line and the code of a server that starts by itself."""
    command = [str(shared / "kube-apiserver"), f"--cert-dir={tmp_path}", "--secure-port=http"]
    completed = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=False)
    assert (completed.returncode, completed.stderr[:22]) == (1, "Error: --secure-port: ")


def is_listening(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0
