"""Classes, drivers and attachments of storage.

Source: kubernetes `pkg/apis/storage/validation`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from kcp_py.apimachinery.fielderrors import duplicate, forbidden, invalid, required, too_long
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.drivers import driver_name
from kcp_py.apis.upstream.validation.fields import (
    NOT_NEGATIVE,
    Object,
    Problems,
    amount,
    as_struct,
    in_range,
    name,
    not_negative,
    one_of,
    qualified,
    sealed,
    unchanged,
)
from kcp_py.apis.upstream.validation.persistentvolumes import volume_spec
from kcp_py.apis.upstream.validation.selectors import selector, topology_terms

_MAX_SIZE: Final = 256 * 1024
_MAX_PARAMETERS: Final = 512
_MAX_MESSAGE: Final = 1024
_MAX_NODE_ID: Final = 256
_FILE_POLICIES: Final = ("File", "None", "ReadWriteOnceWithFSType")
_NEEDED: Final = (("attachRequired", "attachedRequired"), ("podInfoOnMount", "podInfoOnMount"), ("storageCapacity", "storageCapacity"))
"""Members of a driver, and the names that messages have for them."""


def storage_class_problems(storage_class: Object) -> Problems:
    """A class of storage."""
    yield from _provisioner(storage_class.get("provisioner", ""), "provisioner")
    yield from _parameters(storage_class.get("parameters") or {})
    if storage_class.get("reclaimPolicy"):
        yield from one_of(storage_class["reclaimPolicy"], "reclaimPolicy", ("Delete", "Retain"), needed=False)
    mode = storage_class.get("volumeBindingMode")
    yield from one_of(mode, "volumeBindingMode", ("Immediate", "WaitForFirstConsumer"), needed=mode is None)
    yield from topology_terms(storage_class.get("allowedTopologies") or (), "allowedTopologies")
    if not storage_class.get("provisioner"):
        yield required("provisioner")


def changed_storage_class_problems(storage_class: Object, old: Object) -> Problems:
    """A changed class of storage."""
    yield from storage_class_problems(storage_class)
    for member in ("parameters", "provisioner", "reclaimPolicy", "volumeBindingMode"):
        yield from sealed(storage_class.get(member), old.get(member), member)


def _provisioner(value: str, path: str) -> Problems:
    if value:
        yield from qualified(value.lower(), path)


def _parameters(values: Object) -> Problems:
    if len(values) > _MAX_PARAMETERS:
        yield too_long("parameters", _MAX_PARAMETERS)
        return
    if "" in values:
        yield invalid("parameters", "", "field can not be empty.")
    if _size(values) > _MAX_SIZE:
        yield too_long("parameters", _MAX_SIZE)


def _size(values: Object) -> int:
    return sum(names.byte_length(key) + names.byte_length(value) for key, value in values.items())


def attributes_class_problems(attributes_class: Object) -> Problems:
    """A class of attributes of volumes."""
    parameters = attributes_class.get("parameters") or {}
    if not attributes_class.get("driverName"):
        yield required("driverName")
    yield from _provisioner(attributes_class.get("driverName", ""), "driverName")
    yield from _parameters(parameters)
    if not parameters:
        yield required("parameters", "must contain at least one key/value pair")


def changed_attributes_class_problems(attributes_class: Object, old: Object) -> Problems:
    """A changed class of attributes of volumes."""
    for member in ("driverName", "parameters"):
        if (attributes_class.get(member) or None) != (old.get(member) or None):
            yield forbidden(member, f"updates to {member} are forbidden.")
    yield from attributes_class_problems(attributes_class)


def driver_problems(driver: Object) -> Problems:
    """A CSI driver."""
    spec = driver.get("spec") or {}
    for member, shown in _NEEDED:
        if member not in spec:
            yield required(f"spec.{shown}")
    if "fsGroupPolicy" in spec:
        yield from one_of(spec["fsGroupPolicy"], "spec.fsGroupPolicy", _FILE_POLICIES, needed=False)
    yield from _tokens(spec)
    for mode in spec.get("volumeLifecycleModes") or ():
        yield from one_of(mode, "spec.volumeLifecycleModes", ("Persistent", "Ephemeral"), needed=False)
    if "seLinuxMount" not in spec:
        yield required("spec.seLinuxMount")
    period = spec.get("nodeAllocatableUpdatePeriodSeconds")
    if period is not None and period < 10:
        yield invalid("spec.nodeAllocatableUpdatePeriodSeconds", period, "must be greater than or equal to 10 seconds")
    in_secrets = spec.get("serviceAccountTokenInSecrets")
    if in_secrets is not None and not spec.get("tokenRequests"):
        detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified"
        yield invalid("spec.serviceAccountTokenInSecrets", in_secrets, detail)
    if "preventPodSchedulingIfMissing" not in spec:
        yield required("spec.preventPodSchedulingIfMissing")


def changed_driver_problems(driver: Object, old: Object) -> Problems:
    """A changed CSI driver."""
    yield from driver_problems(driver)
    spec, before = driver.get("spec") or {}, old.get("spec") or {}
    if spec.get("attachRequired") != before.get("attachRequired"):
        yield from unchanged(spec.get("attachRequired"), [before.get("attachRequired")], "spec.attachedRequired")
    yield from unchanged(spec.get("volumeLifecycleModes"), before.get("volumeLifecycleModes"), "spec.volumeLifecycleModes")


def _tokens(spec: Object) -> Problems:
    seen: set[str] = set()
    for index, request in enumerate(spec.get("tokenRequests") or ()):
        here, audience = f"spec.tokenRequests[{index}]", request.get("audience", "")
        if audience in seen:
            yield duplicate(f"{here}.audience", audience)
            continue
        seen.add(audience)
        seconds = request.get("expirationSeconds")
        if seconds is not None and seconds < 600:
            yield invalid(f"{here}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
        if seconds is not None and seconds > 2**32:
            yield invalid(f"{here}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")


def node_problems(node: Object) -> Problems:
    """The CSI drivers of a node."""
    seen: set[str] = set()
    for index, driver in enumerate((node.get("spec") or {}).get("drivers") or ()):
        here, driver_id, node_id = f"spec.drivers[{index}]", driver.get("name", ""), driver.get("nodeID", "")
        yield from driver_name(driver_id, f"{here}.name")
        if not node_id:
            yield required(f"{here}.nodeID")
        if names.byte_length(node_id) > _MAX_NODE_ID:
            yield invalid(f"{here}.nodeID", node_id, f"must be {_MAX_NODE_ID} characters or less")
        yield from not_negative((driver.get("allocatable") or {}).get("count"), f"{here}.allocatable.count")
        if driver_id in seen:
            yield duplicate(f"{here}.name", driver_id)
        seen.add(driver_id)
        keys: set[str] = set()
        for key in driver.get("topologyKeys") or ():
            if not key:
                yield required(here)
            if key in keys:
                yield duplicate(here, key)
            keys.add(key)
            yield from qualified(key, here)


def changed_node_problems(node: Object, old: Object) -> Problems:
    """Changed CSI drivers of a node: only the number of volumes of a driver may change."""
    yield from node_problems(node)
    for before in (old.get("spec") or {}).get("drivers") or ():
        for driver in (node.get("spec") or {}).get("drivers") or ():
            if driver.get("name") == before.get("name"):
                new, stored = ({key: value for key, value in one.items() if key != "allocatable" and value} for one in (driver, before))
                shown = as_struct({
                    "Name": driver.get("name", ""), "NodeID": driver.get("nodeID", ""),
                    "TopologyKeys": driver.get("topologyKeys"), "Allocatable": None,
                })  # fmt: skip
                yield from unchanged(new, stored, "spec.drivers", shown)


def attachment_problems(attachment: Object) -> Problems:
    """The attachment of a volume to a node."""
    yield from _attachment(attachment)
    yield from _attacher((attachment.get("spec") or {}).get("attacher", ""), "spec.attacher")


def _attachment(attachment: Object) -> Problems:
    spec = attachment.get("spec") or {}
    source, here = spec.get("source") or {}, "spec.source"
    inline, volume = source.get("inlineVolumeSpec"), source.get("persistentVolumeName")
    detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName"
    if inline is None and volume is None:
        yield required(here, detail)
    elif inline is not None and volume is not None:
        yield forbidden(here, detail)
    elif volume is not None:
        if not volume:
            yield required(f"{here}.persistentVolumeName", "must specify non empty persistentVolumeName")
    elif inline is not None:
        yield from volume_spec(inline, f"{here}.inlineVolumeSpec", "", inline=True)
    yield from name(spec.get("nodeName", ""), "spec.nodeName")
    yield from attachment_status_problems(attachment, {})
    if volume is not None:
        yield from name(volume, f"{here}.persistentVolumeName")


def _attacher(value: str, path: str) -> Problems:
    """The name of a driver in the words of the rules that are generated from the types (`format=k8s-long-name-caseless`)."""
    if not value:
        yield required(path)
        return
    for problem in reversed([*driver_name(value, path)]):
        if "more than" in problem.detail:
            unit, other = ("characters", "bytes") if problem.reason == "FieldValueTooLong" else ("bytes", "characters")
            yield replace(problem, detail=problem.detail.replace(other, unit))
            continue
        detail = (
            problem.detail.replace("a lowercase RFC", "an RFC")
            .replace("lower case alpha", "alpha")
            .replace("'example.com'", "'Example.com'")
        )
        yield replace(problem, detail=detail)


def changed_attachment_problems(attachment: Object, old: Object) -> Problems:
    """A changed attachment."""
    yield from driver_name((attachment.get("spec") or {}).get("attacher", ""), "spec.attacher")
    yield from _attachment(attachment)
    yield from sealed(attachment.get("spec") or {}, old.get("spec") or {}, "spec")


def attachment_status_problems(attachment: Object, old: Object) -> Problems:
    """What became of an attachment."""
    del old
    status = attachment.get("status") or {}
    if _size(status.get("attachmentMetadata") or {}) > _MAX_SIZE:
        yield too_long("status.attachmentMetadata", _MAX_SIZE)
    for member in ("attachError", "detachError"):
        error, here = status.get(member) or {}, f"status.{member}"
        if names.byte_length(error.get("message", "")) > _MAX_MESSAGE:
            yield too_long(f"{here}.message", _MAX_MESSAGE)
        yield from in_range(error.get("errorCode"), f"{here}.errorCode", 0)


def capacity_problems(capacity: Object) -> Problems:
    """The capacity of storage in a part of a cluster."""
    yield from selector(capacity.get("nodeTopology"), "nodeTopology")
    yield from name(capacity.get("storageClassName", ""), "storageClassName")
    if "capacity" in capacity and amount(capacity["capacity"]).nano < 0:
        yield invalid("capacity", str(amount(capacity["capacity"])), NOT_NEGATIVE)


def changed_capacity_problems(capacity: Object, old: Object) -> Problems:
    """A changed capacity of storage."""
    yield from capacity_problems(capacity)
    for member in ("nodeTopology", "storageClassName"):
        yield from unchanged(capacity.get(member), old.get(member), member)
