"""Processes come from a template that ends."""

from __future__ import annotations

import pytest

from tests.cli.workers.conftest import Run


@pytest.mark.parametrize("forking", ["template"], indirect=True)
def test_the_template_ends_when_all_serve(run: Run) -> None:
    """It ends once all processes run, which the supervisor adopts; a process that is started again comes from another template."""
    code, said = run("a_template_ends")
    assert (code, said[:4]) == (0, ["owner 1", "worker-1 1", "ended worker-1", "worker-1 2"])
    assert sorted(said[4:]) == ["ended owner", "ended worker-1"]
