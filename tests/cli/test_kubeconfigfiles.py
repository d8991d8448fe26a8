"""Kubeconfigs as files."""

from __future__ import annotations

import stat
import threading

import pytest
import yaml

from kcp_py.cli.exits import CommandError
from kcp_py.cli.kubeconfigfiles import merge_into
from tests.kubeconfig.test_merging import made


def test_a_missing_file_is_made(tmp_path):
    """With its directory, for its owner alone, and without the lock."""
    path = tmp_path / "home" / ".kube" / "config"
    assert merge_into(path, made()).context == "alice@team-a"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert yaml.safe_load(path.read_text())["current-context"] == "alice@team-a"
    assert [one.name for one in path.parent.iterdir()] == ["config"]


def test_a_link_stays_a_link(tmp_path):
    """The file that it leads to is changed."""
    target, link = tmp_path / "target", tmp_path / "link"
    target.write_text("unknown: kept\n")
    link.symlink_to(target)
    merge_into(link, made())
    assert link.is_symlink()
    assert yaml.safe_load(target.read_text())["unknown"] == "kept"


@pytest.mark.parametrize("content", ["- a list\n", "clusters: 3\n", "a: [\n", "\x00"])
def test_another_file_is_left_alone(tmp_path, content):
    """A file that is not a kubeconfig is not changed, and one line says why."""
    path = tmp_path / "config"
    path.write_text(content)
    with pytest.raises(CommandError) as caught:
        merge_into(path, made())
    assert str(caught.value).startswith(f"{path}: ")
    assert "\n" not in str(caught.value)
    assert path.read_text() == content
    assert [one.name for one in tmp_path.iterdir()] == ["config"]


def test_a_lock_of_another_program_is_respected(tmp_path):
    """kubectl makes the same file: nothing is written while it is there."""
    path = tmp_path / "config"
    lock = tmp_path / "config.lock"
    lock.touch()
    with pytest.raises(CommandError, match=r"is locked by another program; delete .*config\.lock"):
        merge_into(path, made(), patience=0)
    assert not path.exists()
    assert lock.exists()


def test_merges_at_the_same_time_lose_nothing(tmp_path):
    """Each of many writers finds its context in the file."""
    path = tmp_path / "config"

    def write(number):
        server = f"https://kcp/clusters/c{number}"
        name = f"c{number}"
        merge_into(path, made(server=server, cluster_name=name, user_name=name, context_name=name), patience=60)

    threads = [threading.Thread(target=write, args=(number,)) for number in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(entry["name"] for entry in yaml.safe_load(path.read_text())["contexts"]) == sorted(f"c{number}" for number in range(12))
