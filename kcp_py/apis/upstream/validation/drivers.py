"""Volumes of drivers: those of pods, and those of persistent volumes, whose secrets have a namespace.

Most drivers are gone from Kubernetes, but the fields are validated.
Source: kubernetes `pkg/apis/core/validation` (`validateVolumeSource`, `ValidatePersistentVolumeSpec`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Final

from kcp_py.apimachinery.fielderrors import invalid, not_supported, required, too_long
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.fields import (
    Object,
    Problems,
    descending,
    in_range,
    label,
    name,
    no_backsteps,
    one_of,
    required_name,
)

_HOST_PATHS: Final = ("", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket")
_NEEDED: Final[Mapping[str, tuple[str, ...]]] = {
    "cephfs": ("monitors",),
    "cinder": ("volumeID",),
    "glusterfs": ("endpoints", "path"),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "rbd": ("monitors", "image"),
    "scaleIO": ("gateway", "system", "volumeName"),
    "vsphereVolume": ("volumePath",),
}
"""The fields that a driver requires."""
_PARTITION: Final = "must be between 1 and 255, inclusive"
_ISCSI_NAMES: Final[Mapping[str, re.Pattern[str]]] = {
    "iqn": re.compile(r"(?s:.*)iqn\.\d{4}-\d{2}\.[A-Za-z0-9\-.]+:[^,;*&$|\s]+", re.ASCII),
    "eui": re.compile("eui.[A-Za-z0-9]{16}"),
    "naa": re.compile("naa.[A-Za-z0-9]{32}"),
}
SHOWN_SOURCES: Final = {"gcePersistentDisk": "persistentDisk"}
"""Names that messages have for a source."""
MAX_PORTAL: Final = 64
LONG_PORTAL: Final = (
    f"Total length of <volume name>:<iscsi.targetPortal> must be under {MAX_PORTAL} characters if iscsi.initiatorName is specified."
)
_ISCSI_FORMAT: Final = "must be valid format"
_REGISTRY: Final = "must be a host:port pair or multiple pairs separated by commas"
_MANAGED_DISK: Final = "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}"
_BLOB: Final = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd"
_SECRETS: Final = ("controllerPublishSecretRef", "controllerExpandSecretRef", "nodePublishSecretRef", "nodeExpandSecretRef")


def driver_name(value: str, path: str) -> Problems:
    """The name of a CSI driver."""
    if not value:
        yield required(path)
        return
    if len(value) > 63:
        yield too_long(path, 63)
    for text in names.dns_subdomain_problems(value.lower()):
        yield invalid(path, value, text)


def driver_source(kind: str, source: Object, path: str, *, volume: str | None = None) -> Problems:
    """The source of a volume.

    Args:
        kind: the name of its field.
        source: the source.
        path: of the source.
        volume: the name of the persistent volume; None in a pod.
    """
    for member in _NEEDED.get(kind, ()):
        if not source.get(member):
            yield required(f"{path}.{member}")
    if rule := _RULES.get(kind):
        yield from rule(source, path, volume)


def _host_path(source: Object, path: str, volume: str | None) -> Problems:
    del volume
    if not source.get("path"):
        yield required(f"{path}.path")
        return
    yield from no_backsteps(source["path"], f"{path}.path")
    if "type" in source:
        yield from one_of(source["type"], f"{path}.type", _HOST_PATHS, needed=False)


def _local(source: Object, path: str, volume: str | None) -> Problems:
    del volume
    if not source.get("path"):
        yield required(f"{path}.path")
    else:
        yield from no_backsteps(source["path"], f"{path}.path")


def _nfs(source: Object, path: str, volume: str | None) -> Problems:
    del volume
    for member in ("server", "path"):
        if not source.get(member):
            yield required(f"{path}.{member}")
    if not source.get("path", "").startswith("/"):
        yield invalid(f"{path}.path", source.get("path", ""), "must be an absolute path")


def _git(source: Object, path: str, volume: str | None) -> Problems:
    del volume
    if not source.get("repository"):
        yield required(f"{path}.repository")
    yield from descending(source.get("directory", ""), f"{path}.directory")


def _disk(member: str) -> Callable[[Object, str, str | None], Problems]:
    def rule(source: Object, path: str, volume: str | None) -> Problems:
        del volume
        if not source.get(member):
            yield required(f"{path}.{member}")
        partition = source.get("partition", 0)
        if not 0 <= partition <= 255:
            yield invalid(f"{path}.partition", partition, _PARTITION)

    return rule


def _iscsi(source: Object, path: str, volume: str | None) -> Problems:
    portal, target, initiator = source.get("targetPortal", ""), source.get("iqn", ""), source.get("initiatorName")
    if not portal:
        yield required(f"{path}.targetPortal")
    if volume is not None and initiator is not None and names.byte_length(f"{volume}:{portal}") > MAX_PORTAL:
        yield invalid(f"{path}.targetportal", portal, LONG_PORTAL)
    prefix = _ISCSI_FORMAT if volume is not None else f"{_ISCSI_FORMAT} starting with iqn, eui, or naa"
    if not target:
        yield required(f"{path}.iqn")
    else:
        yield from _iscsi_name(target, f"{path}.iqn", prefix)
    yield from in_range(source.get("lun", 0), f"{path}.lun", 0, 255)
    secret = source.get("secretRef")
    if (source.get("chapAuthDiscovery") or source.get("chapAuthSession")) and secret is None:
        yield required(f"{path}.secretRef")
    if volume is not None and secret is not None and not secret.get("name"):
        yield required(f"{path}.secretRef.name")
    if initiator is not None:
        yield from _iscsi_name(initiator, f"{path}.initiatorname", prefix)


def _iscsi_name(value: str, path: str, bad_prefix: str) -> Problems:
    pattern = _ISCSI_NAMES.get(value[:3])
    if pattern is None:
        yield invalid(path, value, bad_prefix)
    elif not pattern.fullmatch(value):
        yield invalid(path, value, _ISCSI_FORMAT)


def _glusterfs(source: Object, path: str, volume: str | None) -> Problems:
    namespace, here = source.get("endpointsNamespace"), f"{path}.endpointsNamespace"
    if volume is None or namespace is None:
        return
    if not namespace:
        yield invalid(here, namespace, "if the endpointnamespace is set, it must be a valid namespace name")
    else:
        yield from label(namespace, here)


def _flocker(source: Object, path: str, volume: str | None) -> Problems:
    del volume
    dataset, unique = source.get("datasetName", ""), source.get("datasetUUID", "")
    if not dataset and not unique:
        yield required(path, "one of datasetName and datasetUUID is required")
    if dataset and unique:
        yield invalid(path, "resource", "datasetName and datasetUUID can not be specified simultaneously")
    if "/" in dataset:
        yield invalid(f"{path}.datasetName", dataset, "must not contain '/'")


def _cinder(source: Object, path: str, volume: str | None) -> Problems:
    secret, here = source.get("secretRef"), f"{path}.secretRef"
    if secret is None:
        return
    for member in ("name", "namespace") if volume is not None else ("name",):
        if not secret.get(member):
            yield required(f"{here}.{member}")


def _quobyte(source: Object, path: str, volume: str | None) -> Problems:
    del volume
    registry = source.get("registry", "")
    if not registry:
        yield required(f"{path}.registry", _REGISTRY)
    elif names.byte_length(source.get("tenant", "")) > 64:
        yield required(f"{path}.tenant", "must be a UUID and may not exceed a length of 64 characters")
    else:
        for pair in registry.split(","):
            if not _is_host_and_port(pair):
                yield invalid(f"{path}.registry", registry, _REGISTRY)
    if not source.get("volume"):
        yield required(f"{path}.volume")


def _is_host_and_port(text: str) -> bool:
    """Go's `net.SplitHostPort` without an error."""
    host, colon, port = text.rpartition(":")
    if host.startswith("["):
        return bool(colon) and host.endswith("]") and not set("[]") & set(host[1:-1] + port)
    return bool(colon) and not set(":[]") & set(host) and not set("[]") & set(port)


def _fibre_channel(source: Object, path: str, volume: str | None) -> Problems:
    del volume
    targets, worldwide, here = source.get("targetWWNs") or [], source.get("wwids") or [], f"{path}.targetWWNs"
    if not targets and not worldwide:
        yield required(here, "must specify either targetWWNs or wwids, but not both")
    if targets and worldwide:
        yield invalid(here, targets, "targetWWNs and wwids can not be specified simultaneously")
    if targets:
        if "lun" not in source:
            yield required(f"{path}.lun", "lun is required if targetWWNs is specified")
        yield from in_range(source.get("lun"), f"{path}.lun", 0, 255)


def _flex(source: Object, path: str, volume: str | None) -> Problems:
    del volume
    if not source.get("driver"):
        yield required(f"{path}.driver")
    for key in source.get("options") or ():
        if f".{key.partition('/')[0].lower()}".endswith((".kubernetes.io", ".k8s.io")):
            yield invalid(f"{path}.options[{key}]", key, "kubernetes.io and k8s.io namespaces are reserved")


def _azure_file(source: Object, path: str, volume: str | None) -> Problems:
    for member in ("secretName", "shareName"):
        if not source.get(member):
            yield required(f"{path}.{member}")
    if volume is not None and source.get("secretNamespace") == "":
        yield required(f"{path}.secretNamespace")


def _azure_disk(source: Object, path: str, volume: str | None) -> Problems:
    del volume
    for member in ("diskName", "diskURI"):
        if not source.get(member):
            yield required(f"{path}.{member}")
    if "cachingMode" in source:
        yield from one_of(source["cachingMode"], f"{path}.cachingMode", ("None", "ReadOnly", "ReadWrite"), needed=False)
    if "kind" in source:
        kind, place = source["kind"], source.get("diskURI", "")
        yield from one_of(kind, f"{path}.kind", ("Dedicated", "Managed", "Shared"), needed=False)
        if kind == "Managed" and not place.startswith("/subscriptions/"):
            yield not_supported(f"{path}.diskURI", place, (_MANAGED_DISK,))
        elif kind != "Managed" and not place.startswith("https://"):
            yield not_supported(f"{path}.diskURI", place, (_BLOB,))


def _storageos(source: Object, path: str, volume: str | None) -> Problems:
    yield from required_name(source.get("volumeName"), f"{path}.volumeName", names.dns_label_problems)
    if source.get("volumeNamespace"):
        yield from label(source["volumeNamespace"], f"{path}.volumeNamespace")
    yield from _cinder(source, path, volume)


def _csi(source: Object, path: str, volume: str | None) -> Problems:
    yield from driver_name(source.get("driver", ""), f"{path}.driver")
    if volume is None:
        if (secret := source.get("nodePublishSecretRef")) is not None:
            if not secret.get("name"):
                yield required(f"{path}.nodePublishSecretRef.name")
            else:
                yield from name(secret["name"], f"{path}.name")
        return
    if not source.get("volumeHandle"):
        yield required(f"{path}.volumeHandle")
    for member in _SECRETS:
        if (secret := source.get(member)) is not None:
            yield from required_name(secret.get("name"), f"{path}.{member}.name")
            yield from required_name(secret.get("namespace"), f"{path}.{member}.namespace", names.dns_label_problems)


_RULES: Final[Mapping[str, Callable[[Object, str, str | None], Problems]]] = {
    "awsElasticBlockStore": _disk("volumeID"),
    "azureDisk": _azure_disk,
    "azureFile": _azure_file,
    "cinder": _cinder,
    "csi": _csi,
    "fc": _fibre_channel,
    "flexVolume": _flex,
    "flocker": _flocker,
    "gcePersistentDisk": _disk("pdName"),
    "gitRepo": _git,
    "glusterfs": _glusterfs,
    "hostPath": _host_path,
    "iscsi": _iscsi,
    "local": _local,
    "nfs": _nfs,
    "quobyte": _quobyte,
    "storageos": _storageos,
}
