"""Checks begin, change and replace each other with versions, as in the tables of upstream. Recorded answers compare the texts."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.admission.podsecurity.levels import LATEST, Level, Standard
from kcp_py.admission.podsecurity.standards import NEWEST, details, evaluate, reasons

SAFE = {
    "allowPrivilegeEscalation": False,
    "capabilities": {"drop": ["ALL"]},
    "runAsNonRoot": True,
    "seccompProfile": {"type": "RuntimeDefault"},
}
SAFE_POD: dict[str, Any] = {"containers": [{"name": "c", "securityContext": SAFE}]}
UNMASKED: dict[str, Any] = {"hostUsers": False, "containers": [{"name": "c", "securityContext": {**SAFE, "procMount": "Unmasked"}}]}


def found(level: Level, version: int, spec: dict[str, Any], **metadata: Any) -> str:
    return reasons(evaluate(Standard(level, version), metadata, spec))


@pytest.mark.parametrize(
    ("level", "spec", "reason", "versions"),
    [
        ("restricted", {"containers": [{"name": "c"}]}, "allowPrivilegeEscalation != false", range(8, 38)),
        ("restricted", {"os": {"name": "windows"}, "containers": [{"name": "c"}]}, "allowPrivilegeEscalation != false", range(8, 25)),
        ("restricted", {"containers": [{"name": "c"}]}, "unrestricted capabilities", range(22, 38)),
        ("restricted", {"os": {"name": "windows"}, "containers": [{"name": "c"}]}, "unrestricted capabilities", range(22, 25)),
        ("restricted", {"containers": [{"name": "c"}]}, "runAsNonRoot != true", range(38)),
        ("restricted", {"hostUsers": False, "containers": [{"name": "c"}]}, "runAsNonRoot != true", range(35)),
        ("restricted", {"securityContext": {"runAsUser": 0}}, "runAsUser=0", range(23, 38)),
        ("restricted", {"hostUsers": False, "securityContext": {"runAsUser": 0}}, "runAsUser=0", range(23, 35)),
        ("restricted", {"containers": [{"name": "c"}]}, "seccompProfile", range(19, 38)),
        ("restricted", {"os": {"name": "windows"}, "containers": [{"name": "c"}]}, "seccompProfile", range(19, 25)),
        ("restricted", {"volumes": [{"name": "v", "hostPath": {}}]}, "hostPath volumes", ()),
        ("restricted", {"volumes": [{"name": "v", "hostPath": {}}]}, "restricted volume types", range(38)),
        ("baseline", {"volumes": [{"name": "v", "hostPath": {}}]}, "hostPath volumes", range(38)),
        ("baseline", UNMASKED, "procMount", range(35)),
        ("restricted", UNMASKED, "procMount", range(38)),
        (
            "baseline",
            {"containers": [{"name": "c", "livenessProbe": {"tcpSocket": {"host": "h"}}}]},
            "probe or lifecycle host",
            range(34, 38),
        ),
        ("baseline", {"securityContext": {"seLinuxOptions": {"type": "container_engine_t"}}}, "seLinuxOptions", range(31)),
        ("baseline", {"securityContext": {"sysctls": [{"name": "net.ipv4.ip_local_reserved_ports"}]}}, "forbidden sysctls", range(27)),
        ("baseline", {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_keepalive_time"}]}}, "forbidden sysctls", range(29)),
        ("baseline", {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_rmem"}]}}, "forbidden sysctls", range(32)),
        ("baseline", {"securityContext": {"sysctls": [{"name": "net.ipv4.tcp_notsent_lowat"}]}}, "forbidden sysctls", range(37)),
        ("baseline", {"securityContext": {"seccompProfile": {"type": "Unconfined"}}}, "seccompProfile", range(19, 38)),
    ],
)
def test_versions_of_checks(level: Level, spec: dict[str, Any], reason: str, versions: Any) -> None:
    """Each reason is given in these versions alone."""
    assert [version for version in range(38) if reason in found(level, version, spec).split(", ")] == list(versions)


def test_annotations_for_seccomp_counted_until_the_field_came() -> None:
    """Of the pod, and of the containers that it has."""
    prefix = "container.seccomp.security.alpha.kubernetes.io/"
    annotations = {"seccomp.security.alpha.kubernetes.io/pod": "unconfined", f"{prefix}c": "localhost/x", f"{prefix}none": "unconfined"}
    spec = {"containers": [{"name": "c"}]}
    violations = evaluate(Standard("baseline", 18), {"annotations": annotations}, spec)
    assert details(violations) == 'seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod="unconfined")'
    assert found("baseline", 19, spec, annotations=annotations) == ""


def test_annotations_for_apparmor_count_in_all_versions() -> None:
    """Several are sorted and quoted."""
    prefix = "container.apparmor.security.beta.kubernetes.io/"
    annotations = {
        f"{prefix}b": "unconfined",
        f"{prefix}a": 'x"y',
        f"{prefix}c": "runtime/default",
        f"{prefix}d": "localhost/p",
        f"{prefix}e": "",
    }
    violations = evaluate(Standard("baseline"), {"annotations": annotations}, {"containers": [{"name": "a"}]})
    assert details(violations) == (
        f'forbidden AppArmor profiles (annotations must not set AppArmor profile type to "{prefix}a="x\\"y"", "{prefix}b="unconfined"")'
    )


def test_a_safe_pod_passes_everywhere() -> None:
    """In all levels and versions, also those that are not known yet."""
    for version in (*range(NEWEST + 1), NEWEST + 1, 99, LATEST):
        for level in ("privileged", "baseline", "restricted"):
            assert found(level, version, SAFE_POD) == ""


def test_later_versions_are_like_the_newest() -> None:
    """A cluster may name a version that this program does not know."""
    spec = {"hostNetwork": True, "containers": [{"name": "a"}, {"name": "b"}]}
    assert evaluate(Standard("restricted", 99), {}, spec) == evaluate(Standard("restricted", NEWEST), {}, spec)
    assert evaluate(Standard("restricted"), {}, spec) == evaluate(Standard("restricted", NEWEST), {}, spec)
