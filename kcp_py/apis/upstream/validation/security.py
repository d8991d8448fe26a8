"""Security contexts of pods and containers.

Source: kubernetes `pkg/apis/core/validation`.
"""

from __future__ import annotations

import re
from typing import Final

from kcp_py.apimachinery.fielderrors import duplicate, invalid, not_supported, required
from kcp_py.apis.upstream.validation.fields import Object, Problems, as_struct, descending, in_range, one_of
from kcp_py.apis.upstream.validation.windows import windows_options

_SYSCTL: Final = "([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_IS_SYSCTL: Final = re.compile(_SYSCTL)
_SECCOMP_TYPES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_MAX_PROFILE: Final = 4095
_IPC_SYSCTLS: Final = ("fs.mqueue.",)
_IPC_NAMES: Final = frozenset({
    "kernel.msgmax", "kernel.msgmnb", "kernel.msgmni", "kernel.sem", "kernel.shmall", "kernel.shmmax", "kernel.shmmni",
    "kernel.shm_rmid_forced",
})  # fmt: skip


def pod_security(value: Object | None, spec: Object, path: str) -> Problems:
    """The security context of a pod."""
    if not value:
        return
    for member in ("fsGroup", "runAsUser", "runAsGroup"):
        yield from in_range(value.get(member), f"{path}.{member}", 0)
    for index, group in enumerate(value.get("supplementalGroups") or ()):
        yield from in_range(group, f"{path}.supplementalGroups[{index}]", 0)
    yield from _sysctls(value, spec, f"{path}.sysctls")
    for member, allowed in (("fsGroupChangePolicy", ("Always", "OnRootMismatch")),):
        if member in value:
            yield from one_of(value[member], f"{path}.{member}", allowed, needed=False)
    yield from _seccomp(value.get("seccompProfile"), f"{path}.seccompProfile")
    yield from windows_options(value, path)
    yield from _app_armor(value.get("appArmorProfile"), f"{path}.appArmorProfile")
    for member, allowed in (("supplementalGroupsPolicy", ("Merge", "Strict")), ("seLinuxChangePolicy", ("MountOption", "Recursive"))):
        if member in value:
            yield from one_of(value[member], f"{path}.{member}", allowed, needed=False)


def container_security(value: Object | None, path: str, *, host_users: bool) -> Problems:
    """The security context of a container."""
    if not value:
        return
    for member in ("runAsUser", "runAsGroup"):
        yield from in_range(value.get(member), f"{path}.{member}", 0)
    if "procMount" in value:
        mount = value["procMount"]
        if mount not in {"Default", "Unmasked"}:
            yield not_supported(f"{path}.procMount", mount, ("Default", "Unmasked"))
        if host_users and mount == "Unmasked":
            yield invalid(f"{path}.procMount", mount, "`hostUsers` must be false to use `Unmasked`")
    yield from _seccomp(value.get("seccompProfile"), f"{path}.seccompProfile")
    if value.get("allowPrivilegeEscalation") is False:
        if value.get("privileged"):
            yield invalid(path, value, "cannot set `allowPrivilegeEscalation` to false and `privileged` to true")
        for capability in (value.get("capabilities") or {}).get("add") or ():
            if capability == "CAP_SYS_ADMIN":
                yield invalid(path, value, "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN")
    yield from windows_options(value, path)
    yield from _app_armor(value.get("appArmorProfile"), f"{path}.appArmorProfile")


def _seccomp(profile: Object | None, path: str) -> Problems:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    if not kind:
        yield required(f"{path}.type", "type is required when seccompProfile is set")
    else:
        yield from one_of(kind, f"{path}.type", _SECCOMP_TYPES)
    if kind == "Localhost":
        if local is None:
            yield required(f"{path}.localhostProfile", "must be set when seccomp type is Localhost")
        else:
            yield from descending(local, f"{path}.localhostProfile")
    elif local is not None:
        shown = {"Type": kind, "LocalhostProfile": local}
        yield invalid(f"{path}.localhostProfile", as_struct(shown), "can only be set when seccomp type is Localhost")


def _app_armor(profile: Object | None, path: str) -> Problems:
    if profile is None:
        return
    kind, local = profile.get("type", ""), profile.get("localhostProfile")
    match kind:
        case "Localhost":
            if local is None or not local.strip():
                yield required(f"{path}.localhostProfile", "must be set when AppArmor type is Localhost")
            else:
                if local.strip() != local:
                    yield invalid(f"{path}.localhostProfile", local, "must not be padded with whitespace")
                if len(local) > _MAX_PROFILE:
                    yield invalid(f"{path}.localhostProfile", local, f"may not be more than {_MAX_PROFILE} bytes")
        case "RuntimeDefault" | "Unconfined":
            if local is not None:
                yield invalid(f"{path}.localhostProfile", local, "can only be set when AppArmor type is Localhost")
        case "":
            yield required(f"{path}.type", "type is required when appArmorProfile is set")
        case _:
            yield not_supported(f"{path}.type", kind, _SECCOMP_TYPES)


def _sysctls(value: Object, spec: Object, path: str) -> Problems:
    seen: set[str] = set()
    for index, sysctl in enumerate(value.get("sysctls") or ()):
        here, name = f"{path}[{index}].name", sysctl.get("name", "")
        if not name:
            yield required(here)
        elif len(name) > 253 or not _IS_SYSCTL.fullmatch(name):
            yield invalid(here, name, f"must have at most 253 characters and match regex ^{_SYSCTL}$")
        elif name in seen:
            yield duplicate(here, name)
        dotted = name.replace("/", ".") if "/" in name.split(".", 1)[0] else name
        if spec.get("hostNetwork") and dotted.startswith("net."):
            yield invalid(here, name, "may not be specified when 'hostNetwork' is true")
        elif spec.get("hostIPC") and (dotted in _IPC_NAMES or dotted.startswith(_IPC_SYSCTLS)):
            yield invalid(here, name, "may not be specified when 'hostIPC' is true")
        seen.add(name)
