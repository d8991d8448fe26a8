"""Labels of namespaces choose levels and versions as in kube-apiserver."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from kcp_py.admission.podsecurity.levels import LATEST, PREFIX, Policy, Standard, is_stricter, parse_version, policy_of

BASELINE = Policy(*(Standard("baseline", 20) for _ in range(3)))


@pytest.mark.parametrize(
    ("labels", "defaults", "policy"),
    [
        ({}, Policy(), "privileged:latest privileged:latest privileged:latest"),
        ({"other": "x"}, BASELINE, "baseline:v1.20 baseline:v1.20 baseline:v1.20"),
        ({"enforce": "restricted"}, Policy(), "restricted:latest privileged:latest restricted:latest"),
        ({"enforce": "restricted", "enforce-version": "v1.5"}, Policy(), "restricted:v1.5 privileged:latest restricted:v1.5"),
        ({"enforce": "restricted", "warn-version": "v1.7"}, Policy(), "restricted:latest privileged:latest restricted:v1.7"),
        ({"enforce": "restricted", "warn": "privileged"}, Policy(), "restricted:latest privileged:latest privileged:latest"),
        ({"enforce": "privileged"}, BASELINE, "privileged:v1.20 baseline:v1.20 baseline:v1.20"),
        ({"enforce": "restricted"}, BASELINE, "restricted:v1.20 baseline:v1.20 restricted:v1.20"),
        ({"enforce": "bad"}, Policy(), "restricted:latest privileged:latest privileged:latest"),
        ({"audit": "bad", "warn": "bad"}, BASELINE, "baseline:v1.20 privileged:v1.20 privileged:v1.20"),
        ({"enforce-version": "bad", "audit-version": "v1.0"}, BASELINE, "baseline:latest baseline:v1.0 baseline:v1.20"),
    ],
)
def test_labels(labels: Mapping[str, str], defaults: Policy, policy: str) -> None:
    """Enforced, audited and warned of; invalid values are strict where they are enforced."""
    found, problems = policy_of({PREFIX + label: value for label, value in labels.items()}, defaults)
    assert " ".join(map(str, found)) == policy
    assert [problem.field for problem in problems] == [f"metadata.labels[{PREFIX}{label}]" for label in labels if labels[label] == "bad"]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("latest", LATEST),
        ("v1.0", 0),
        ("v1.37", 37),
        ("v1.9223372036854775807", LATEST - 1),
        *((text, None) for text in ("", "v1.", "v1.01", "v2.1", "1.2", "v1.1\n", "v1.9223372036854775808", "v1.１", "v1." + "9" * 100)),  # noqa: RUF001 - a digit of another script
    ],
)
def test_versions(text: str, version: int | None) -> None:
    """Minor versions of Kubernetes 1 without leading zeros, or the latest one."""
    assert parse_version(text) == version


def test_levels_have_an_order() -> None:
    """From privileged to restricted."""
    assert is_stricter("restricted", "baseline")
    assert is_stricter("baseline", "privileged")
    assert not is_stricter("baseline", "baseline")
    assert not is_stricter("privileged", "restricted")
