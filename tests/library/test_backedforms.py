"""Metadata and errors of a backing resource in the form of the facing one."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from kcp_py import GroupResource, GroupVersionResource, ServedResource, errors, fielderrors
from kcp_py.apimachinery.errors import StatusError
from kcp_py.library.backedforms import STATE, backing_metadata, facing_error, facing_metadata

MAPS = GroupVersionResource("", "v1", "configmaps")
NOTES = GroupResource("example.com", "notes")
FACING = cast("ServedResource", SimpleNamespace(group=NOTES.group, resource=NOTES.resource, kind="Note", group_resource=NOTES))


def translated(error: StatusError) -> StatusError:
    return facing_error(error, MAPS, FACING, {"data": "spec.lines"})


def test_two_facing_resources_keep_their_own_entries() -> None:
    """What one has set is neither seen nor removed through the other one, or through none."""
    before: dict[str, Any] = {"name": "one", "uid": "u", "finalizers": ["admin/x"]}
    before |= backing_metadata({"name": "one", "finalizers": ["a/x"]}, before, "as", shown={}, added={})
    before |= backing_metadata({"name": "one", "finalizers": ["b/x"]}, before, "bs", shown={}, added={})
    assert before["finalizers"] == ["admin/x", "a/x", "b/x"]
    assert [facing_metadata(before, before, one).get("finalizers") for one in ("as", "bs", "cs")] == [["a/x"], ["b/x"], None]
    after = backing_metadata({"name": "one"}, before, "as", shown=before, added={})
    assert (after["finalizers"], after["uid"]) == (["admin/x", "b/x"], "u")
    assert STATE in after["annotations"]
    assert facing_metadata(after, after, "as") == {"name": "one", "uid": "u"}


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (errors.not_found(MAPS.group_resource, "one"), 404, 'notes.example.com "one" not found'),
        (errors.unserved(), 503, "notes.example.com are not available in this logical cluster"),
        (errors.forbidden(MAPS.group_resource, "one", "no"), 403, 'notes.example.com "one" is forbidden: no'),
        (
            errors.invalid("ConfigMap", "one", [fielderrors.required("data[a]", "data[a] is empty")]),
            422,
            'Note.example.com "one" is invalid: spec.lines[a]: Required value: spec.lines[a] is empty',
        ),
        (errors.not_found(GroupResource("", "namespaces"), "one"), 404, 'namespaces "one" not found'),
    ],
)
def test_errors_name_the_facing_resource(error: StatusError, code: int, message: str) -> None:
    """Errors about other resources, such as a missing namespace, stay as they are."""
    found = translated(error)
    assert (found.code, found.message) == (code, message)
