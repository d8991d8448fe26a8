"""Environment variables of containers, and the fields of the pod that they and volumes may show.

Source: kubernetes `pkg/apis/core/validation`, `pkg/apis/core/pods` (`ConvertDownwardAPIFieldLabel`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from typing import Final

from kcp_py.apimachinery.fielderrors import invalid, not_supported, required
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.fields import (
    Object,
    Problems,
    amount,
    environment_name_problems,
    name,
    no_backsteps,
    qualified,
    required_name,
)

ENVIRONMENT_FIELDS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs",
    "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS: Final = ("metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid")
_RESOURCES: Final = (
    "limits.cpu", "limits.ephemeral-storage", "limits.memory", "requests.cpu", "requests.ephemeral-storage", "requests.memory",
)  # fmt: skip
_HUGE_PAGES: Final = ("requests.hugepages-", "limits.hugepages-")
_FIELDS: Final = frozenset({
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName",
    "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "spec.hostNetwork", "status.phase", "status.hostIP",
    "status.hostIPs", "status.podIP", "status.podIPs",
})  # fmt: skip
_SUBSCRIPTED: Final = re.compile(r"([^\[]+)\['([^']*)'\]")
_CPU_DIVISORS: Final = frozenset({"1m", "1"})
_BYTE_DIVISORS: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")
_SOURCES: Final = ("fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef")
_ONE_OF: Final = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`"


def environment(values: Sequence[Object] | None, path: str) -> Problems:
    """`env` of a container."""
    for index, variable in enumerate(values or ()):
        here = f"{path}[{index}]"
        yield from required_name(variable.get("name"), f"{here}.name", environment_name_problems)
        if (source := variable.get("valueFrom")) is not None:
            yield from _source(source, f"{here}.valueFrom", has_value=bool(variable.get("value")))


def _source(source: Object, path: str, *, has_value: bool) -> Problems:
    given = [member for member in _SOURCES if member in source]
    for member in given:
        here, value = f"{path}.{member}", source[member]
        match member:
            case "fieldRef":
                yield from field_reference(value, here, ENVIRONMENT_FIELDS)
            case "resourceFieldRef":
                yield from resource_reference(value, here, needs_container=False)
            case "fileKeyRef":
                yield from required_name(value.get("key"), f"{here}.key", environment_name_problems)
                yield from required_name(value.get("volumeName"), f"{here}.volumeName", names.dns_label_problems)
                if not value.get("path"):
                    yield required(f"{here}.path")
                else:
                    yield from no_backsteps(value["path"], f"{here}.path")
            case _:
                yield from name(value.get("name", ""), f"{here}.name")
                yield from required_name(value.get("key"), f"{here}.key", names.config_key_problems)
    if not given:
        yield invalid(path, "", _ONE_OF)
    elif has_value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif len(given) > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def environment_sources(values: Sequence[Object] | None, path: str) -> Problems:
    """`envFrom` of a container."""
    for index, source in enumerate(values or ()):
        here = f"{path}[{index}]"
        if source.get("prefix"):
            yield from name(source["prefix"], f"{here}.prefix", environment_name_problems)
        given = [member for member in ("configMapRef", "secretRef") if member in source]
        for member in given:
            yield from required_name(source[member].get("name"), f"{here}.{member}.name")
        if not given:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")


def field_reference(value: Object, path: str, allowed: Collection[str]) -> Problems:
    """A field of the pod."""
    version, field = value.get("apiVersion", ""), value.get("fieldPath", "")
    if not version:
        yield required(f"{path}.apiVersion")
        return
    if not field:
        yield required(f"{path}.fieldPath")
        return
    match = _SUBSCRIPTED.fullmatch(field)
    where = match[1] if match else field
    known = where in {"metadata.annotations", "metadata.labels"} if match else where in _FIELDS or where == "spec.host"
    if version != "v1" or not known:
        text = f"unsupported pod version: {version}" if version != "v1" else f"field label not supported: {field}"
        if version == "v1" and match:
            text = f"field label does not support subscript: {field}"
        yield invalid(f"{path}.fieldPath", field, f"error converting fieldPath: {text}")
        return
    if match:
        key = match[2].lower() if where == "metadata.annotations" else match[2]
        yield from qualified(key, path)
    else:
        where = "spec.nodeName" if where == "spec.host" else where
        if where not in allowed:
            yield not_supported(f"{path}.fieldPath", where, sorted(allowed))


def resource_reference(value: Object, path: str, *, needs_container: bool) -> Problems:
    """A request or limit of a container."""
    resource = value.get("resource", "")
    if needs_container and not value.get("containerName"):
        yield required(f"{path}.containerName")
    elif not resource:
        yield required(f"{path}.resource")
    elif resource not in _RESOURCES and not resource.startswith(_HUGE_PAGES):
        yield not_supported(f"{path}.resource", resource, _RESOURCES)
    divisor = amount(value.get("divisor", "0"))
    if not divisor.nano:
        return
    kind = resource.rpartition(".")[2]
    if kind == "cpu":
        if str(divisor) not in _CPU_DIVISORS:
            yield invalid(f"{path}.divisor", resource, "only divisor's values 1m and 1 are supported with the cpu resource")
    elif str(divisor) not in _BYTE_DIVISORS and (resource in _RESOURCES or resource.startswith(_HUGE_PAGES)):
        names_of = {"memory": "memory", "ephemeral-storage": "local ephemeral storage"}
        about = names_of.get(kind, "hugepages")
        detail = f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the {about} resource"
        yield invalid(f"{path}.divisor", resource, detail)
