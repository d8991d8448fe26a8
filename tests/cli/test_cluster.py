"""Commands about the logical clusters of a running server."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys

import pytest
import yaml

from kcp_py.cli.remote import RemoteError, RemoteServer, load_context
from kcp_py.cli.root import run
from tests.cli.conftest import SERVER, running_server


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The kubeconfig of a small server that runs for the tests of this module."""
    with running_server(tmp_path_factory, str(SERVER)) as kubeconfig:
        yield kubeconfig


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
    """Delete gives up after --timeout and names the reason of the wait."""
    command("create", "team-d")
    code, out, err = command("delete", "team-d", "--timeout", "0")
    assert (code, out) == (1, "")
    assert err == "error: logical cluster team-d is not gone after 0s: its objects are being deleted\n"


def test_an_unknown_cluster_cannot_be_deleted(command):
    """The server does not tell unknown from forbidden, so neither does the command."""
    assert command("delete", "nowhere") == (1, "", "error: there is no logical cluster nowhere, or it may not be deleted: forbidden\n")


def test_a_kubeconfig_for_one_cluster(command, running, tmp_path, capsys):
    """It has one context for that cluster with the same credentials, and works on its own."""
    code, out, _ = command("kubeconfig", "team-a", "--create")
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


def test_a_kubeconfig_in_a_file(command, tmp_path):
    """The file is for its owner alone whatever the umask; another file of the name is only replaced with --force."""
    command("create", "team-e")
    file = tmp_path / "team-e.kubeconfig"
    before = os.umask(0)
    try:
        assert command("kubeconfig", "team-e", "-o", str(file)) == (0, f"kubeconfig written to {file}\n", "")
    finally:
        os.umask(before)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    content = file.read_bytes()
    assert content.decode() == command("kubeconfig", "team-e")[1]
    file.chmod(0o644)
    assert command("kubeconfig", "team-e", "-o", str(file))[0] == 0
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    file.write_text("another")
    assert command("kubeconfig", "team-e", "-o", str(file)) == (1, "", f"error: {file} exists already; --force replaces it\n")
    assert file.read_text() == "another"
    assert command("kubeconfig", "team-e", "-o", str(file), "--force")[0] == 0
    assert file.read_bytes() == content
    assert [path.name for path in tmp_path.iterdir()] == [file.name]


def test_a_kubeconfig_that_cannot_be_written(command, tmp_path):
    """One line names the file and the reason."""
    command("create", "team-e")
    file = tmp_path / "absent" / "kubeconfig"
    assert command("kubeconfig", "team-e", "-o", str(file)) == (1, "", f"error: {file}: No such file or directory\n")
    assert command("kubeconfig", "team-e", "-o", str(tmp_path), "--force") == (1, "", f"error: {tmp_path}: not a regular file\n")
    assert command("kubeconfig", "team-e", "-o", "/dev/null", "--force") == (1, "", "error: /dev/null: not a regular file\n")


def test_a_redirected_kubeconfig_is_warned_about(running, tmp_path):
    """Output into a file that other users can read says so on stderr; into a private file or a pipe it does not."""
    command = [sys.executable, "-m", "kcp_py", "cluster", "kubeconfig", "root", "--kubeconfig", str(running)]
    for mode, warned in ((0o644, True), (0o600, False)):
        file = tmp_path / f"{mode:o}"
        file.touch()
        file.chmod(mode)
        with file.open("w") as out:
            completed = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=True)
        assert completed.stderr.startswith("warning: other users can read this file") is warned
        assert "current-context: root" in file.read_text()
    assert subprocess.run(command, capture_output=True, check=True).stderr == b""


def test_an_empty_path(command):
    """It is a mistake in the command line, not a file."""
    assert command("kubeconfig", "team-a", "-o", "") == (2, "", "error: --output: the path is empty\n")


def test_without_standard_input(real, running_really):
    """Where standard input is closed there is no terminal, so nothing is asked."""
    real("create", "unasked")
    command = f"exec {shlex.quote(sys.executable)} -m kcp_py cluster delete unasked --kubeconfig {shlex.quote(str(running_really))} <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "logical cluster unasked deleted\n", "")


def test_a_very_long_grace_period(real):
    """It is the longest that there is."""
    real("create", "long")
    assert real("delete", "long", "--grace-period", "99999999999999h")[0] == 0
    assert real("undelete", "long")[0] == 0


def test_no_kubeconfig_for_a_cluster_that_is_not_there(command, tmp_path):
    """A misspelt name is an error that names --create, which makes the cluster first."""
    file = tmp_path / "kubeconfig"
    code, out, err = command("kubeconfig", "team-misspelt", "-o", str(file))
    assert (code, out) == (1, "")
    assert err.startswith("error: there is no logical cluster team-misspelt")
    assert err.endswith("; --create makes it\n")
    assert not file.exists()
    for _ in range(2):
        assert command("kubeconfig", "team-misspelt", "--create", "-o", str(file))[0] == 0
    assert "team-misspelt" in command("list", "-o", "name")[1].split()
    for name in ("root", "system:admin"):
        assert command("kubeconfig", name)[0] == 0


@pytest.fixture(scope="module")
def running_really(tmp_path_factory):
    """The kubeconfig of a whole server."""
    with running_server(tmp_path_factory, "-m", "kcp_py", settings=["--storage", "memory"]) as kubeconfig:
        yield kubeconfig


@pytest.fixture
def real(running_really, capsys):
    """Runs `kcp-py cluster …` against the whole server: exit code, stdout, stderr."""

    def call(*arguments):
        code = run(["cluster", *arguments, "--kubeconfig", str(running_really)])
        captured = capsys.readouterr()
        return code, captured.out, captured.err

    return call


def test_create_if_not_exists(real):
    """A second create succeeds only when asked to; labels and annotations are the new cluster's."""
    assert real("create", "kept", "--label", "a=b", "--annotation", "c=d")[0] == 0
    metadata = json.loads(real("get", "kept", "-o", "json")[1])["metadata"]
    assert (metadata["labels"]["a"], metadata["annotations"]["c"]) == ("b", "d")
    assert real("create", "kept", "--if-not-exists") == (0, "logical cluster kept exists already\n", "")
    assert real("create", "kept") == (1, "", "error: logical cluster kept exists already\n")


def test_delete_and_ignore_not_found(real):
    """A cluster that is not there is an error unless it is to be ignored; a protected one is an error in any case."""
    assert real("delete", "absent")[0] == 1
    assert real("delete", "absent", "--ignore-not-found") == (0, "logical cluster absent not found\n", "")
    real("create", "guarded", "--annotation", "kcp-py.io/deletion-protection=true")
    for flags in ((), ("--ignore-not-found",), ("--grace-period", "0")):
        code, out, err = real("delete", "guarded", *flags)
        assert (code, out) == (1, "")
        assert "protected from deletion by its annotation kcp-py.io/deletion-protection" in err
    real("annotate", "guarded", "kcp-py.io/deletion-protection-")
    assert real("delete", "guarded") == (0, "logical cluster guarded deleted\n", "")


def test_ignore_not_found_where_clusters_are_declared(tmp_path_factory, capsys):
    """Such a server answers 403 for a cluster that is not there: the list tells the difference."""
    with running_server(tmp_path_factory, "-m", "kcp_py", settings=["--storage", "memory", "--logical-clusters", "declared"]) as kubeconfig:
        command = ["cluster", "delete", "absent", "--kubeconfig", str(kubeconfig)]
        assert run(command) == 1
        assert run([*command, "--ignore-not-found"]) == 0
        assert capsys.readouterr().out == "logical cluster absent not found\n"


def test_delete_and_undelete(real, running_really):
    """Within its grace period a deleted cluster is not used, is shown as deleted, and comes back with its content."""
    real("create", "back")
    path = "/clusters/back/api/v1/namespaces/default/configmaps"
    with RemoteServer(load_context(str(running_really), None)) as server:
        server.request("POST", path, {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}})
        code, out, _ = real("delete", "back", "--grace-period", "1h")
        after = json.loads(real("get", "back", "-o", "json")[1])["metadata"]["annotations"]["kcp-py.io/delete-after"]
        hint = f'until {after} "kcp-py cluster undelete back" brings it back'
        assert (code, out) == (0, f"logical cluster back deleted; {hint}\n")
        assert real("get", "back")[1].splitlines()[1].split()[:2] == ["back", "Deleted"]
        for command in (("kubeconfig", "back"), ("kubeconfig", "back", "--create"), ("create", "back", "--if-not-exists")):
            assert real(*command) == (1, "", f"error: logical cluster back is deleted; {hint}\n")
        with pytest.raises(RemoteError, match="kcp-py cluster undelete back"):
            server.request("GET", path)
        assert real("undelete", "back") == (0, "logical cluster back undeleted\n", "")
        assert server.request("GET", f"{path}/kept")["metadata"]["name"] == "kept"
    assert real("undelete", "back") == (1, "", "error: logical cluster back is not deleted\n")
    assert real("undelete", "absent") == (1, "", "error: there is no logical cluster absent\n")
    assert real("delete", "back", "--grace-period", "0") == (0, "logical cluster back deleted\n", "")


@pytest.mark.parametrize("case", [("n\n", [], 130, False), ("y\n", [], 0, True), ("", ["--yes"], 0, True)], ids=["no", "yes", "--yes"])
def test_delete_asks_on_a_terminal(real, running_really, on_a_terminal, case):
    """Only an answer of yes deletes; --yes does not ask."""
    typed, flags, code, gone = case
    real("create", "asked", "--if-not-exists")
    program = [sys.executable, "-m", "kcp_py", "cluster", "delete", "asked", "--kubeconfig", str(running_really)]
    seen, ended = on_a_terminal(*program, *flags, typed=typed)
    assert ended == code
    assert ("Delete logical cluster asked with everything in it?" in seen) is not bool(flags)
    assert (real("get", "asked")[0] == 1) is gone


def test_credentials_that_are_not_accepted(real, running_really, tmp_path, capsys):
    """The error names the file that they come from; credentials without permissions are refused in the server's words."""
    document = yaml.safe_load(running_really.read_text())
    for user, message in (({"token": "wrong"}, "Unauthorized: the server does not accept the credentials of"), ({}, "system:anonymous")):
        document["users"] = [{"name": entry["name"], "user": user} for entry in document["users"]]
        (tmp_path / "other").write_text(yaml.safe_dump(document))
        real("create", "seen", "--if-not-exists")
        for line in ("list", "get seen", "create more", "delete seen", "kubeconfig seen --create", "undelete seen", "label seen a=b"):
            assert run(["cluster", *line.split(), "--kubeconfig", str(tmp_path / "other")]) == 1
            err = capsys.readouterr().err
            assert message in err, line
            assert err.count("\n") == 1
    assert real("kubeconfig", "seen", "--create")[0] == 0
