"""Man pages: complete, read by man without a warning, and free of surprises in the texts."""

from __future__ import annotations

import shutil
import subprocess

import click
import pytest

from kcp_py.cli.manpages import commands, escaped, page_name
from kcp_py.cli.root import PROGRAM, cli, run

HEADINGS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "EXIT STATUS", "ENVIRONMENT", "EXAMPLES"]


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The pages of all commands."""
    directory = tmp_path_factory.mktemp("man")
    assert run(["man", str(directory)]) == 0
    return directory / "man1"


def test_every_command_has_a_complete_page(pages):
    """All sections are there, in the order of man pages, and the references lead to other pages."""
    found = [context.command_path for context in commands(click.Context(cli, info_name=PROGRAM))]
    assert {f"{page_name(path)}.1" for path in found} == {file.name for file in pages.iterdir()}
    for file in pages.iterdir():
        text = file.read_text("utf-8")
        headings = [line.removeprefix(".SH ") for line in text.splitlines() if line.startswith(".SH ")]
        assert [heading for heading in headings if heading in HEADINGS] == HEADINGS, file.name
        if "SEE ALSO" in headings:
            for name in text.partition(".SH SEE ALSO\n")[2].split(", "):
                page = name.strip().removeprefix("\\fB").removesuffix("\\fR(1)").replace("\\-", "-")
                assert (pages / f"{page}.1").exists(), name


def test_groff_accepts_all_pages(pages):
    """Without a warning, and with the text that --help shows."""
    if not shutil.which("groff"):
        pytest.skip("needs groff")
    files = sorted(map(str, pages.iterdir()))
    done = subprocess.run(["groff", "-man", "-Tutf8", "-P-cbou", "-ww", *files], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert "--secure-port NUMBER" in done.stdout


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (".start", "\\&.start"),
        ("'x'", "\\&'x'"),
        ("a\\b", "a\\eb"),
        ("--flag", "\\-\\-flag"),
        ("two\nlines", "two lines"),
        ("NAME,…", "NAME,\\[u2026]"),
    ],
)
def test_texts_are_no_commands(text, expected):
    """Dots and quotes at the beginning, backslashes and dashes are shown as they are."""
    assert escaped(text) == expected


def test_a_directory_that_cannot_be_written(tmp_path, capsys):
    """One line."""
    (tmp_path / "file").write_text("")
    assert run(["man", str(tmp_path / "file" / "man")]) == 1
    assert capsys.readouterr().err.count("\n") == 1
