"""The samples of the testing guide: each is a test that a user could have written, and passes as it stands."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from e2e.binaries import UnavailableError, chosen_helm, helm_of

FOLDER = Path(__file__).parents[1] / "config/samples/testing"


SAMPLES = sorted(path.stem for path in FOLDER.glob("test_*.py"))


@pytest.mark.parametrize("sample", SAMPLES)
def test_the_sample_passes(sample: str, kubectl_binary: str, tmp_path: Path) -> None:
    """Its tests run in a pytest of their own."""
    environment = {**os.environ, "PATH": f"{Path(kubectl_binary).parent}:{os.environ['PATH']}", "HOME": str(tmp_path)}
    if sample == "test_helm_chart":
        try:
            environment["HELM"] = str(helm_of(chosen_helm()[-1]))
        except UnavailableError as error:
            pytest.skip(str(error))
    plugins = ["-p", "anyio", "-p", "kcp_py.testing.pytest_plugin"]
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "PYTHONPATH": str(FOLDER.parents[2])}
    options = ["-q", "-c", os.devnull, "-p", "no:cacheprovider", "--rootdir", str(tmp_path), "--import-mode=importlib"]
    command = [sys.executable, "-m", "pytest", *options, *plugins, str(FOLDER / f"{sample}.py")]
    finished = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, timeout=240, check=False)
    assert finished.returncode == 0, finished.stdout + finished.stderr
    assert " passed" in finished.stdout
    assert "skipped" not in finished.stdout
