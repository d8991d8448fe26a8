"""The use of a control plane before the first environment."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from kcp_py.cli.envtest.rehearsal import CALLS, HEALTH, rehearse


@pytest.mark.parametrize(
    ("calls", "expected"), [(HEALTH, [200]), (CALLS, [200] * 3 + [201, 200, 200, 200, 201, 409] + [200] * 5 + [201, 404, 201])]
)
def test_every_call_is_answered_as_it_is_meant_to_be(calls, expected, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A call that is refused would leave out the work that environments share, and nothing would tell. No file is left."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    assert rehearse(calls) == expected
    assert list(tmp_path.iterdir()) == []
