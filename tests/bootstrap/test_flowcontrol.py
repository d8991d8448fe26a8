"""The file with Kubernetes' own flow control."""

from __future__ import annotations

from kcp_py.bootstrap.flowcontrol import MANDATORY, flow_control


def test_schemas_name_levels():
    """The file has both kinds, is read once, has the mandatory names, and every schema names a level."""
    found = flow_control()
    assert found is flow_control()
    assert set(found) == {"flowschemas", "prioritylevelconfigurations"}
    levels = found["prioritylevelconfigurations"]
    assert {spec["priorityLevelConfiguration"]["name"] for spec in found["flowschemas"].values()} <= set(levels)
    assert all(set(objects) >= MANDATORY and list(objects) == sorted(objects) for objects in found.values())
