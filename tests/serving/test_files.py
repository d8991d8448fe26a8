"""Files that only the owner may read, and that are never visible half written."""

from __future__ import annotations

import os
import stat

import pytest

from kcp_py.serving.files import make_private_directory, write_private_file


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def test_files_and_directories_are_private(tmp_path):
    """A directory gets 0700, a file 0600, also where a wider file stood before."""
    make_private_directory(tmp_path / "a" / "b")
    assert mode(tmp_path / "a" / "b") == 0o700
    path = tmp_path / "file"
    path.write_text("old")
    path.chmod(0o644)
    write_private_file(path, b"new")
    assert (path.read_bytes(), mode(path)) == (b"new", 0o600)


def test_an_existing_directory_is_left_alone(tmp_path):
    """The operator's own mode stays; a file in its place is an error."""
    (tmp_path / "wide").mkdir(mode=0o755)
    make_private_directory(tmp_path / "wide")
    assert mode(tmp_path / "wide") == 0o755
    (tmp_path / "file").touch()
    for path in ("file", "file/below", "file/below/that"):
        with pytest.raises(NotADirectoryError, match="file"):
            make_private_directory(tmp_path / path)


def test_a_failed_write_leaves_the_old_file_and_nothing_else(tmp_path, monkeypatch):
    """When the disk fails, the old content stays and the temporary file is gone."""
    path = tmp_path / "file"
    path.write_text("old")

    def fail(_descriptor):
        raise OSError("disk")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="disk"):
        write_private_file(path, b"new")
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["file"]


def test_a_file_that_need_not_be_durable_is_not_waited_for(tmp_path, monkeypatch):
    """It is complete and private all the same, and takes the place of another one in one step."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", synced.append)
    path = tmp_path / "file"
    for content in (b"old", b"new"):
        write_private_file(path, content, durable=False)
    assert (path.read_bytes(), path.stat().st_mode & 0o777, synced) == (b"new", 0o600, [])
    assert list(tmp_path.iterdir()) == [path]
    write_private_file(path, b"newer")
    assert len(synced) == 2, "the file and its directory"
