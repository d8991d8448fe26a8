"""The command line as a whole: help, unknown words, exit codes, and the imports of each command."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from kcp_py import __version__
from kcp_py.cli.root import COMMANDS, run
from kcp_py.options import SETTINGS

CLUSTER_COMMANDS = (
    "create",
    "list",
    "get",
    "describe",
    "label",
    "annotate",
    "grant",
    "revoke",
    "members",
    "delete",
    "undelete",
    "kubeconfig",
)


def test_version(capsys):
    """Both spellings print the version."""
    assert run(["version"]) == 0
    assert run(["--version"]) == 0
    assert capsys.readouterr().out == f"kcp-py {__version__}\n" * 2


@pytest.mark.parametrize(
    "command",
    [[], *([name] for name in COMMANDS), *(["cluster", name] for name in CLUSTER_COMMANDS), ["generate", "crds"]],
    ids=" ".join,
)
def test_every_command_has_help_with_examples(command, capsys):
    """--help ends well and shows how the command is used."""
    assert run([*command, "--help"]) == 0
    out = capsys.readouterr().out
    assert "Example" in out
    assert " ".join(["kcp-py", *command]) in out


def test_help_of_start_shows_every_setting_with_its_default(capsys):
    """The table of settings is complete in --help, and hidden ones are not in it."""
    run(["start", "--help"])
    words = capsys.readouterr().out.split()
    for setting in SETTINGS:
        assert (setting.flag in words) is not setting.hidden
    assert "[6443]" in words


def test_help_of_the_program_lists_every_command(capsys):
    """Each command has its line, without being imported."""
    run(["--help"])
    out = capsys.readouterr().out
    for name, (_, line) in COMMANDS.items():
        assert name in out
        assert line.split()[0] in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["strt"], f"no such command: strt; there are {', '.join(COMMANDS)}; did you mean start?"),
        (["cluster", "creat"], "no such command: cluster creat; there are annotate, create, delete, describe, get,"),
        (["builtin", "nothing"], "no such command: builtin nothing; there are install, list, uninstall"),
        (["start", "--storag", "x"], "kcp-py start: No such option: --storag; did you mean --storage or --storage-path"),
        (["completion"], "Missing argument '{bash|zsh|fish}'. Choose from: bash, zsh, fish"),
        (["completion", "tcsh"], "'tcsh' is not one of 'bash', 'zsh', 'fish'"),
        (["start", "extra"], "unexpected extra argument"),
        (["start", "--builtin-kinds", "podz"], 'builtin kinds: "podz" is not a kind of Kubernetes'),
        (["cluster", "create"], "Missing argument 'NAME'"),
        (["cluster", "create", "A_B"], 'NAME: "A_B" is not the name of a logical cluster'),
        (["cluster", "create", "root:org"], 'NAME: "root:org" is not the name of a logical cluster'),
        (["cluster", "delete", "team-a", "--timeout", "soon"], '--timeout: "soon" is not a duration'),
        (["cluster", "list", "-o", "xml"], "Invalid value for '-o'"),
        (["doctor", "--secure-port", "x"], '--secure-port: "x" is not a whole number'),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_wrong_words_are_one_line_and_exit_code_2(arguments, message, capsys, monkeypatch, tmp_path):
    """The fault is described in one line on stderr."""
    monkeypatch.chdir(tmp_path)
    assert run(arguments) == 2
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert message in captured.err
    assert captured.err.count("\n") == 1


def test_nothing_is_a_question_for_help(capsys):
    """Without arguments the help is shown and nothing is done."""
    assert run([]) == 2
    assert "Commands:" in capsys.readouterr().err


def test_a_misspelt_variable_is_warned_of(capsys, monkeypatch, tmp_path):
    """A variable that no setting reads does not pass in silence."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("KCP_PY_STORGE", "memory")
    run(["doctor", "--storage", "memory"])
    assert "warning: KCP_PY_STORGE: no such setting; did you mean KCP_PY_STORAGE?" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["version"], ["--help"], ["--version"]])
def test_the_first_screen_imports_nothing_slow(arguments):
    """Neither the server nor its libraries are imported to print a version or the help."""
    program = (
        "import sys\nfrom kcp_py.cli.root import run\n"
        f"run({arguments!r})\n"
        "slow = {'asyncio', 'uvicorn', 'fastapi', 'structlog', 'httpx', 'yaml', 'cryptography', 'apsw', 'grpc', 'jsonschema', 'orjson'}\n"
        "print(sorted(slow & set(sys.modules)), file=sys.stderr)\n"
    )
    finished = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert finished.stderr == "[]\n"


def test_the_module_is_the_program():
    """`python -m kcp_py` is `kcp-py`."""
    finished = subprocess.run([sys.executable, "-m", "kcp_py", "version"], capture_output=True, text=True, check=True)
    assert finished.stdout == f"kcp-py {__version__}\n"


def test_every_fault_of_a_configuration_file_has_a_line(capsys, tmp_path):
    """A file with three faults is refused with three lines."""
    file = tmp_path / "server.yaml"
    file.write_text("apiVersion: config.kcp-py.io/v1alpha1\nkind: ServerConfiguration\nsecurePorts: 1\nstorage: x\nlogLevel: y\n")
    assert run(["start", "--config", str(file)]) == 2
    lines = capsys.readouterr().err.splitlines()
    assert [line.split(": ")[:3] for line in lines] == [["error", str(file), key] for key in ("securePorts", "logLevel", "storage")]


def test_no_color(on_a_terminal, tmp_path):
    """NO_COLOR keeps colours off a terminal; an empty one does not."""
    arguments = (sys.executable, "-m", "kcp_py", "doctor", "--root-directory", str(tmp_path / "root"), "--secure-port", "0")
    assert "\x1b[3" in on_a_terminal(*arguments, environ={"NO_COLOR": ""})[0]
    assert "\x1b[3" not in on_a_terminal(*arguments, environ={"NO_COLOR": "1"})[0]


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full")
@pytest.mark.parametrize("arguments", [["version"], ["--help"], ["builtin", "list"]], ids=" ".join)
def test_output_onto_a_full_disk(arguments):
    """One line says that the output cannot be written."""
    with Path("/dev/full").open("w") as full:
        done = subprocess.run([sys.executable, "-m", "kcp_py", *arguments], stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, done.stderr) == (1, "error: cannot write the output: No space left on device\n")


def test_a_reader_that_goes_away():
    """A pipe that is closed, as by head, ends the program without a word."""
    command = f"{shlex.quote(sys.executable)} -m kcp_py builtin install --dry-run -o yaml pods deployments.apps | head -1"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.stdout, done.stderr) == ("---\n", "")


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_texts_that_the_encoding_does_not_have(encoding, tmp_path):
    """They are printed with escapes, whatever the locale says."""
    name = os.fsdecode(b"\xff-\xe6\x97\xa5.yaml")
    (tmp_path / name).write_text("apiVersion: v1\nkind: Secret\nmetadata: {name: 日本}\n", "utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "kcp_py", "validate", name],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": f"{encoding}:strict"},
        capture_output=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (1, b"1 objects, 1 errors, 0 warnings\n")
    assert b":3: error: Secret" in done.stdout


def test_standard_input_that_is_closed():
    """It is told, not an exception."""
    command = f"exec {shlex.quote(sys.executable)} -m kcp_py validate - <&-"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "error: standard input is closed\n")


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_outputs_that_are_closed(closed):
    """A command ends as usual, without its output, and no file gets the descriptor of an output."""
    program = "import os; from kcp_py.cli.root import run; run(['version']); os._exit(0 if os.open('/dev/zero', 0) > 2 else 3)"
    done = subprocess.run(["sh", "-c", f"exec {shlex.quote(sys.executable)} -c {shlex.quote(program)} {closed}"], check=False)
    assert done.returncode == 0


_INTERRUPTED = """
import sys

class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "kcp_py.cli.root":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupting())
from kcp_py.__main__ import main
main()
"""


def test_an_interrupt_during_the_imports_is_no_traceback():
    """Ctrl-C just after the command was typed ends it with code 130 and no output, as later."""
    ended = subprocess.run([sys.executable, "-c", _INTERRUPTED], capture_output=True, text=True, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "")
