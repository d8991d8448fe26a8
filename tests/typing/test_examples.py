"""Programs that use the public API: mypy checks them, and each does what it says."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
ROOT = FOLDER.parents[1]
MODULES = sorted(path for path in FOLDER.glob("*.py") if path != Path(__file__))
EXAMPLES = [path.stem for path in MODULES if path.stem != "refused"]
EXPECTED = re.compile(r"  # E: (.+)$")
FOUND = re.compile(r"(.+?):(\d+): error: (.+)")


@pytest.mark.anyio
@pytest.mark.parametrize("name", EXAMPLES)
async def test_each_example_runs(name: str) -> None:
    """Its types are those of what happens."""
    await importlib.import_module(f"tests.typing.{name}").main()


@pytest.mark.slow
def test_mypy_finds_the_mistakes_and_nothing_else() -> None:
    """It accepts the examples, with the types that they assert, and refuses each marked line of `refused.py` for the named reason."""
    pytest.importorskip("mypy", reason="mypy is not installed")
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--show-absolute-path", *map(str, MODULES)]
    output = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found: dict[tuple[str, int], list[str]] = {}
    for path, line, message in FOUND.findall(output):
        found.setdefault((Path(path).name, int(line)), []).append(message)
    expected = {
        (path.name, number): match[1]
        for path in MODULES
        for number, line in enumerate(path.read_text("utf-8").splitlines(), start=1)
        if (match := EXPECTED.search(line))
    }
    assert expected
    assert found.keys() == expected.keys(), output
    assert {place: text for place, text in expected.items() if not any(text in message for message in found[place])} == {}
