"""The processes of one server share what they count."""

from __future__ import annotations

from tests.cli.workers.conftest import Run


def test_processes_share_counts(run: Run) -> None:
    """The owner sees what each of two workers counts, and all end after a signal."""
    code, said = run("running")
    assert (code, said) == (0, ["owner sees 20"])
