"""What a server does, and what its clients and its operator are told, when the disk fails it."""

from __future__ import annotations

import fcntl
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import Watch, configmap, revision_of
from tests.small_disk import fill, small_disk

NewServer = Callable[..., ServerProcess]

pytestmark = pytest.mark.slow
PROCESSES = pytest.mark.parametrize("workers", ["1", "3"], ids=["one process", "three processes"])


_FAILING_SYNCS = """
# Found by the interpreter at its start: syncs of the store fail as long as a file is there.
import os, sys
if "start" in sys.argv:
    import apsw

    class File(apsw.VFSFile):
        def __init__(self, name, flags):
            super().__init__("unix", name, flags)

        def xSync(self, flags):
            if os.path.exists(os.environ["SYNCS_FAIL"]):
                error = apsw.IOError("the disk failed")
                error.extendedresult = apsw.SQLITE_IOERR_FSYNC
                raise error
            super().xSync(flags)

    class Disk(apsw.VFS):
        def __init__(self):
            super().__init__("failing", "unix", makedefault=True)

        def xOpen(self, name, flags):
            return File(name, flags)

    disk = Disk()
"""


def _run(server: ServerProcess, *arguments: str) -> subprocess.CompletedProcess[str]:
    """A command of the program with the server's settings."""
    command = [sys.executable, "-m", "kcp_py", *arguments, "--root-directory", str(server.root)]
    return subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)


def _has_metric(server: ServerProcess, name: str, value: int) -> bool:
    """Whether a metric has a value, in any process of the server."""
    return re.search(rf"^{name}(\{{.*\}})? {value}(\.0)?$", server.request("GET", "/metrics").body.decode(), re.MULTILINE) is not None


def _configmaps(cluster: str, name: str = "") -> str:
    return f"/clusters/{cluster}/api/v1/namespaces/default/configmaps{name and '/'}{name}"


@PROCESSES
def test_a_flipped_bit_is_told_to_its_owner_and_spares_all_others(new_server: NewServer, workers: str) -> None:
    """The damaged object is an error with its name in its cluster, absent from the wildcard list, logged, and found by doctor."""
    server = new_server("--workers", workers).start()
    for cluster in ("blue", "green"):
        for name in ("large", "small"):
            text = f"{cluster} " * (3000 if name == "large" else 3)
            assert server.request("POST", _configmaps(cluster), configmap(name, {"text": text})).code == 201
    assert server.stop() == 0
    database = server.root / "kcp.db"
    content = bytearray(database.read_bytes())
    content[content.index(b"green " * 680) + 7] ^= 1
    database.write_bytes(content)
    examined = _run(server, "doctor")
    assert examined.returncode == 1
    assert "/configmaps/green/default/large cannot be read" in examined.stdout
    server.start()
    for path in (_configmaps("green", "large"), _configmaps("green")):
        answer = server.request("GET", path)
        assert answer.code == 500
        assert "/configmaps/green/default/large is damaged" in answer.json["message"]
        assert "until a backup is restored; kcp-py doctor lists what is damaged" in answer.json["message"]
    assert server.request("GET", _configmaps("green", "small")).code == 200
    assert len(server.request("GET", _configmaps("blue")).json["items"]) == 2
    wildcard = server.request("GET", "/clusters/*/api/v1/configmaps")
    assert wildcard.code == 200
    mine = [item for item in wildcard.json["items"] if item["metadata"]["name"] in ("large", "small")]
    assert [(item["metadata"]["annotations"]["kcp.io/cluster"], item["metadata"]["name"]) for item in mine] == [
        ("blue", "large"),
        ("blue", "small"),
        ("green", "small"),
    ]
    assert "storage_damaged" in server.log_file.read_text()
    assert server.stop() == 0


@pytest.mark.parametrize("left", [0, 8192], ids=["empty", "cut short"])
def test_a_database_that_was_cut_short_is_refused(new_server: NewServer, left: int) -> None:
    """The server does not start with a damaged database, advises what to do, and leaves it unchanged; doctor reports the damage."""
    server = new_server().start()
    assert server.request("POST", _configmaps("a"), configmap("one", {"n": "1"})).code == 201
    assert server.stop() == 0
    database = server.root / "kcp.db"
    content = database.read_bytes()[:left]
    database.write_bytes(content)
    started = _run(server, "start", "--secure-port", "0")
    assert started.returncode == 1
    assert started.stdout == ""
    assert "kcp-py restore" in started.stderr
    assert database.read_bytes() == content
    assert _run(server, "doctor").returncode == 1


def test_a_restore_is_told_to_who_saw_what_it_lost(new_server: NewServer) -> None:
    """A backup of a running server is restored: watches from revisions after it get 410, those from the future 504, and new ones go on."""
    server = new_server().start()
    path = _configmaps("a")
    kept = server.request("POST", path, configmap("kept", {"n": "1"})).json
    copy = server.root.parent / "copy.db"
    made = _run(server, "backup", str(copy))
    assert (made.returncode, made.stderr) == (0, "")
    assert _run(server, "backup", str(copy)).returncode == 1
    lost = revision_of(server.request("POST", path, configmap("lost", {"n": "1"})).json)
    refused = _run(server, "restore", str(copy))
    assert refused.returncode == 1
    assert "in use by process" in refused.stderr
    assert server.stop() == 0
    restored = _run(server, "restore", str(copy))
    assert (restored.returncode, restored.stderr) == (0, "")
    assert "kcp.db.replaced-" in restored.stdout
    server.start()
    listed = server.request("GET", path).json
    assert [item["metadata"]["name"] for item in listed["items"]] == ["kept"]
    assert listed["items"][0]["metadata"]["uid"] == kept["metadata"]["uid"]
    assert revision_of(listed) > lost + 900_000_000
    for cluster in ("a", "*"):
        for asked, code in ((lost, 410), (revision_of(listed) * 2, 504)):
            with Watch(server, f"/clusters/{cluster}/api/v1/configmaps?watch=1&resourceVersion={asked}") as watch:
                assert [(event["type"], event["object"]["code"]) for event in watch] == [("ERROR", code)]
    with Watch(server, f"{path}?watch=1&resourceVersion={revision_of(listed)}") as watch:
        changed = server.request("PUT", f"{path}/kept", configmap("kept", {"n": "2"}))
        assert changed.code == 200
        event = next(watch)
        assert (event["type"], event["object"]["data"]) == ("MODIFIED", {"n": "2"})
    assert _run(server, "doctor").returncode == 0


@PROCESSES
def test_a_full_disk_is_told_and_objects_can_be_deleted(new_server: NewServer, tmp_path: Path, workers: str) -> None:
    """Creates are 507, deletions work, log, readiness, metrics and doctor tell; with room on the disk all is well without a restart."""
    with small_disk(tmp_path / "disk", 48) as disk:
        server = new_server("--storage-reserve", "4Mi", "--workers", workers, root=disk / "root").start()
        path = _configmaps("a")
        text = "x" * 100_000
        for number in range(50):
            assert server.request("POST", path, configmap(f"o{number}", {"text": text})).code == 201
        finalizer = configmap("held", {"text": text}, finalizers=["example.com/held"])
        assert server.request("POST", path, finalizer).code == 201
        ballast = fill(disk)
        number = 50
        while (answer := server.request("POST", path, configmap(f"o{number}", {"text": text}))).code == 201:
            number += 1
        assert answer.code == 507
        assert "until objects are deleted" in answer.json["message"]
        assert server.request("GET", "/readyz").code == 200
        verbose = server.request("GET", "/readyz?verbose")
        assert (verbose.code, b"[-]storage-space failed" in verbose.body) == (200, True)
        assert server.request("GET", "/readyz/storage-space").code == 500
        assert _has_metric(server, "kcp_storage_full", 1)
        assert "storage_full" in server.log_file.read_text()
        assert "the disk is full" in _run(server, "doctor", "--storage-reserve", "4Mi").stdout
        for gone in range(0, number, 2):
            assert server.request("DELETE", f"{path}/o{gone}").code == 200
        assert server.request("DELETE", f"{path}/held").code == 200
        held = server.request("GET", f"{path}/held").json
        assert held["metadata"]["deletionTimestamp"]
        del held["metadata"]["finalizers"]
        assert server.request("PUT", f"{path}/held", held).code == 200
        assert server.request("GET", f"{path}/held").code == 404
        assert len(server.request("GET", path).json["items"]) == number // 2
        ballast.unlink()
        while server.request("GET", "/readyz/storage-space").code != 200:
            pass
        assert server.request("POST", path, configmap("again", {"text": text})).code == 201
        assert _has_metric(server, "kcp_storage_full", 0)
        assert "storage_room_again" in server.log_file.read_text()
        assert "has its reserve" in _run(server, "doctor", "--storage-reserve", "4Mi").stdout
        assert server.stop() == 0


@PROCESSES
def test_a_failed_sync_is_told_and_recovered_from(new_server: NewServer, tmp_path: Path, workers: str) -> None:
    """While syncs fail, writes fail, reads go on, readiness and metrics tell; then writes are taken again, also after a kill."""
    (tmp_path / "sitecustomize.py").write_text(_FAILING_SYNCS)
    failing = tmp_path / "failing"
    server = new_server("--workers", workers, environment={"PYTHONPATH": str(tmp_path), "SYNCS_FAIL": str(failing)}).start()
    path = _configmaps("a")
    assert server.request("POST", path, configmap("before", {"n": "1"})).code == 201
    failing.touch()
    answer = server.request("POST", path, configmap("meanwhile", {"n": "1"}))
    assert answer.code == 504
    assert "may have been carried out" in answer.json["message"]
    assert server.request("POST", path, configmap("refused", {"n": "1"})).code == 503
    assert server.request("GET", "/readyz").code == 500
    assert b"[-]etcd failed" in server.request("GET", "/readyz?verbose").body
    assert server.request("GET", f"{path}/before").code == 200
    while not _has_metric(server, "kcp_storage_up", 0):
        pass
    failing.unlink()
    while server.request("GET", "/readyz").code != 200:
        pass
    assert server.request("GET", f"{path}/meanwhile").code == 404
    after = server.request("POST", path, configmap("after", {"n": "1"}))
    assert after.code == 201
    while not _has_metric(server, "kcp_storage_up", 1):
        pass
    log = server.log_file.read_text()
    assert "storage_write_failed" in log
    assert "storage_reopened" in log
    server.stop(signal.SIGKILL)
    with (server.root / "lock").open() as lock:
        # The other processes end a moment later.
        fcntl.flock(lock, fcntl.LOCK_EX)
    server.start()
    listed = server.request("GET", path).json
    assert [item["metadata"]["name"] for item in listed["items"]] == ["after", "before"]
    assert revision_of(listed) >= revision_of(after.json)
    assert server.stop() == 0
    assert _run(server, "doctor").returncode == 0
