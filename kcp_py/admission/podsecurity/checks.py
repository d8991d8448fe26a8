"""The checks of the Pod Security Standards: functions from a pod to the reason why it is forbidden. Pure.

A check gets the metadata and the spec of a pod or of a template. Fields that are not set are missing. Texts are upstream's.

Source: k8s.io/pod-security-admission `policy/check_*.go`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.golang.quoting import go_quote

Fields = Mapping[str, Any]


class Violation(NamedTuple):
    """Why a check forbids a pod."""

    reason: str
    detail: str


Check = Callable[[Fields, Fields], Violation | None]
"""(metadata, spec) -> the violation, if there is one."""

_NET_BIND_SERVICE: Final = "NET_BIND_SERVICE"
_CAPABILITIES: Final = frozenset(
    [
        "AUDIT_WRITE",
        "CHOWN",
        "DAC_OVERRIDE",
        "FOWNER",
        "FSETID",
        "KILL",
        "MKNOD",
        "NET_BIND_SERVICE",
        "SETFCAP",
        "SETGID",
        "SETPCAP",
        "SETUID",
        "SYS_CHROOT",
    ]
)
_APPARMOR_ANNOTATION: Final = "container.apparmor.security.beta.kubernetes.io/"
_SECCOMP_ANNOTATION: Final = "seccomp.security.alpha.kubernetes.io/pod"
_SECCOMP_CONTAINER_ANNOTATION: Final = "container.seccomp.security.alpha.kubernetes.io/"
_PROFILES: Final = frozenset({"RuntimeDefault", "Localhost"})
_ALLOWED_VOLUMES: Final = (
    "configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "image", "persistentVolumeClaim", "projected", "secret",
)  # fmt: skip
_RESTRICTED_VOLUMES: Final = (
    "hostPath", "gcePersistentDisk", "awsElasticBlockStore", "gitRepo", "nfs", "iscsi", "glusterfs", "rbd", "flexVolume", "cinder",
    "cephfs", "flocker", "fc", "azureFile", "vsphereVolume", "quobyte", "azureDisk", "photonPersistentDisk", "portworxVolume", "scaleIO",
    "storageos",
)  # fmt: skip
SYSCTLS_1_0: Final = frozenset(
    [
        "kernel.shm_rmid_forced",
        "net.ipv4.ip_local_port_range",
        "net.ipv4.tcp_syncookies",
        "net.ipv4.ping_group_range",
        "net.ipv4.ip_unprivileged_port_start",
    ]
)
SYSCTLS_1_27: Final = SYSCTLS_1_0 | {"net.ipv4.ip_local_reserved_ports"}
SYSCTLS_1_29: Final = SYSCTLS_1_27 | {
    f"net.ipv4.tcp_{name}" for name in ("keepalive_time", "fin_timeout", "keepalive_intvl", "keepalive_probes")
}
SYSCTLS_1_32: Final = SYSCTLS_1_29 | {"net.ipv4.tcp_rmem", "net.ipv4.tcp_wmem"}
SYSCTLS_1_37: Final = SYSCTLS_1_32 | {"net.ipv4.tcp_slow_start_after_idle", "net.ipv4.tcp_notsent_lowat"}
SELINUX_1_0: Final = frozenset({"", "container_t", "container_init_t", "container_kvm_t"})
SELINUX_1_31: Final = SELINUX_1_0 | {"container_engine_t"}


def containers(spec: Fields) -> Iterator[Fields]:
    """All containers, in upstream's order."""
    for member in ("initContainers", "containers", "ephemeralContainers"):
        yield from spec.get(member) or ()


def allow_privilege_escalation(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    bad = [_name(one) for one in containers(spec) if _security(one).get("allowPrivilegeEscalation") is not False]
    if bad:
        return Violation("allowPrivilegeEscalation != false", f"{_named(bad)} must set securityContext.allowPrivilegeEscalation=false")
    return None


def apparmor_profile(metadata: Fields, spec: Fields) -> Violation | None:
    setters, values = _setters(spec, "appArmorProfile", lambda profile: _type(profile) not in _PROFILES, _type)
    annotations = sorted(
        f"{key}={go_quote(value)}"
        for key, value in (metadata.get("annotations") or {}).items()
        if key.startswith(_APPARMOR_ANNOTATION) and value and value != "runtime/default" and not value.startswith("localhost/")
    )
    found = [*sorted(values), *annotations]
    if annotations:
        setters.append(_plural("annotation", annotations))
    if setters:
        detail = f"{' and '.join(setters)} must not set AppArmor profile type to {_quoted(found)}"
        return Violation(_plural("forbidden AppArmor profile", found), detail)
    return None


def capabilities_baseline(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    bad, forbidden = _collect(spec, lambda one: {name for name in _added(one) if name not in _CAPABILITIES})
    if bad:
        detail = f"{_named(bad)} must not include {_quoted(sorted(forbidden))} in securityContext.capabilities.add"
        return Violation("non-default capabilities", detail)
    return None


def capabilities_restricted(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    keeping = [_name(one) for one in containers(spec) if "ALL" not in ((_security(one).get("capabilities") or {}).get("drop") or ())]
    adding, forbidden = _collect(spec, lambda one: {name for name in _added(one) if name != _NET_BIND_SERVICE})
    details = []
    if keeping:
        details.append(f'{_named(keeping)} must set securityContext.capabilities.drop=["ALL"]')
    if adding:
        details.append(f"{_named(adding)} must not include {_quoted(sorted(forbidden))} in securityContext.capabilities.add")
    return Violation("unrestricted capabilities", "; ".join(details)) if details else None


def host_namespaces(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    found = [f"{member}=true" for member in ("hostNetwork", "hostPID", "hostIPC") if spec.get(member)]
    return Violation("host namespaces", ", ".join(found)) if found else None


def host_path_volumes(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    found = [_name(volume) for volume in spec.get("volumes") or () if volume.get("hostPath") is not None]
    return Violation("hostPath volumes", f"{_plural('volume', found)} {_quoted(found)}") if found else None


def host_ports(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    bad, ports = _collect(spec, lambda one: {str(port["hostPort"]) for port in one.get("ports") or () if port.get("hostPort")})
    if bad:
        return Violation("hostPort", f"{_named(bad)} {_uses(bad)} {_plural('hostPort', ports)} {', '.join(sorted(ports))}")
    return None


def host_probes_and_lifecycle(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    names, hosts = _collect(spec, _hosts)
    bad = sorted(set(names))
    if bad:
        title = _plural("probe or lifecycle host", hosts)
        return Violation("probe or lifecycle host", f"{_named(bad)} {_uses(bad)} {title} {_quoted(sorted(hosts))}")
    return None


def privileged(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    bad = [_name(one) for one in containers(spec) if _security(one).get("privileged")]
    return Violation("privileged", f"{_named(bad)} must not set securityContext.privileged=true") if bad else None


def proc_mount(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    bad, types = _collect(spec, lambda one: {_security(one).get("procMount", "Default")} - {"Default"})
    if bad:
        return Violation("procMount", f"{_named(bad)} must not set securityContext.procMount to {_quoted(sorted(types))}")
    return None


def restricted_volumes(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    bad = [one for one in spec.get("volumes") or () if all(one.get(member) is None for member in _ALLOWED_VOLUMES)]
    if not bad:
        return None
    types = {next((member for member in _RESTRICTED_VOLUMES if one.get(member) is not None), "unknown") for one in bad}
    names = [_name(one) for one in bad]
    uses = f"{_plural('volume', names)} {_quoted(names)} {_uses(names)}"
    return Violation("restricted volume types", f"{uses} {_plural('restricted volume type', types)} {_quoted(sorted(types))}")


def run_as_non_root(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    reason, member = "runAsNonRoot != true", "runAsNonRoot"
    setters, _ = _setters(spec, member, lambda value: value is False, str)
    if setters:
        return Violation(reason, f"{' and '.join(setters)} must not set securityContext.runAsNonRoot=false")
    implicit = _unset(spec, member, by_pod=_security(spec).get(member) is True)
    if implicit:
        return Violation(reason, f"pod or {_named(implicit)} must set securityContext.runAsNonRoot=true")
    return None


def run_as_user(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    setters, _ = _setters(spec, "runAsUser", lambda value: value == 0, str)
    return Violation("runAsUser=0", f"{' and '.join(setters)} must not set runAsUser=0") if setters else None


def selinux_options(allowed: frozenset[str]) -> Check:
    """The check that allows these types."""

    def check(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
        found: list[Fields] = []

        def is_bad(options: Fields) -> bool:
            found.append(options)
            return _type(options) not in allowed or bool(options.get("user") or options.get("role"))

        setters, _ = _setters(spec, "seLinuxOptions", is_bad, _type)
        if not setters:
            return None
        types = sorted({_type(options) for options in found} - allowed)
        data = [f"{_plural('type', types)} {_quoted(types)}"] if types else []
        data += [f"{member} may not be set" for member in ("user", "role") if any(options.get(member) for options in found)]
        return Violation("seLinuxOptions", f"{' and '.join(setters)} set forbidden securityContext.seLinuxOptions: {'; '.join(data)}")

    return check


def seccomp_annotations(metadata: Fields, spec: Fields) -> Violation | None:
    annotations = metadata.get("annotations") or {}
    keys = (_SECCOMP_ANNOTATION, *(_SECCOMP_CONTAINER_ANNOTATION + _name(one) for one in containers(spec)))
    forbidden = {
        f"{key}={go_quote(value)}"
        for key in keys
        if (value := annotations.get(key)) is not None
        and value not in {"runtime/default", "docker/default"}
        and not value.startswith("localhost/")
    }
    if forbidden:
        return Violation("seccompProfile", f"forbidden {_plural('annotation', forbidden)} {', '.join(sorted(forbidden))}")
    return None


def seccomp_profile_baseline(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    setters, values = _setters(spec, "seccompProfile", lambda profile: _type(profile) not in _PROFILES, _type)
    if setters:
        detail = f"{' and '.join(setters)} must not set securityContext.seccompProfile.type to {_quoted(sorted(values))}"
        return Violation("seccompProfile", detail)
    return None


def seccomp_profile_restricted(metadata: Fields, spec: Fields) -> Violation | None:
    if (found := seccomp_profile_baseline(metadata, spec)) is not None:
        return found
    implicit = _unset(spec, "seccompProfile", by_pod=_security(spec).get("seccompProfile") is not None)
    if implicit:
        detail = f'pod or {_named(implicit)} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"'
        return Violation("seccompProfile", detail)
    return None


def sysctls(allowed: frozenset[str]) -> Check:
    """The check that allows these settings of the kernel."""

    def check(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
        forbidden = [_name(one) for one in _security(spec).get("sysctls") or () if _name(one) not in allowed]
        return Violation("forbidden sysctls", ", ".join(forbidden)) if forbidden else None

    return check


def windows_host_process(metadata: Fields, spec: Fields) -> Violation | None:  # noqa: ARG001 - a `Check`
    setters, _ = _setters(spec, "windowsOptions", lambda options: bool(options.get("hostProcess")), str)
    if setters:
        return Violation("hostProcess", f"{' and '.join(setters)} must not set securityContext.windowsOptions.hostProcess=true")
    return None


def unless_windows(check: Check) -> Check:
    """A check that pods for Windows pass."""
    return lambda metadata, spec: None if (spec.get("os") or {}).get("name") == "windows" else check(metadata, spec)


def unless_user_namespace(check: Check) -> Check:
    """A check that pods with users of their own pass."""
    return lambda metadata, spec: None if spec.get("hostUsers") is False else check(metadata, spec)


def _setters(spec: Fields, member: str, is_bad: Callable[[Any], bool], show: Callable[[Any], str]) -> tuple[list[str], set[str]]:
    """Who sets a field of the security context to a bad value: `pod`, `container "a"`; and the values."""
    setters: list[str] = []
    values: set[str] = set()
    own = _security(spec).get(member)
    if own is not None and is_bad(own):
        setters.append("pod")
        values.add(show(own))
    bad, others = _collect(
        spec, lambda one: {show(value)} if (value := _security(one).get(member)) is not None and is_bad(value) else set()
    )
    if bad:
        setters.append(_named(bad))
    return setters, values | others


def _collect(spec: Fields, find: Callable[[Fields], set[str]]) -> tuple[list[str], set[str]]:
    """The names of the containers in which `find` finds something, and everything that it finds."""
    names: list[str] = []
    values: set[str] = set()
    for container in containers(spec):
        if found := find(container):
            names.append(_name(container))
            values |= found
    return names, values


def _unset(spec: Fields, member: str, *, by_pod: bool) -> Sequence[str]:
    """The containers for which a field of the security context is set neither by themselves nor by the pod."""
    return () if by_pod else [_name(one) for one in containers(spec) if _security(one).get(member) is None]


def _hosts(container: Fields) -> set[str]:
    lifecycle = container.get("lifecycle") or {}
    handlers = [container.get(member) or {} for member in ("livenessProbe", "readinessProbe", "startupProbe")]
    handlers += [lifecycle.get(member) or {} for member in ("postStart", "preStop")]
    return {host for handler in handlers for member in ("httpGet", "tcpSocket") if (host := (handler.get(member) or {}).get("host"))}


def _added(container: Fields) -> Iterable[str]:
    return (_security(container).get("capabilities") or {}).get("add") or ()


def _security(owner: Fields) -> Fields:
    return owner.get("securityContext") or {}


def _name(one: Fields) -> str:
    return one.get("name") or ""


def _type(one: Fields) -> str:
    return one.get("type") or ""


def _named(names: Sequence[str]) -> str:
    return f"{_plural('container', names)} {_quoted(names)}"


def _uses(names: Sequence[str]) -> str:
    return "uses" if len(names) == 1 else "use"


def _plural(word: str, found: Sequence[str] | set[str]) -> str:
    return word if len(found) == 1 else f"{word}s"


def _quoted(names: Sequence[str]) -> str:
    return '"' + '", "'.join(names) + '"'
