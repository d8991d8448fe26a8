"""Files that other programs write."""

from __future__ import annotations

import os
from pathlib import Path

from kcp_py.aio.settledfile import SettledFile


def test_a_file_settles_when_it_was_not_written_since_the_last_look(tmp_path: Path) -> None:
    """The first look finds nothing settled. Each write, replacement and removal begins again."""
    path = tmp_path / "file"
    path.write_text("half")
    os.utime(path, ns=(1, 1))
    file = SettledFile(path)
    assert [file.look(), file.look(), file.look()] == [False, True, True]
    path.write_text("half and half")
    os.utime(path, ns=(1, 1))
    assert [file.look(), file.look()] == [False, True]
    os.utime(path, ns=(2, 2))
    assert [file.look(), file.look()] == [False, True]
    other = tmp_path / "other"
    other.write_text("half and half")
    os.utime(other, ns=(2, 2))
    other.replace(path)
    assert [file.look(), file.look()] == [False, True]
    path.unlink()
    assert [file.look(), file.look()] == [False, True]


def test_a_link_that_is_swapped(tmp_path: Path) -> None:
    """As in a mounted Secret, whose directory is a link to another one after each change."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text(name)
        os.utime(tmp_path / name / "file", ns=(1, 1))
    link = tmp_path / "data"
    link.symlink_to("one")
    file = SettledFile(link / "file")
    assert [file.look(), file.look()] == [False, True]
    (tmp_path / "new").symlink_to("two")
    (tmp_path / "new").replace(link)
    assert [file.look(), file.look()] == [False, True]
