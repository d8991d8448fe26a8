"""Modules and files of programs are loaded, and say where they fail."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from kcp_py.cli.exits import CommandError
from kcp_py.cli.programs import load_program


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("one = 1\nthree = one / 0\n", "ZeroDivisionError: division by zero ({file}, line 2)"),
        ("def fail():\n    return missing\nfail()\n", "NameError: name 'missing' is not defined ({file}, line 2)"),
        ("import missing_module\n", "ModuleNotFoundError: No module named 'missing_module' ({file}, line 1)"),
    ],
)
def test_a_module_that_fails_is_named_with_the_line(tmp_path: Path, text: str, message: str) -> None:
    """The line is that of the program, and not of the loader."""
    file = tmp_path / "failing_program.py"
    file.write_text(text)
    with pytest.raises(CommandError, match=re.escape(f"{file} cannot be imported: {message.format(file=file)}") + "$"):
        load_program(str(file))


def test_a_syntax_error_has_its_line_once(tmp_path: Path) -> None:
    """Python says it in the text."""
    file = tmp_path / "wrong_program.py"
    file.write_text("x = = 3\n")
    with pytest.raises(CommandError, match=r"SyntaxError: invalid syntax \(wrong_program.py, line 1\)$"):
        load_program(str(file))
