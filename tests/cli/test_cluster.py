"""Commands about the logical clusters of a running server."""

from __future__ import annotations

import json

import pytest
import yaml

from kcp_py.cli.root import run
from tests.cli.conftest import SERVER, running_server


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The kubeconfig of a small server that runs for the tests of this module."""
    with running_server(tmp_path_factory, str(SERVER)) as kubeconfig:
        yield kubeconfig


@pytest.fixture
def command(running, capsys):
    """Runs `kcp-py cluster …` against the server: exit code, stdout, stderr."""

    def call(*arguments):
        code = run(["cluster", *arguments, "--kubeconfig", str(running)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_create_list_delete(command):
    """A cluster is made, listed in every form over several pages, and gone after delete has waited for it."""
    for name in ("team-a", "team-b", "team-c"):
        assert command("create", name) == (0, f"logical cluster {name} created\n", "")
    assert command("create", "team-a") == (1, "", "error: logical cluster team-a exists already\n")
    assert command("list", "-o", "name")[1] == "team-a\nteam-b\nteam-c\n"
    assert [item["metadata"]["annotations"]["kcp.io/cluster"] for item in json.loads(command("list", "-o", "json")[1])][:1] == ["team-a"]
    head, first, *_ = command("list")[1].splitlines()
    assert head.split() == ["NAME", "PHASE", "AGE"]
    assert first.split()[:2] == ["team-a", "Ready"]
    assert command("delete", "team-a") == (0, "logical cluster team-a deleted\n", "")
    assert command("list", "-o", "name")[1] == "team-b\nteam-c\n"
    assert command("delete", "team-b", "--wait=false") == (0, "logical cluster team-b is being deleted\n", "")


def test_what_does_not_end_is_told_of(command):
    """Delete gives up after --timeout with what is waited for."""
    command("create", "team-d")
    code, out, err = command("delete", "team-d", "--timeout", "0")
    assert (code, out) == (1, "")
    assert err == "error: logical cluster team-d is not gone after 0s: its objects are being deleted\n"


def test_an_unknown_cluster_cannot_be_deleted(command):
    """The server does not tell unknown from forbidden, so neither does the command."""
    assert command("delete", "nowhere") == (1, "", "error: there is no logical cluster nowhere, or it may not be deleted: forbidden\n")


def test_a_kubeconfig_for_one_cluster(command, running, tmp_path, capsys):
    """It has one context for that cluster with the same credentials, and works on its own."""
    code, out, _ = command("kubeconfig", "team-a")
    assert code == 0
    document = yaml.safe_load(out)
    whole = yaml.safe_load(running.read_text())
    assert document["current-context"] == "team-a"
    assert document["clusters"][0]["cluster"]["server"].endswith("/clusters/team-a")
    assert document["users"] == whole["users"][:1]
    (tmp_path / "team-a").write_text(out)
    assert run(["cluster", "list", "--kubeconfig", str(tmp_path / "team-a")]) == 0
    capsys.readouterr()


def test_the_token_user_works_too(command):
    """Any context of the kubeconfig can be used."""
    assert command("list", "-o", "name", "--context", "shard-base")[0] == 0


def test_kubeconfig_is_found_as_kubectl_finds_it(running, monkeypatch, tmp_path, capsys):
    """$KUBECONFIG names files of which the first that exists counts; without it .kcp/admin.kubeconfig here does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KUBECONFIG", raising=False)
    assert run(["cluster", "list"]) == 1
    assert "error: no kubeconfig: give --kubeconfig, set KUBECONFIG" in capsys.readouterr().err
    monkeypatch.setenv("KUBECONFIG", f"{tmp_path}/absent:{running}")
    assert run(["cluster", "list"]) == 0
    monkeypatch.delenv("KUBECONFIG")
    monkeypatch.chdir(running.parent.parent)
    assert run(["cluster", "list"]) == 0


@pytest.mark.parametrize("name", ["root", "system:admin"])
def test_clusters_of_the_server_are_deleted_by_force_only(command, name):
    """Without --force nothing is sent, and one line says why."""
    code, out, err = command("delete", name)
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {name} belongs to the server itself")
    assert "--force" in err
