"""Pods for Windows, and fields that pods of one operating system cannot have.

Source: kubernetes `pkg/apis/core/validation` (`validateWindowsSecurityContextOptions`, `validateWindowsHostProcessPod`, `validateLinux`,
`validateWindows`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from kcp_py.apimachinery.fielderrors import forbidden, invalid
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.fields import Object, Problems, name

_CONTROL: Final = re.compile(r"[\x00-\x1f\x7f]")
_DNS_LABEL: Final = "[a-zA-Z0-9](?:[a-zA-Z0-9-]{0,61}[a-zA-Z0-9])?"
_DNS_DOMAIN: Final = re.compile(rf"{_DNS_LABEL}(?:\.{_DNS_LABEL})*")
_NETBIOS: Final = re.compile(r'[^\\/:*?"<>|.][^\\/:*?"<>|]{0,14}')
_BAD_CHARACTERS: Final = re.compile(r'["/\\:;|=,+*?<>@\[\]]')
_MAX_SPEC_KIB: Final = 64
_MAX_DOMAIN: Final = 256
_MAX_USER: Final = 104
_NOT_WINDOWS: Final = "cannot be set for a windows pod"
_NOT_LINUX: Final = "windows options cannot be set for a linux pod"
_POD_SECURITY: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "fsGroup", "fsGroupChangePolicy", "sysctls", "runAsUser", "runAsGroup",
    "supplementalGroups", "supplementalGroupsPolicy", "seLinuxChangePolicy",
)  # fmt: skip
_CONTAINER_SECURITY: Final = (
    "appArmorProfile", "seLinuxOptions", "seccompProfile", "capabilities", "readOnlyRootFilesystem", "privileged",
    "allowPrivilegeEscalation", "procMount", "runAsUser", "runAsGroup",
)  # fmt: skip
_POD: Final = ("hostUsers", "hostPID", "hostIPC", "shareProcessNamespace")


def windows_options(security: Object, path: str) -> Problems:
    """The options for Windows of a security context."""
    options, here = security.get("windowsOptions") or {}, f"{path}.windowsOptions"
    if (spec_name := options.get("gmsaCredentialSpecName")) is not None:
        yield from name(spec_name, f"{here}.gmsaCredentialSpecName")
    if (spec := options.get("gmsaCredentialSpec")) is not None:
        if not spec:
            yield invalid(f"{here}.gmsaCredentialSpec", spec, "gmsaCredentialSpec cannot be an empty string")
        elif names.byte_length(spec) > _MAX_SPEC_KIB * 1024:
            yield invalid(f"{here}.gmsaCredentialSpec", spec, f"gmsaCredentialSpec size must be under {_MAX_SPEC_KIB} KiB")
    if (user := options.get("runAsUserName")) is not None:
        for detail in _user_problems(user):
            yield invalid(f"{here}.runAsUserName", user, f"runAsUserName{detail}")


def _user_problems(value: str) -> Iterator[str]:
    """The problems of the name of a user, which may have a domain and a backslash before it."""
    if not value:
        yield " cannot be an empty string"
        return
    if _CONTROL.search(value):
        yield " cannot contain control characters"
        return
    if value.count("\\") > 1:
        yield " cannot contain more than one backslash"
        return
    domain, backslash, user = value.rpartition("\\")
    if names.byte_length(domain) >= _MAX_DOMAIN:
        yield f"'s Domain length must be under {_MAX_DOMAIN} characters"
    if backslash and not _NETBIOS.fullmatch(domain) and not _DNS_DOMAIN.fullmatch(domain):
        yield "'s Domain doesn't match the NetBios nor the DNS format"
    if not user:
        yield "'s User cannot be empty"
    elif names.byte_length(user) > _MAX_USER:
        yield f"'s User length must not be longer than {_MAX_USER} characters"
    if user and not user.strip(". "):
        yield "'s User cannot contain only periods or spaces"
    if _BAD_CHARACTERS.search(user):
        yield "'s User cannot contain the following characters: \"/\\:;|=,+*?<>@[]"


def host_processes(spec: Object, path: str) -> Problems:
    """Containers that are processes of the host: all of a pod, or none."""
    of_pod = ((spec.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
    processes = total = 0
    for container, here in _containers(spec, path):
        total += 1
        own = ((container.get("securityContext") or {}).get("windowsOptions") or {}).get("hostProcess")
        if of_pod is not None and own is not None and own != of_pod:
            detail = f"pod hostProcess value must be identical if both are specified, was {'true' if of_pod else 'false'}"
            yield invalid(f"{here}.securityContext.windowsOptions.hostProcess", own, detail)
        processes += bool(of_pod if own is None else own)
    if processes and processes != total:
        yield invalid(path, "", "If pod contains any hostProcess containers then all containers must be HostProcess containers")
    if processes and not spec.get("hostNetwork"):
        yield invalid(f"{path}.hostNetwork", False, "hostNetwork must be true if pod contains any hostProcess containers")


def fields_of_system(spec: Object, path: str, system: str) -> Problems:
    """The fields that pods of an operating system cannot have."""
    security, here = spec.get("securityContext") or {}, f"{path}.securityContext"
    if system == "linux":
        if "windowsOptions" in security:
            yield forbidden(f"{here}.windowsOptions", _NOT_LINUX)
        for container, at in _containers(spec, path):
            if "windowsOptions" in (container.get("securityContext") or {}):
                yield forbidden(f"{at}.securityContext.windowsOptions", _NOT_LINUX)
        return
    yield from (forbidden(f"{here}.{member}", _NOT_WINDOWS) for member in _POD_SECURITY if member in security)
    for member in _POD:
        if member in spec and (spec[member] or member not in {"hostPID", "hostIPC"}):
            yield forbidden(f"{path}.{member}", _NOT_WINDOWS)
    for container, at in _containers(spec, path):
        given = container.get("securityContext") or {}
        yield from (forbidden(f"{at}.securityContext.{member}", _NOT_WINDOWS) for member in _CONTAINER_SECURITY if member in given)


def _containers(spec: Object, path: str) -> Iterator[tuple[Object, str]]:
    """All containers with their paths, in the order in which messages come."""
    for member in ("initContainers", "containers", "ephemeralContainers"):
        for index, container in enumerate(spec.get(member) or ()):
            yield container, f"{path}.{member}[{index}]"
