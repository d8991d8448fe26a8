"""`evaluate`: a pod against a level and a version of the Pod Security Standards. Pure.

Source: k8s.io/pod-security-admission `policy/registry.go`, `policy/checks.go`, and the table of versions of each `policy/check_*.go`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

from kcp_py.admission.podsecurity import checks
from kcp_py.admission.podsecurity.checks import Check, Fields, Violation
from kcp_py.admission.podsecurity.levels import Standard


class _Versions(NamedTuple):
    """A check in the versions from which it holds."""

    since: Mapping[int, Check]
    replaces: str = ""
    """The check of `baseline` that is left out where this one holds."""


_BASELINE: Final[Mapping[str, _Versions]] = {
    "appArmorProfile": _Versions({0: checks.apparmor_profile}),
    "capabilities_baseline": _Versions({0: checks.capabilities_baseline}),
    "hostNamespaces": _Versions({0: checks.host_namespaces}),
    "hostPathVolumes": _Versions({0: checks.host_path_volumes}),
    "hostPorts": _Versions({0: checks.host_ports}),
    "hostProbesAndHostLifecycle": _Versions({34: checks.host_probes_and_lifecycle}),
    "privileged": _Versions({0: checks.privileged}),
    "procMount": _Versions({0: checks.proc_mount, 35: checks.unless_user_namespace(checks.proc_mount)}),
    "seLinuxOptions": _Versions({0: checks.selinux_options(checks.SELINUX_1_0), 31: checks.selinux_options(checks.SELINUX_1_31)}),
    "seccompProfile_baseline": _Versions({0: checks.seccomp_annotations, 19: checks.seccomp_profile_baseline}),
    "sysctls": _Versions(
        {
            0: checks.sysctls(checks.SYSCTLS_1_0),
            27: checks.sysctls(checks.SYSCTLS_1_27),
            29: checks.sysctls(checks.SYSCTLS_1_29),
            32: checks.sysctls(checks.SYSCTLS_1_32),
            37: checks.sysctls(checks.SYSCTLS_1_37),
        }
    ),
    "windowsHostProcess": _Versions({0: checks.windows_host_process}),
}
_RESTRICTED: Final[Mapping[str, _Versions]] = {
    "allowPrivilegeEscalation": _Versions(
        {8: checks.allow_privilege_escalation, 25: checks.unless_windows(checks.allow_privilege_escalation)}
    ),
    "capabilities_restricted": _Versions(
        {22: checks.capabilities_restricted, 25: checks.unless_windows(checks.capabilities_restricted)}, "capabilities_baseline"
    ),
    "procMount_restricted": _Versions({35: checks.proc_mount}, "procMount"),
    "restrictedVolumes": _Versions({0: checks.restricted_volumes}, "hostPathVolumes"),
    "runAsNonRoot": _Versions({0: checks.run_as_non_root, 35: checks.unless_user_namespace(checks.run_as_non_root)}),
    "runAsUser": _Versions({23: checks.run_as_user, 35: checks.unless_user_namespace(checks.run_as_user)}),
    "seccompProfile_restricted": _Versions(
        {19: checks.seccomp_profile_restricted, 25: checks.unless_windows(checks.seccomp_profile_restricted)}, "seccompProfile_baseline"
    ),
}
NEWEST: Final = max(version for check in (*_BASELINE.values(), *_RESTRICTED.values()) for version in check.since)
"""The newest version with checks of its own; later ones are the same."""


def evaluate(standard: Standard, metadata: Fields, spec: Fields) -> Sequence[Violation]:
    """Everything that a standard forbids about a pod: the checks of `baseline` first, each level by the names of its checks."""
    if standard.level == "privileged":
        return ()
    found = [check(metadata, spec) for check in _checks(standard.level == "restricted", min(standard.version, NEWEST))]
    return [one for one in found if one is not None]


def reasons(violations: Sequence[Violation]) -> str:
    """Without details."""
    return ", ".join(one.reason for one in violations)


def details(violations: Sequence[Violation]) -> str:
    """With details."""
    return ", ".join(f"{one.reason} ({one.detail})" for one in violations)


@cache
def _checks(restricted: bool, version: int) -> Sequence[Check]:  # noqa: FBT001 - a key of the cache
    baseline = _in(_BASELINE, version)
    if not restricted:
        return tuple(baseline.values())
    further = _in(_RESTRICTED, version)
    replaced = {_RESTRICTED[name].replaces for name in further}
    return (*(check for name, check in baseline.items() if name not in replaced), *further.values())


def _in(table: Mapping[str, _Versions], version: int) -> Mapping[str, Check]:
    """The checks that hold in a version, by their names in order."""
    found = {}
    for name in sorted(table):
        since = table[name].since
        if held := [one for one in since if one <= version]:
            found[name] = since[max(held)]
    return found
