"""Names of types."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.kinds import GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource, parse_group_version


def test_text_forms():
    """The core group is left out, others follow the resource or stand before the version."""
    assert [str(GroupVersion("", "v1")), str(GroupVersion("apps", "v1"))] == ["v1", "apps/v1"]
    assert [str(GroupResource("", "pods")), str(GroupResource("apps", "deployments"))] == ["pods", "deployments.apps"]
    assert GroupVersionKind("g", "v1", "K").group_kind == "K.g"
    assert GroupVersionResource("g", "v1", "r").group_resource == GroupResource("g", "r")


def test_parsing():
    """One slash at most."""
    assert parse_group_version("v1") == GroupVersion("", "v1")
    assert parse_group_version("apps/v1") == GroupVersion("apps", "v1")
    with pytest.raises(ValueError, match="unexpected GroupVersion string: a/b/c"):
        parse_group_version("a/b/c")
