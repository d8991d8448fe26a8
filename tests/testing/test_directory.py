"""Directories of test servers: private, removed at the end, and swept where the end was a kill."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys

import pytest

from kcp_py.testing.directory import PrivateDirectory, sweep


@pytest.fixture
def abandoned(tmp_path):
    """Makes a directory of a process that has ended, an hour old."""
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()

    def make(pid=process.pid, name="0123456789abcdef"):
        path = tmp_path / f"kcp-py-test-{pid}-{name}"
        path.mkdir(mode=0o700)
        (path / "file").write_text("")
        os.utime(path, (1, 1))
        return path

    return make


def test_directories_of_killed_processes_are_removed(abandoned, tmp_path):
    """Those of living processes, locked ones and others stay."""
    dead, living, locked = abandoned(), abandoned(os.getpid()), abandoned(name="f" * 16)
    impossible, other = abandoned(9999999999), tmp_path / "kcp-py-test-other"
    other.mkdir()
    lock = os.open(locked, os.O_RDONLY)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX)
        sweep(tmp_path)
    finally:
        os.close(lock)
    assert [path.exists() for path in (dead, impossible, living, locked, other)] == [False, False, True, True, True]
    sweep(tmp_path)
    assert not locked.exists()


def test_young_directories_and_links_stay(abandoned, tmp_path):
    """A process may be about to lock its directory; a link may lead to files of the user."""
    young, target = abandoned(), tmp_path / "target"
    os.utime(young)
    target.mkdir(mode=0o700)
    (target / "precious").write_text("")
    os.utime(target, (1, 1))
    link = tmp_path / young.name.replace("0123", "ffff")
    link.symlink_to(target)
    public = abandoned(name="e" * 16)
    public.chmod(0o755)
    sweep(tmp_path)
    assert (young.exists(), link.is_symlink(), (target / "precious").exists(), public.exists()) == (True, True, True, True)


def test_a_parent_that_does_not_exist_is_no_error(tmp_path):
    """The directory of temporary files may go at any time."""
    sweep(tmp_path / "missing")


def test_a_server_locks_its_directory(monkeypatch, tmp_path):
    """From its creation to its removal, so that no process of another container takes it for abandoned."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    directory = PrivateDirectory()
    path = directory.make()
    assert path.stat().st_mode & 0o777 == 0o700
    descriptor = os.open(path, os.O_RDONLY)
    try:
        with pytest.raises(BlockingIOError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        directory.remove()
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    finally:
        os.close(descriptor)
    assert not path.exists()
