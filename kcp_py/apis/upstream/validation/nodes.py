"""Nodes and the classes of their container runtimes.

Source: kubernetes `pkg/apis/core/validation` (`ValidateNode`, `ValidateNodeUpdate`), `pkg/apis/node/validation`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from kcp_py.apimachinery.fielderrors import duplicate, forbidden, internal, invalid, required
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.fields import (
    NOT_POSITIVE,
    Object,
    Problems,
    as_struct,
    cidr,
    label,
    name,
    one_of,
    qualified,
    required_name,
    sealed,
    short_name_problems,
)
from kcp_py.apis.upstream.validation.resources import container_resources, quantity
from kcp_py.apis.upstream.validation.scheduling import EFFECTS, tolerations
from kcp_py.apis.upstream.validation.selectors import labels
from kcp_py.golang.addresses import AddressError, parse_prefix
from kcp_py.golang.quoting import go_quote

_FEATURE: Final = re.compile("[A-Z][a-zA-Z0-9]*(/[a-zA-Z0-9]+)*")
_BAD_FEATURE: Final = (
    "must start with an UpperCamelCase segment, with subsequent segments separated by '/' (e.g., MyFeature or "
    "MyFeature/mySubFeature), and contain only alphanumeric characters and slashes"
)
_FIXED_RANGES: Final = 'node updates may not change podCIDR except from "" to valid'
_CONFIGURATIONS: Final = ("assigned", "active", "lastKnownGood")


def node_problems(node: Object) -> Problems:
    """A new node."""
    spec, status = node.get("spec") or {}, node.get("status") or {}
    yield from _taints(spec.get("taints") or ())
    yield from _resources(status)
    capacity = ((status.get("nodeInfo") or {}).get("swap") or {}).get("capacity")
    if capacity is not None and capacity <= 0:
        yield invalid("metadata.nodeSwapStatus.capacity", capacity, NOT_POSITIVE)
    yield from _features(status.get("declaredFeatures") or ())
    ranges = spec.get("podCIDRs") or ()
    for index, value in enumerate(ranges):
        yield from cidr(value, f"spec.podCIDRs[{index}]")
    for index, value in enumerate(ranges if len(ranges) > 1 else ()):
        if not _family(value):
            text = (
                f"invalid PodCIDRs. failed to check with dual stack with error:invalid CIDR[{index}]: <nil> (invalid CIDR address: {value})"
            )
            yield internal("spec.podCIDRs", text)
            break
    if len(ranges) > 1 and (len(ranges) > 2 or {_family(value) for value in ranges} != {4, 6}):
        yield invalid("spec.podCIDRs", ranges, "may specify no more than one CIDR for each IP family")


def _family(value: str) -> int:
    try:
        return parse_prefix(value).address.family
    except AddressError:
        return 0


def changed_node_problems(node: Object, old: Object) -> Problems:
    """A changed node. The status is part of it, because a node may come with one."""
    yield from node_problems(node)
    spec, before, status = node.get("spec") or {}, old.get("spec") or {}, node.get("status") or {}
    yield from _resources(status)
    yield from _features(status.get("declaredFeatures") or ())
    seen: set[tuple[str, str]] = set()
    for index, entry in enumerate(status.get("addresses") or ()):
        pair = (entry.get("type", ""), entry.get("address", ""))
        if pair in seen:
            yield duplicate(f"status.addresses[{index}]", as_struct({"Type": pair[0], "Address": pair[1]}))
        seen.add(pair)
    ranges, stored = spec.get("podCIDRs") or [], before.get("podCIDRs") or []
    if stored and len(ranges) != len(stored):
        yield forbidden("spec.podCIDRs", _FIXED_RANGES)
    elif stored:
        for index, value in enumerate(stored):
            if value != ranges[index]:
                yield forbidden("spec.podCIDRs", _FIXED_RANGES)
    if (source := spec.get("configSource")) is not None:
        yield from _configuration(source, "spec.configSource", stored=False)
    for member in _CONFIGURATIONS:
        if (source := (status.get("config") or {}).get(member)) is not None:
            yield from _configuration(source, f"status.config.{member}", stored=True)
    yield from _taints(spec.get("taints") or ())
    if spec.get("externalID", "") != before.get("externalID", ""):
        yield forbidden("spec.externalID", "may not be updated")
    if before.get("providerID") and spec.get("providerID", "") != before["providerID"]:
        verb = "modified" if spec.get("providerID") else "cleared"
        yield invalid("spec.providerID", None, f"field cannot be {verb} once set")


def _resources(status: Object) -> Problems:
    for member in ("capacity", "allocatable"):
        for resource, value in (status.get(member) or {}).items():
            yield from quantity(resource, value, f"status.{member}.{resource}")


def _features(features: Sequence[str]) -> Problems:
    for index, feature in enumerate(features):
        here = f"status.declaredFeatures[{index}]"
        if names.byte_length(feature) > 253:
            yield invalid(here, feature, f"invalid feature name {go_quote(feature)}: must be no more than 253 characters")
        elif not _FEATURE.fullmatch(feature):
            yield invalid(here, feature, f"invalid feature name {go_quote(feature)}: {_BAD_FEATURE}")
        if index + 1 < len(features):
            following, here = features[index + 1], f"status.declaredFeatures[{index + 1}]"
            if feature == following:
                yield duplicate(here, following)
            elif feature > following:
                yield invalid(here, following, "list must be sorted alphabetically")


def _taints(taints: Sequence[Object]) -> Problems:
    seen: set[tuple[str, str]] = set()
    for index, taint in enumerate(taints):
        here, key, effect = f"metadata.taints[{index}]", taint.get("key", ""), taint.get("effect", "")
        yield from qualified(key, f"{here}.key")
        if problems := names.label_value_problems(taint.get("value", "")):
            yield invalid(f"{here}.value", taint.get("value", ""), ";".join(problems))
        yield from one_of(effect, f"{here}.effect", EFFECTS)
        if (key, effect) in seen:
            shown = {"Key": key, "Value": taint.get("value", ""), "Effect": effect, "TimeAdded": taint.get("timeAdded")}
            yield replace(duplicate(here, as_struct(shown)), detail="taints must be unique by key and effect pair")
        seen.add((key, effect))


def _configuration(source: Object, path: str, *, stored: bool) -> Problems:
    """The source of a kubelet's configuration, which is a config map."""
    config, here = source.get("configMap"), f"{path}.configMap"
    if config is None:
        yield invalid(path, as_struct({"ConfigMap": None}), "exactly one reference subfield must be non-nil")
        return
    for member in ("uid", "resourceVersion"):
        if stored and not config.get(member):
            yield required(f"{here}.{member}")
        elif not stored and config.get(member):
            yield forbidden(f"{here}.{member}", f"{member} must not be set in spec")
    yield from required_name(config.get("namespace"), f"{here}.namespace", names.dns_label_problems)
    yield from required_name(config.get("name"), f"{here}.name")
    yield from required_name(config.get("kubeletConfigKey"), f"{here}.kubeletConfigKey", names.config_key_problems)


def runtime_class_problems(runtime_class: Object) -> Problems:
    """A class of container runtimes."""
    yield from _overhead_and_scheduling(runtime_class)
    if not runtime_class.get("handler"):
        yield required("handler")
    else:
        yield from name(runtime_class["handler"], "handler", short_name_problems)


def _overhead_and_scheduling(runtime_class: Object) -> Problems:
    overhead, scheduling = runtime_class.get("overhead") or {}, runtime_class.get("scheduling") or {}
    yield from container_resources({"limits": overhead.get("podFixed") or {}}, "overhead", ())
    yield from labels(scheduling.get("nodeSelector"), "scheduling.nodeSelector")
    tolerated = scheduling.get("tolerations") or ()
    yield from tolerations(tolerated, "scheduling.tolerations")
    seen: set[tuple[str, ...]] = set()
    for index, toleration in enumerate(tolerated):
        key = tuple(toleration.get(member, "") for member in ("key", "operator", "value", "effect"))
        if key in seen:
            shown = dict(zip(("Key", "Operator", "Value", "Effect"), key, strict=True))
            shown["TolerationSeconds"] = toleration.get("tolerationSeconds")
            yield duplicate(f"scheduling.tolerations[{index}]", as_struct(shown))
        seen.add(key)


def changed_runtime_class_problems(runtime_class: Object, old: Object) -> Problems:
    """A changed class of container runtimes."""
    handler, before = runtime_class.get("handler", ""), old.get("handler", "")
    if handler:
        yield from label(handler, "handler")
    yield from _overhead_and_scheduling(runtime_class)
    yield from sealed(handler, before, "handler")
    if not handler:
        yield required("handler")
