"""The examples of the help: each is a line of a shell that works."""

from __future__ import annotations

import itertools
import re
import shlex
import shutil
import subprocess
from pathlib import Path

import click
import pytest

from kcp_py.cli.manpages import commands
from kcp_py.cli.manual import Documented
from kcp_py.cli.remote import RemoteServer, load_context
from kcp_py.cli.root import PROGRAM, cli, run
from tests.cli.conftest import running_server

SAMPLES = Path(__file__).resolve().parents[2] / "config" / "samples"
CRD = "team-a-crd.yaml"
CONTEXTS = list(commands(click.Context(cli, info_name=PROGRAM, **cli.context_settings)))
MANUALS = {
    context.command_path: context.command.manual
    for context in CONTEXTS
    if isinstance(context.command, Documented) and context.command.manual is not None
}
EXAMPLES = {f"{path} {number}": line for path, manual in MANUALS.items() for number, line in enumerate(manual.examples)}
NOT_RUN = {
    "kcp-py start": "serves until a signal",
    "kcp-py aggregated": "serves until a signal",
    "kcp-py test-server": "serves until its parent ends",
    "kcp-py controllers": "runs until a signal",
    "kcp-py proxy": "serves until a signal",
    "kcp-py envtest-assets": "e2e/test_envtest.py runs it",
    "kcp-py restore": "tests/cli/test_process.py restores",
    "kcp-py doctor 1": "examines a server with another name",
    "kcp-py generate models 3": "tests/cli/test_generatemodels.py has a server with such kinds",
    "kcp-py generate apiservice": "tests/cli/test_generateapiservice.py runs it",
}
PREPARED = {
    "kcp-py cluster undelete": "cluster delete team-a --yes --grace-period 24h",
    "kcp-py cluster revoke 2": "cluster grant team-a --group team-a --role edit --namespace shop",
    "kcp-py cluster revoke": "cluster grant team-a --user bob --role edit",
    "kcp-py generate models 2": "builtin install --cluster team-a deployments.apps",
    "kcp-py builtin uninstall": "builtin install --cluster team-a deployments.apps",
}
"""What has to be done before, by the command or by the example."""


def words(line: str) -> list[list[str]]:
    """The arguments of each call of the program in a line of a shell, without variables, redirections and comments."""
    pattern = r"\s(?:[|>]|&&)\s|<\(|\)|\s{2}#"
    calls = (re.sub(r"^(\w+=\S+\s+|sudo\s+|\.\s+)+", "", part.strip()) for part in re.split(pattern, line.partition("  # ")[0]))
    return [shlex.split(call)[1:] for call in calls if call.startswith(f"{PROGRAM} ")]


def test_every_command_has_examples_of_its_own():
    """One at least, and the lines are not longer than a terminal of 140 columns."""
    for context in CONTEXTS:
        manual = MANUALS[context.command_path]
        assert any(line.find(context.command_path) >= 0 for line in manual.examples), context.command_path
        assert max(map(len, manual.examples)) <= 136


@pytest.mark.parametrize("line", EXAMPLES.values(), ids=EXAMPLES)
def test_examples_are_understood(line, tmp_path, monkeypatch):
    """The shell can read it, and each command, option and value is known."""
    subprocess.run(["bash", "-n", "-c", line], check=True)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "monday.db").write_text("")
    for arguments in words(line):
        context = click.Context(cli, info_name=PROGRAM, **cli.context_settings)
        command: click.Command = cli
        rest = arguments
        while isinstance(command, click.Group) and rest and not rest[0].startswith("-"):
            name, found, rest = command.resolve_command(context, rest)
            assert found is not None
            command, context = found, click.Context(found, info_name=name, parent=context)
        files = {"/backups/kcp-monday.db": "monday.db"}
        command.make_context(context.info_name, [files.get(word, word) for word in rest], parent=context.parent)


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    """The kubeconfig of a server."""
    with running_server(tmp_path_factory, "-m", "kcp_py") as kubeconfig:
        yield kubeconfig


RUN = {name: line for name, line in EXAMPLES.items() if not {name, name.rpartition(" ")[0]} & set(NOT_RUN) and line.startswith(PROGRAM)}


@pytest.mark.xdist_group("examples")
@pytest.mark.usefixtures("directory")
@pytest.mark.parametrize(("name", "line"), RUN.items(), ids=RUN)
def test_examples_work(name, line, running, capsys):
    """They end with code 0 in a directory with the files that they name, and with a server that has the cluster team-a."""
    arguments = words(line)[0]
    if (reason := NOT_RUN.get(f"{PROGRAM} {arguments[0]}")) is not None:
        pytest.skip(f"{arguments[0]} {reason}")
    # A logical cluster for each, because some delete or protect theirs.
    cluster = f"team-a-{name.replace(' ', '-')}"
    if arguments[:2] != ["cluster", "create"]:
        run(["cluster", "create", cluster])
        run(["cluster", "create", "team-b", "--if-not-exists"])
        with RemoteServer(load_context(None, None)) as server:
            server.request("POST", f"/clusters/{cluster}/api/v1/namespaces", {"metadata": {"name": "shop"}})
            server.request("POST", f"/clusters/{cluster}/api/v1/namespaces/shop/serviceaccounts", {"metadata": {"name": "ci"}})
    if prepared := PREPARED.get(name, PREPARED.get(name.rpartition(" ")[0])):
        assert run(_placed(prepared.split(), cluster, {})) == 0
    if arguments[:2] == ["cluster", "delete"] and "--yes" not in arguments:
        arguments = [*arguments, "--yes"]
    capsys.readouterr()
    code = run(_placed(arguments, cluster, {"/var/lib/kcp": str(running.parent)}))
    assert code == 0, capsys.readouterr().err


def _placed(arguments: list[str], cluster: str, places: dict[str, str]) -> list[str]:
    """Arguments with a logical cluster in the place of team-a, and files in the current directory."""
    found = []
    for before, word in itertools.pairwise(["", *arguments]):
        if word == "team-a" and before not in {"--group", "--admin-group"}:
            found.append(cluster)
        elif word.startswith(("/", "~")):
            found.append(places.get(word, word.rpartition("/")[2]))
        else:
            found.append(word)
    return found


@pytest.fixture
def directory(running, tmp_path, monkeypatch):
    """The current directory, with the files that the examples name."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KUBECONFIG", str(running))
    monkeypatch.setenv("KCP_PY_ROOT_DIRECTORY", str(running.parent))
    directory = tmp_path
    for folder in ("crds", "config/crd", "manifests", "samples", "fleet"):
        (directory / folder).mkdir(parents=True)
    for folder in ("crds", "config/crd"):
        shutil.copy(SAMPLES / CRD, directory / folder)
    shutil.copy(SAMPLES / CRD, directory / "crd.yaml")
    shutil.copy(SAMPLES / "team-a-database.yaml", directory / "manifests")
    shutil.copy(SAMPLES / "library" / "foos.py", directory / "samples")
    program = (SAMPLES / "library" / "foos.py").read_text("utf-8")
    (directory / "my_operator").mkdir()
    (directory / "my_operator" / "types.py").write_text(f"{program}\nDatabase = Foo\n", "utf-8")
    deployment = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec:\n  selector: {matchLabels: {a: b}}\n"
        "  template: {metadata: {labels: {a: b}}, spec: {containers: [{name: c, image: i}]}}\n"
    )
    (directory / "deployment.yaml").write_text(deployment)
    (directory / "server.yaml").write_text("apiVersion: config.kcp-py.io/v1alpha1\nkind: ServerConfiguration\n")
