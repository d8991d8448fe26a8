"""Specifications of pods, in pods and in templates.

Source: kubernetes `pkg/apis/core/validation` (`ValidatePodSpec`, `ValidatePodTemplateSpec`).
"""

from __future__ import annotations

from typing import Final

from kcp_py.apimachinery.fielderrors import duplicate, forbidden, invalid, not_supported, required, too_long
from kcp_py.apimachinery.meta import names
from kcp_py.apis.upstream.validation.containers import Surroundings, containers, ephemeral_containers, init_containers
from kcp_py.apis.upstream.validation.fields import Object, Problems, address, as_struct, in_range, label, name, one_of, qualified
from kcp_py.apis.upstream.validation.resources import pod_resources, quantity
from kcp_py.apis.upstream.validation.scheduling import affinity, scheduling_gates, spread_constraints, tolerations
from kcp_py.apis.upstream.validation.security import pod_security
from kcp_py.apis.upstream.validation.selectors import annotation_keys, labels
from kcp_py.apis.upstream.validation.volumes import volumes
from kcp_py.apis.upstream.validation.windows import fields_of_system, host_processes
from kcp_py.golang.quoting import go_quote

RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_SYSTEMS: Final = ("linux", "windows")
_EMPTY: Final = {"terminationGracePeriodSeconds": 30, "restartPolicy": "Always", "dnsPolicy": "ClusterFirst"}
_MAX_NAMESERVERS: Final = 3
_MAX_SEARCHES: Final = 32
_MAX_SEARCH_TEXT: Final = 2048


def template_problems(template: Object, path: str) -> Problems:
    """A template of pods."""
    metadata, spec = template.get("metadata") or {}, template_spec(template)
    yield from labels(metadata.get("labels"), f"{path}.labels")
    yield from annotation_keys(metadata.get("annotations"), f"{path}.annotations")
    yield from spec_problems(spec, f"{path}.spec")
    if spec.get("ephemeralContainers"):
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def template_spec(template: Object) -> Object:
    """The specification of a template. Nothing at all stands for one with defaults and without containers."""
    spec = template.get("spec") or {}
    return spec if any(spec.values()) else _EMPTY


def spec_problems(spec: Object, path: str, *, pod: str | None = None) -> Problems:
    """A specification of pods.

    Args:
        spec: the specification.
        path: of the specification.
        pod: the name of the pod; None in a template.
    """
    grace = spec.get("terminationGracePeriodSeconds")
    if grace is None:
        yield required(f"{path}.terminationGracePeriodSeconds")
    valid: dict[str, Object] = {}
    if "volumes" in spec:
        yield from volumes(spec["volumes"], f"{path}.volumes", pod or "", valid)
    claims = {claim["name"] for claim in spec.get("resourceClaims") or () if claim.get("name")}
    yield from _claims(spec, f"{path}.resourceClaims")
    around = Surroundings(
        volumes=valid,
        claims=claims,
        grace=grace,
        restart_policy=spec.get("restartPolicy", ""),
        host_users=spec.get("hostUsers") is not False,
    )
    regular, initial = spec.get("containers") or (), spec.get("initContainers") or ()
    yield from containers(regular, f"{path}.containers", around)
    yield from init_containers(initial, regular, f"{path}.initContainers", around)
    if "ephemeralContainers" in spec:
        yield from ephemeral_containers(spec["ephemeralContainers"], [*regular, *initial], f"{path}.ephemeralContainers", around)
    yield from pod_resources(spec, f"{path}.resources", claims)
    if spec.get("hostNetwork"):
        yield from _host_network(spec, path, is_pod=pod is not None)
    yield from one_of(spec.get("restartPolicy"), f"{path}.restartPolicy", RESTART_POLICIES)
    yield from one_of(spec.get("dnsPolicy"), f"{path}.dnsPolicy", _DNS_POLICIES)
    yield from labels(spec.get("nodeSelector"), f"{path}.nodeSelector")
    yield from pod_security(spec.get("securityContext"), spec, f"{path}.securityContext")
    if spec.get("shareProcessNamespace") and spec.get("hostPID"):
        detail = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.shareProcessNamespace", True, detail)
    yield from affinity(spec.get("affinity"), f"{path}.affinity")
    yield from _dns(spec, f"{path}.dnsConfig")
    for index, gate in enumerate(spec.get("readinessGates") or ()):
        yield from qualified(gate.get("conditionType", ""), f"{path}.readinessGates[{index}].conditionType")
    yield from scheduling_gates(spec.get("schedulingGates"), f"{path}.schedulingGates")
    yield from spread_constraints(spec.get("topologySpreadConstraints"), f"{path}.topologySpreadConstraints")
    yield from host_processes(spec, path)
    yield from _host_users(spec, path)
    yield from _rest(spec, path)


def _rest(spec: Object, path: str) -> Problems:
    """Single fields, in upstream's order."""
    yield from _host_name(spec, f"{path}.hostnameOverride")
    account, deprecated = spec.get("serviceAccountName", ""), spec.get("serviceAccount", "")
    if account:
        yield from name(account, f"{path}.serviceAccountName")
    if deprecated != account:
        yield invalid(f"{path}.deprecatedServiceAccount", deprecated, f"must be the same as serviceAccountName: {go_quote(account)}")
    if node := spec.get("nodeName"):
        yield from name(node, f"{path}.nodeName")
    yield from in_range(spec.get("activeDeadlineSeconds"), f"{path}.activeDeadlineSeconds", 1)
    for member in ("hostname", "subdomain"):
        if value := spec.get(member):
            yield from label(value, f"{path}.{member}")
    yield from tolerations(spec.get("tolerations"), f"{path}.tolerations")
    for index, alias in enumerate(spec.get("hostAliases") or ()):
        yield from address(alias.get("ip", ""), f"{path}.hostAliases[{index}].ip")
        for position, host in enumerate(alias.get("hostnames") or ()):
            yield from name(host, f"{path}.hostAliases[{index}].hostnames[{position}]")
    if priority := spec.get("priorityClassName"):
        yield from name(priority, f"{path}.priorityClassName")
    if (runtime := spec.get("runtimeClassName")) is not None:
        yield from name(runtime, f"{path}.runtimeClassName")
    if "preemptionPolicy" in spec:
        yield from one_of(spec["preemptionPolicy"], f"{path}.preemptionPolicy", ("PreemptLowerPriority", "Never"))
    for resource, value in (spec.get("overhead") or {}).items():
        yield from quantity(resource, value, f"{path}.overhead.limits[{resource}]")
    if "os" in spec:
        yield from _system(spec, path)


def _claims(spec: Object, path: str) -> Problems:
    seen: set[str] = set()
    for index, claim in enumerate(spec.get("resourceClaims") or ()):
        here, claim_name = f"{path}[{index}]", claim.get("name", "")
        if not claim_name:
            yield required(f"{here}.name")
        elif claim_name in seen:
            yield duplicate(f"{here}.name", claim_name)
        else:
            yield from label(claim_name, f"{here}.name")
        seen.add(claim_name)
        given = [member for member in ("resourceClaimName", "resourceClaimTemplateName") if member in claim]
        if len(given) != 1:
            texts = (
                "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`",
                "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified",
            )
            shown = {
                "Name": claim_name,
                "ResourceClaimName": claim.get("resourceClaimName"),
                "ResourceClaimTemplateName": claim.get("resourceClaimTemplateName"),
            }
            yield invalid(here, as_struct(shown), texts[bool(given)])
        for member in given:
            yield from name(claim[member], f"{here}.{member}")


def _host_network(spec: Object, path: str, *, is_pod: bool) -> Problems:
    for index, container in enumerate(spec.get("containers") or ()):
        for position, port in enumerate(container.get("ports") or ()):
            on_host = port.get("hostPort", 0)
            if (is_pod or on_host) and on_host != port.get("containerPort", 0):
                detail = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(f"{path}.containers[{index}].ports[{position}].hostPort", on_host, detail)


def _dns(spec: Object, path: str) -> Problems:
    config = spec.get("dnsConfig")
    servers = (config or {}).get("nameservers") or ()
    if spec.get("dnsPolicy") == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
            return
        if not servers:
            yield required(f"{path}.nameservers", "must provide at least one DNS nameserver when `dnsPolicy` is None")
            return
    if config is None:
        return
    if len(servers) > _MAX_NAMESERVERS:
        yield invalid(f"{path}.nameservers", servers, f"must not have more than {_MAX_NAMESERVERS} nameservers")
    for index, server in enumerate(servers):
        yield from address(server, f"{path}.nameservers[{index}]")
    searches = config.get("searches") or ()
    if len(searches) > _MAX_SEARCHES:
        yield invalid(f"{path}.searches", searches, f"must not have more than {_MAX_SEARCHES} search paths")
    if len(" ".join(searches)) > _MAX_SEARCH_TEXT:
        detail = f"must not have more than {_MAX_SEARCH_TEXT} characters (including spaces) in the search list"
        yield invalid(f"{path}.searches", searches, detail)
    for index, search in enumerate(searches):
        if search != ".":
            yield from name(search.removesuffix("."), f"{path}.searches[{index}]", names.dns_subdomain_underscore_problems)
    for index, option in enumerate(config.get("options") or ()):
        if not option.get("name"):
            yield required(f"{path}.options[{index}]", "must not be empty")


def _host_users(spec: Object, path: str) -> Problems:
    if spec.get("hostUsers") is not False:
        return
    for member, shown in (("hostPID", "HostPID"), ("hostIPC", "HostIPC")):
        if spec.get(member):
            yield forbidden(f"{path}.{shown}", "when `hostUsers` is false")


def _host_name(spec: Object, path: str) -> Problems:
    value = spec.get("hostnameOverride")
    if value is None:
        return
    if spec.get("setHostnameAsFQDN"):
        yield forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.get("hostNetwork"):
        yield forbidden(path, "may not be specified when hostNetwork is true")
    if len(value) > 64:
        yield too_long(path, 64)
    yield from name(value, path)


def _system(spec: Object, path: str) -> Problems:
    system = (spec.get("os") or {}).get("name", "")
    if not system:
        yield required(f"{path}.os.name")
    elif system not in _SYSTEMS:
        yield not_supported(f"{path}.os", system, _SYSTEMS)
    else:
        yield from fields_of_system(spec, path, system)
