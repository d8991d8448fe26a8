"""What ResourceClaims count for, as in kubernetes `pkg/quota/v1/evaluator/core/resource_claims_test.go`."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.registry.quota.deviceclaims import covers_claims, device_usage


def exactly(name: str, **more: Any) -> dict[str, Any]:
    return {"name": "r", "exactly": {"deviceClassName": name, **more}}


def of_each(*alternatives: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {
        "name": "r",
        "firstAvailable": [{"name": f"a{index}", "deviceClassName": name, **more} for index, (name, more) in enumerate(alternatives)],
    }


@pytest.mark.parametrize(
    ("requests", "devices"),
    [
        ([], {}),
        ([exactly("gpu")], {"gpu": "1"}),
        ([exactly("gpu", allocationMode="ExactCount", count=5)], {"gpu": "5"}),
        ([exactly("gpu", allocationMode="All")], {"gpu": "32"}),
        ([exactly("gpu", allocationMode="Later", count=5)], {"gpu": "0"}),
        ([exactly("gpu", count=2), exactly("gpu", count=3), exactly("fpga", count=1)], {"gpu": "5", "fpga": "1"}),
        ([of_each(("gpu", {"count": 2}), ("gpu", {"count": 1}), ("fpga", {"count": 4}))], {"gpu": "2", "fpga": "4"}),
        ([of_each(("gpu", {"allocationMode": "All"}), ("gpu", {"count": 1})), exactly("gpu")], {"gpu": "33"}),
    ],
)
def test_devices_count_by_class(requests: list[Any], devices: dict[str, str]) -> None:
    """Of alternatives the most of each class."""
    used = {name: str(amount) for name, amount in device_usage({"spec": {"devices": {"requests": requests}}}).items()}
    wanted = {f"{name}.deviceclass.resource.k8s.io/devices": amount for name, amount in devices.items()}
    assert used == {"count/resourceclaims.resource.k8s.io": "1", **wanted}


@pytest.mark.parametrize(
    "spec", [None, 5, [], {"devices": []}, {"devices": {"requests": {"a": 1}}}, {"devices": {"requests": [5, {"exactly": 5}]}}]
)
def test_a_definition_of_another_form_counts_objects(spec: Any) -> None:
    """A tenant's own kind may have this name, and any form."""
    assert list(device_usage({"spec": spec})) == ["count/resourceclaims.resource.k8s.io"]


def test_names() -> None:
    """Of devices and of the claims themselves."""
    names = [
        "gpu.deviceclass.resource.k8s.io/devices",
        "count/resourceclaims.resource.k8s.io",
        "count/pods",
        "gpu.deviceclass.resource.k8s.io/x",
    ]
    assert [covers_claims(name) for name in names] == [True, True, False, False]
