"""The objects of a test environment whose API server is started again, with its program in the place of etcd."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcp_py.cli.envtest.assets import write_programs
from kcp_py.cli.envtest.datadirectory import journal_of
from tests.cli.envtest.test_assets import SECONDS, Server, warm_processes
from tests.ports import reserve_port

CONFIGMAPS = "/api/v1/namespaces/default/configmaps"


@pytest.fixture(scope="module", params=["alone", "shared"])
def assets(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    directory = tmp_path_factory.mktemp(request.param)
    write_programs(directory, shared=request.param == "shared")
    yield directory
    for number in warm_processes(directory):
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


@contextlib.contextmanager
def etcd(assets: Path, cwd: Path, *flags: str) -> Iterator[str]:
    """The URL of a program in the place of etcd."""
    url = f"http://127.0.0.1:{reserve_port()}"
    process = subprocess.Popen([str(assets / "etcd"), "--listen-client-urls", url, *flags], cwd=cwd)
    try:
        deadline = time.monotonic() + SECONDS
        while True:
            with contextlib.suppress(OSError), urllib.request.urlopen(f"{url}/health", timeout=SECONDS):
                break
            assert time.monotonic() < deadline
            time.sleep(0.02)
        yield url
    finally:
        process.kill()
        process.wait()


def test_an_api_server_that_is_started_again_has_its_objects(assets: Path, tmp_path: Path) -> None:
    """After SIGTERM, and after SIGKILL with the same port at once; revisions go on, and an exact read of the last one is served."""
    with etcd(assets, tmp_path, "--data-dir=data") as url:
        uid, last = "", 0
        server = Server(assets / "kube-apiserver", tmp_path, f"--etcd-servers={url}")
        try:
            for end in (signal.SIGTERM, signal.SIGKILL, signal.SIGTERM):
                server.wait()
                if not uid:
                    made = server.call("POST", CONFIGMAPS, {"metadata": {"name": "kept"}})[1]
                    uid = made["metadata"]["uid"]
                found = server.call("GET", f"{CONFIGMAPS}/kept")[1]
                assert found["metadata"]["uid"] == uid
                changed = server.call("PUT", f"{CONFIGMAPS}/kept", {**found, "data": {"end": end.name}})[1]
                assert int(changed["metadata"]["resourceVersion"]) > last
                last = int(changed["metadata"]["resourceVersion"])
                server.process.send_signal(end)
                server.process.communicate(timeout=SECONDS)
                server = Server(assets / "kube-apiserver", tmp_path, f"--etcd-servers={url}", port=server.port)
            server.wait()
            found = server.call("GET", f"{CONFIGMAPS}/kept")[1]
            assert (found["data"], int(found["metadata"]["resourceVersion"])) == ({"end": "SIGTERM"}, last)
            listed = server.call("GET", f"{CONFIGMAPS}?resourceVersion={last}&resourceVersionMatch=Exact")
            assert (listed[0], len(listed[1]["items"])) == (200, 1)
        finally:
            server.process.kill()
            server.process.communicate()
    assert [path.suffix for path in (tmp_path / "data").iterdir()] == [".journal"]


def test_where_objects_are_kept(assets: Path, tmp_path: Path) -> None:
    """With a data directory, per prefix; a real etcd and an address without a server have none."""
    with etcd(assets, tmp_path, "--data-dir", "data") as url, etcd(assets, tmp_path) as without:
        first, second = journal_of(["http://127.0.0.1:1", url], "/registry"), journal_of([url], "/other")
        assert first is not None
        assert second is not None
        assert first.parent == second.parent == tmp_path / "data"
        assert first != second
        assert journal_of([without, "https://127.0.0.1:1", "http://", "127.0.0.1:2379", ""], "/registry") is None
