"""The samples of the testing guide: each is a test that a user could have written, and passes as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[1] / "config/samples/testing"


@pytest.mark.parametrize("sample", ["test_in_process", "test_in_thread"])
def test_the_sample_passes(sample: str, kubectl_binary: str, tmp_path: Path) -> None:
    """Its tests run in a pytest of their own, whose only plugins are those that the sample needs."""
    environment = {**os.environ, "PATH": f"{Path(kubectl_binary).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--rootdir", str(tmp_path), str(FOLDER / f"{sample}.py")]
    finished = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=120, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert " passed" in finished.stdout
    assert "skipped" not in finished.stdout
