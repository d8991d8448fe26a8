"""Containers of pods: regular, init and ephemeral ones.

Source: kubernetes `pkg/apis/core/validation` (`validateContainers`, `validateInitContainers`, `validateEphemeralContainers`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final, NamedTuple

from kcp_py.apimachinery.fielderrors import duplicate, forbidden, invalid, not_found, not_supported, required, too_many
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.environment import environment, environment_sources
from kcp_py.apis.upstream.validation.fields import Object, Problems, name, one_of, port_name_problems, port_number, required_name
from kcp_py.apis.upstream.validation.mounts import devices, mounts
from kcp_py.apis.upstream.validation.probes import lifecycle, probe
from kcp_py.apis.upstream.validation.resources import container_resources
from kcp_py.apis.upstream.validation.security import container_security

PROTOCOLS: Final = ("SCTP", "TCP", "UDP")
PULL_POLICIES: Final = ("Always", "IfNotPresent", "Never")
_MESSAGE_POLICIES: Final = ("File", "FallbackToLogsOnError")
_PROBES: Final = ("livenessProbe", "readinessProbe", "startupProbe")
_RESTARTS: Final = ("Always", "Never", "OnFailure")
_RESIZED: Final = ("cpu", "memory")
_RESIZE_POLICIES: Final = ("NotRequired", "RestartContainer")
_NOT_EPHEMERAL: Final = (
    "ports", "resources", "resizePolicy", "livenessProbe", "readinessProbe", "startupProbe", "lifecycle", "restartPolicy",
    "restartPolicyRules",
)  # fmt: skip
_OF_SIDECARS: Final = "may not be set for init containers without restartPolicy=Always"


class Surroundings(NamedTuple):
    """The parts of a pod that the rules of its containers depend on."""

    volumes: Mapping[str, Object]
    """The valid volumes by name."""
    claims: Collection[str]
    """The names of resource claims."""
    grace: int | None
    """The grace period in seconds."""
    restart_policy: str
    host_users: bool


def containers(values: Sequence[Object] | None, path: str, pod: Surroundings) -> Problems:
    """The regular containers of a pod."""
    if not values:
        yield required(path)
        return
    seen: set[str] = set()
    for index, container in enumerate(values):
        here, container_name = f"{path}[{index}]", container.get("name", "")
        yield from _common(container, here, pod)
        if container_name in seen:
            yield duplicate(f"{here}.name", container_name)
        seen.add(container_name)
        yield from _running(container, here, pod)
        yield from _restarts(container, here)
    yield from _host_ports(values, path)


def init_containers(values: Sequence[Object] | None, regular: Sequence[Object] | None, path: str, pod: Surroundings) -> Problems:
    """The init containers of a pod, with its sidecars."""
    seen = {container.get("name", "") for container in regular or ()}
    for index, container in enumerate(values or ()):
        here, container_name = f"{path}[{index}]", container.get("name", "")
        yield from _common(container, here, pod)
        yield from _restarts(container, here)
        if container_name in seen:
            yield duplicate(f"{here}.name", container_name)
        elif container_name:
            seen.add(container_name)
        yield from _host_ports([container], path)
        is_sidecar = container.get("restartPolicy") == "Always"
        if is_sidecar:
            yield from _running(container, here, pod)
        else:
            for member in ("lifecycle", *_PROBES):
                if member in container:
                    yield forbidden(f"{here}.{member}", _OF_SIDECARS)
            for position, policy in enumerate(container.get("resizePolicy") or ()):
                if policy.get("restartPolicy") == "RestartContainer":
                    detail = "must not be set to 'RestartContainer' for non-sidecar initContainers"
                    yield invalid(f"{here}.resizePolicy[{position}].restartPolicy", "RestartContainer", detail)


def ephemeral_containers(values: Sequence[Object] | None, others: Sequence[Object], path: str, pod: Surroundings) -> Problems:
    """The containers that were added for debugging. `others` are the regular and init containers."""
    known = {container.get("name", "") for container in others}
    seen = set(known)
    for index, container in enumerate(values or ()):
        here, container_name = f"{path}[{index}]", container.get("name", "")
        yield from _common(container, here, pod)
        yield from image_whitespace(container, here)
        if container_name in seen:
            yield duplicate(f"{here}.name", container_name)
        seen.add(container_name)
        target = container.get("targetContainerName", "")
        if target and target not in known:
            yield not_found(f"{here}.targetContainerName", target)
        for member in _NOT_EPHEMERAL:
            if container.get(member):
                yield forbidden(f"{here}.{member}", "cannot be set for an Ephemeral Container")
        for position, mount in enumerate(container.get("volumeMounts") or ()):
            for member in ("subPath", "subPathExpr"):
                if mount.get(member):
                    yield forbidden(f"{here}.volumeMounts[{position}].{member}", "cannot be set for an Ephemeral Container")


def image_whitespace(container: Object, path: str) -> Problems:
    """Images of pods, but not of templates, have no white space around them."""
    image = container.get("image", "")
    if image != image.strip():
        yield invalid(f"{path}.image", image, "must not have leading or trailing whitespace")


def _common(container: Object, path: str, pod: Surroundings) -> Problems:
    yield from required_name(container.get("name"), f"{path}.name", names.dns_label_problems)
    if not container.get("image"):
        yield required(f"{path}.image")
    yield from one_of(container.get("terminationMessagePolicy"), f"{path}.terminationMessagePolicy", _MESSAGE_POLICIES)
    if "ports" in container:
        yield from _ports(container["ports"], f"{path}.ports")
    if "env" in container:
        yield from environment(container["env"], f"{path}.env")
    if "envFrom" in container:
        yield from environment_sources(container["envFrom"], f"{path}.envFrom")
    if "volumeMounts" in container:
        yield from mounts(container, pod.volumes, f"{path}.volumeMounts")
    if "volumeDevices" in container:
        yield from devices(container, pod.volumes, f"{path}.volumeDevices")
    yield from one_of(container.get("imagePullPolicy"), f"{path}.imagePullPolicy", PULL_POLICIES)
    yield from container_resources(container.get("resources"), f"{path}.resources", pod.claims)
    if "resizePolicy" in container:
        yield from _resize_policies(container["resizePolicy"], f"{path}.resizePolicy", pod.restart_policy)
    yield from container_security(container.get("securityContext"), f"{path}.securityContext", host_users=pod.host_users)


def _running(container: Object, path: str, pod: Surroundings) -> Problems:
    """Hooks and probes."""
    if "lifecycle" in container:
        yield from lifecycle(container["lifecycle"], f"{path}.lifecycle", pod.grace)
    for kind in _PROBES:
        yield from probe(container.get(kind), kind, f"{path}.{kind}", pod.grace)


def _ports(values: Sequence[Object], path: str) -> Problems:
    seen: set[str] = set()
    for index, port in enumerate(values):
        here, port_name = f"{path}[{index}]", port.get("name", "")
        if port_name:
            if problems := list(name(port_name, f"{here}.name", port_name_problems)):
                yield from problems
            elif port_name in seen:
                yield duplicate(f"{here}.name", port_name)
            seen.add(port_name)
        if not port.get("containerPort"):
            yield required(f"{here}.containerPort")
        else:
            yield from port_number(port["containerPort"], f"{here}.containerPort")
        if port.get("hostPort"):
            yield from port_number(port["hostPort"], f"{here}.hostPort")
        yield from one_of(port.get("protocol"), f"{here}.protocol", PROTOCOLS)


def _host_ports(values: Sequence[Object], path: str) -> Problems:
    seen: set[str] = set()
    for index, container in enumerate(values):
        for position, port in enumerate(container.get("ports") or ()):
            if not port.get("hostPort"):
                continue
            key = f"{port.get('protocol', '')}/{port.get('hostIP', '')}/{port['hostPort']}"
            if key in seen:
                yield duplicate(f"{path}[{index}].ports[{position}].hostPort", key)
            seen.add(key)


def _resize_policies(values: Sequence[Object], path: str, restart_policy: str) -> Problems:
    seen: set[str] = set()
    for index, value in enumerate(values):
        resource, policy = value.get("resourceName", ""), value.get("restartPolicy", "")
        if resource in seen:
            yield duplicate(f"{path}[{index}]", resource)
        seen.add(resource)
        yield from one_of(resource, path, _RESIZED)
        yield from one_of(policy, path, _RESIZE_POLICIES)
        if restart_policy == "Never" and policy != "NotRequired":
            yield invalid(path, policy, "must be 'NotRequired' when pod `restartPolicy` is 'Never'")


def _restarts(container: Object, path: str) -> Problems:
    """The restart policy of a container of its own, with its rules."""
    policy, rules = container.get("restartPolicy"), container.get("restartPolicyRules") or ()
    if policy is None:
        if not rules:
            return
        yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy not in _RESTARTS:
        yield not_supported(f"{path}.restartPolicy", policy, _RESTARTS)
    if len(rules) > 20:
        yield too_many(f"{path}.restartPolicyRules", len(rules), 20)
    for index, rule in enumerate(rules):
        here, codes = f"{path}.restartPolicyRules[{index}]", rule.get("exitCodes")
        yield from one_of(rule.get("action"), f"{here}.action", ("Restart", "RestartAllContainers"), needed=False)
        if codes is None:
            yield required(f"{here}.exitCodes", "must be specified")
        else:
            yield from one_of(codes.get("operator"), f"{here}.exitCodes.operator", ("In", "NotIn"), needed=False)
            if len(codes.get("values") or ()) > 255:
                yield too_many(f"{here}.exitCodes.values", len(codes["values"]), 255)
