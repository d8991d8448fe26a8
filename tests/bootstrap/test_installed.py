"""The mark of installed kinds."""

from __future__ import annotations

from typing import Any

from kcp_py.bootstrap.installed import INSTALLED_ANNOTATION, deletion_refusal, is_installed, marked_as_installed


def test_the_mark_keeps_other_annotations() -> None:
    """Marking adds one annotation and leaves its argument as it was."""
    crd: dict[str, Any] = {"metadata": {"name": "pods.core", "annotations": {"a": "b"}}, "spec": {}}
    marked = marked_as_installed(crd)
    assert marked == {"metadata": {"name": "pods.core", "annotations": {"a": "b", INSTALLED_ANNOTATION: "builtin"}}, "spec": {}}
    assert (is_installed(crd), is_installed(marked)) == (False, True)
    assert is_installed({"metadata": {"annotations": None}}) is False


def test_refusal() -> None:
    """Only a marked definition whose deletion has not begun is refused."""
    crd: dict[str, Any] = {"metadata": {"name": "pods.core"}}
    assert deletion_refusal(crd) == ""
    marked = marked_as_installed(crd)
    assert "kcp-py builtin uninstall pods.core" in deletion_refusal(marked)
    marked["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert deletion_refusal(marked) == ""
