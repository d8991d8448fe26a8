"""Properties of all resources."""

from __future__ import annotations

import pytest

from kcp_py.registry.resource import storage_version_hash


@pytest.mark.parametrize(("kind", "wanted"), [("ConfigMap", "qFsyl6wFWjQ="), ("Event", "r2yiGXH7wu8="), ("Namespace", "Q3oi5N2YM8M=")])
def test_storage_version_hash(kind, wanted):
    """The hashes are those of real servers."""
    assert storage_version_hash("", "v1", kind) == wanted
