"""Volumes of pods.

Source: kubernetes `pkg/apis/core/validation` (`ValidateVolumes`, `validateVolumeSource`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from kcp_py.apimachinery.fielderrors import duplicate, forbidden, invalid, required
from kcp_py.apimachinery.meta import names
from kcp_py.apis.certificates.validation import signer_name_problems
from kcp_py.apis.upstream.validation.claims import claim_template
from kcp_py.apis.upstream.validation.drivers import LONG_PORTAL, MAX_PORTAL, SHOWN_SOURCES, driver_source
from kcp_py.apis.upstream.validation.environment import VOLUME_FIELDS, field_reference, resource_reference
from kcp_py.apis.upstream.validation.fields import (
    Object,
    Problems,
    amount,
    as_selector,
    file_mode,
    in_range,
    local_path,
    one_of,
    required_name,
)
from kcp_py.apis.upstream.validation.selectors import selector
from kcp_py.golang.quoting import go_quote

_SOURCES: Final = (
    "emptyDir", "hostPath", "gitRepo", "gcePersistentDisk", "awsElasticBlockStore", "secret", "nfs", "iscsi", "glusterfs", "flocker",
    "persistentVolumeClaim", "rbd", "cinder", "cephfs", "quobyte", "downwardAPI", "fc", "flexVolume", "configMap", "azureFile",
    "vsphereVolume", "photonPersistentDisk", "portworxVolume", "azureDisk", "storageos", "projected", "scaleIO", "csi",
    "ephemeral", "image",
)  # fmt: skip
"""In the order in which they are looked at."""
_MISSPELT: Final = {"cephfs": "cephFS", "downwardAPI": "downwarAPI"}
"""Names that upstream has in the error about a second source."""
_PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_TEN_MINUTES: Final = 600


def volumes(values: Sequence[Object] | None, path: str, pod: str, valid: dict[str, Object]) -> Problems:
    """The volumes of a pod.

    Args:
        values: the volumes.
        path: of the list.
        pod: the name of the pod; empty in a template.
        valid: gets the volumes without problems by name.
    """
    claims = {f"{pod}-{volume.get('name', '')}" for volume in values or () if "ephemeral" in volume} if pod else set()
    for index, volume in enumerate(values or ()):
        here, volume_name = f"{path}[{index}]", volume.get("name", "")
        problems = list(_source(volume, volume_name, here, pod))
        problems += required_name(volume_name, f"{here}.name", names.dns_label_problems)
        if volume_name in valid:
            problems.append(duplicate(f"{here}.name", volume_name))
        if problems:
            yield from problems
        else:
            valid[volume_name] = volume
        claim = (volume.get("persistentVolumeClaim") or {}).get("claimName", "")
        if claim in claims:
            detail = "must not reference a PVC that gets created for an ephemeral volume"
            yield invalid(f"{here}.persistentVolumeClaim.claimName", claim, detail)


def _source(volume: Object, volume_name: str, path: str, pod: str) -> Problems:
    given = [member for member in _SOURCES if member in volume]
    if not given:
        yield required(path, "must specify a volume type")
        return
    yield from _checked(given[0], volume[given[0]] or {}, f"{path}.{SHOWN_SOURCES.get(given[0], given[0])}")
    portal = volume.get("iscsi") or {}
    if portal.get("initiatorName") is not None and names.byte_length(f"{volume_name}:{portal.get('targetPortal', '')}") > MAX_PORTAL:
        yield invalid(f"{path}.name", volume_name, LONG_PORTAL)
    for member in given[1:]:
        yield forbidden(f"{path}.{_MISSPELT.get(member, member)}", "may not specify more than 1 volume type")
    if given[0] == "ephemeral" and pod and volume_name:
        claim = f"{pod}-{volume_name}"
        for text in names.dns_subdomain_problems(claim):
            yield invalid(f"{path}.name", volume_name, f"PVC name {go_quote(claim)}: {text}")


def _checked(kind: str, source: Object, path: str) -> Problems:
    match kind:
        case "emptyDir":
            if "sizeLimit" in source and amount(source["sizeLimit"]).nano < 0:
                yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")
        case "secret" | "configMap":
            member = "secretName" if kind == "secret" else "name"
            if not source.get(member):
                yield required(f"{path}.{member}")
            yield from file_mode(source.get("defaultMode"), f"{path}.defaultMode")
            yield from _items(source, path)
        case "persistentVolumeClaim":
            if not source.get("claimName"):
                yield required(f"{path}.claimName")
        case "downwardAPI":
            yield from file_mode(source.get("defaultMode"), f"{path}.defaultMode")
            for item in source.get("items") or ():
                yield from _downward_file(item, path)
        case "projected":
            yield from _projected(source, path)
        case "ephemeral":
            if (template := source.get("volumeClaimTemplate")) is None:
                yield required(f"{path}.volumeClaimTemplate")
            else:
                yield from claim_template(template, f"{path}.volumeClaimTemplate")
        case "image":
            if not source.get("reference"):
                yield required(f"{path}.reference")
            elif "pullPolicy" in source:
                yield from one_of(source["pullPolicy"], f"{path}.pullPolicy", _PULL_POLICIES)
        case _:
            yield from driver_source(kind, source, path)


def _items(source: Object, path: str) -> Problems:
    for index, item in enumerate(source.get("items") or ()):
        yield from _key_to_path(item, f"{path}.items[{index}]")


def _key_to_path(item: Object, path: str) -> Problems:
    for member in ("key", "path"):
        if not item.get(member):
            yield required(f"{path}.{member}")
    yield from local_path(item.get("path", ""), f"{path}.path")
    yield from file_mode(item.get("mode"), f"{path}.mode")


def _downward_file(item: Object, path: str) -> Problems:
    if not item.get("path"):
        yield required(f"{path}.path")
    yield from local_path(item.get("path", ""), f"{path}.path")
    if "fieldRef" in item:
        yield from field_reference(item["fieldRef"], f"{path}.fieldRef", VOLUME_FIELDS)
        if "resourceFieldRef" in item:
            yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif "resourceFieldRef" in item:
        yield from resource_reference(item["resourceFieldRef"], f"{path}.resourceFieldRef", needs_container=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from file_mode(item.get("mode"), f"{path}.mode")


def _projected(source: Object, path: str) -> Problems:
    yield from file_mode(source.get("defaultMode"), f"{path}.defaultMode")
    taken: set[str] = set()
    for index, part in enumerate(source.get("sources") or ()):
        here = f"{path}.sources[{index}]"
        for member in ("secret", "configMap"):
            if member in part:
                yield from _projected_keys(part[member], f"{here}.{member}", path, taken)
        for item in (part.get("downwardAPI") or {}).get("items") or ():
            yield from _downward_file(item, f"{here}.downwardAPI")
            yield from _taken(item.get("path", ""), item.get("path", ""), path, taken)
        if "serviceAccountToken" in part:
            yield from _projected_token(part["serviceAccountToken"], f"{here}.serviceAccountToken", path, taken)
        if "clusterTrustBundle" in part:
            yield from _trust_bundle(part["clusterTrustBundle"], f"{here}.clusterTrustBundle", path, taken)
        if len(part) > 1:
            yield forbidden(here, "may not specify more than 1 volume type per source")


def _projected_keys(part: Object, here: str, path: str, taken: set[str]) -> Problems:
    if not part.get("name"):
        yield required(f"{here}.name")
    for index, item in enumerate(part.get("items") or ()):
        yield from _key_to_path(item, f"{here}.items[{index}]")
        yield from _taken(item.get("path", ""), part.get("name", ""), path, taken)


def _projected_token(part: Object, here: str, path: str, taken: set[str]) -> Problems:
    seconds = part.get("expirationSeconds", 0)
    if seconds < _TEN_MINUTES:
        yield invalid(f"{here}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > 2**32:
        yield invalid(f"{here}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if not part.get("path"):
        yield required(f"{path}.path")
    else:
        yield from local_path(part["path"], f"{path}.path")
    yield from in_range(part.get("user"), f"{here}.user", 0)
    yield from _taken(part.get("path", ""), part.get("path", ""), path, taken)


def _trust_bundle(part: Object, here: str, path: str, taken: set[str]) -> Problems:
    bundle, signer, chosen = part.get("name"), part.get("signerName"), part.get("labelSelector")
    if bundle is not None and signer is not None:
        yield invalid(here, part, "only one of name and signerName may be used")
    elif bundle is not None:
        if not bundle:
            yield required(f"{here}.name", "must be a valid object name")
        for text in names.dns_subdomain_problems(bundle.rpartition(":")[2]):
            yield invalid(f"{here}.name", bundle, f"not a valid clustertrustbundlename: {text}")
        if chosen is not None:
            yield invalid(f"{here}.labelSelector", as_selector(chosen), "labelSelector must be unset if name is specified")
    elif signer is not None:
        if not signer:
            yield required(f"{here}.signerName", "must be a valid signer name")
        yield from signer_name_problems(signer, f"{here}.signerName")
        yield from selector(chosen, f"{here}.labelSelector")
    else:
        yield required(here, "either name or signerName must be specified")
    if not part.get("path"):
        yield required(f"{here}.path")
    yield from in_range(part.get("user"), f"{here}.user", 0)
    yield from local_path(part.get("path", ""), f"{here}.path")
    yield from _taken(part.get("path", ""), part.get("path", ""), path, taken)


def _taken(file: str, shown: str, path: str, taken: set[str]) -> Problems:
    """Two sources cannot write the same file."""
    if file and file in taken:
        yield invalid(path, shown, "conflicting duplicate paths")
    taken.add(file)
