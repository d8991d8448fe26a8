"""Labels and annotations of logical clusters."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from kcp_py.cli.clusterapi import object_path
from kcp_py.cli.clusterlabels import parse_changes, parse_pairs
from kcp_py.cli.exits import UsageError
from kcp_py.cli.remote import RemoteServer, load_context
from kcp_py.cli.root import run
from tests.cli.conftest import running_server


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The kubeconfig of a server with the cluster team-a."""
    with running_server(tmp_path_factory, "-m", "kcp_py") as kubeconfig:
        assert run(["cluster", "create", "team-a", "--kubeconfig", str(kubeconfig)]) == 0
        yield kubeconfig


@pytest.mark.parametrize(("verb", "member", "done"), [("label", "labels", "labeled"), ("annotate", "annotations", "annotated")])
def test_changes(command, verb, member, done):
    """Keys are set, kept, changed with --overwrite only, and removed."""

    def values():
        return json.loads(command("get", "team-a", "-o", "json")[1])["metadata"][member]

    assert command(verb, "team-a", "tier=gold", "x.io/y=") == (0, f"logical cluster team-a {done}\n", "")
    assert (values()["tier"], values()["x.io/y"]) == ("gold", "")
    assert command(verb, "team-a", "tier=gold") == (0, "logical cluster team-a unchanged\n", "")
    assert command(verb, "team-a", "tier=iron", "new=1") == (1, "", 'error: tier has the value "gold"; --overwrite changes it\n')
    assert "new" not in values()
    assert command(verb, "team-a", "tier=iron", "--overwrite")[0] == 0
    assert command(verb, "team-a", "x.io/y-", "absent-")[0] == 0
    assert values()["tier"] == "iron"
    assert "x.io/y" not in values()
    assert command(verb, "absent", "a=b") == (1, "", "error: there is no logical cluster absent\n")


def test_a_value_that_the_server_refuses(command):
    """Its reason is shown in one line."""
    code, out, err = command("label", "team-a", "other=not valid!")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "metadata.labels" in err


@pytest.mark.parametrize("words", [["a"], ["=b"], ["-"], ["a=b", "a-"], ["a=b", "a=c"]], ids=" ".join)
def test_words_that_are_no_changes(words):
    """Each word is KEY=VALUE or KEY-, and each key is named once."""
    with pytest.raises(UsageError, match=r"^CHANGES: "):
        parse_changes(words)


def test_values_may_hold_anything():
    """The first equals sign ends the key; a key may end with a dash where a value follows."""
    assert parse_changes(["a=b=c", "b-", "c-=d", "d="]) == {"a": "b=c", "b": None, "c-": "d", "d": ""}
    assert parse_pairs(["a=b=c", "d="], "--label") == {"a": "b=c", "d": ""}
    for wrong in (["a"], ["=a"], ["a=b", "a=c"]):
        with pytest.raises(UsageError, match=r"^--label: "):
            parse_pairs(wrong, "--label")


def test_arguments_are_utf8_whatever_the_locale(running):
    """A label value is what the shell sent, also where Python takes the locale for ASCII; other bytes are refused."""
    environ = {**os.environ, "PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"}
    command = [sys.executable, "-m", "kcp_py", "cluster", "annotate", "team-a", "--kubeconfig", str(running)]
    subprocess.run([*command, "place=Zürich".encode()], env=environ, check=True, capture_output=True)
    with RemoteServer(load_context(str(running), None)) as server:
        found = server.request("GET", object_path("team-a"))
    assert found["metadata"]["annotations"]["place"] == "Zürich"
    done = subprocess.run([*command, b"place=\xff"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (2, 1)
    assert "is not UTF-8" in done.stderr
