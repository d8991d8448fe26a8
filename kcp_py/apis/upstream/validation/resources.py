"""Requests and limits of containers and pods.

Source: kubernetes `pkg/apis/core/validation` (`validateResourceRequirements`), `pkg/apis/core/helper`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from kcp_py.apimachinery.fielderrors import FieldError, duplicate, forbidden, invalid, not_supported, required
from kcp_py.apis.core.limits import (
    container_resource_problems,
    is_extended_resource,
    is_huge_page_resource,
    may_overcommit,
    resource_name_problems,
)
from kcp_py.apis.upstream.validation.fields import NOT_NEGATIVE, Object, Problems, amount, label

_INTEGER_RESOURCES: Final = frozenset({
    "pods", "resourcequotas", "services", "replicationcontrollers", "secrets", "configmaps", "persistentvolumeclaims",
    "services.nodeports", "services.loadbalancers",
})  # fmt: skip
_POD_RESOURCES: Final = ("cpu", "memory")


def container_resources(value: Object | None, path: str, claims: Collection[str]) -> Problems:
    """`resources` of a container. `claims` are the names of the claims of the pod."""
    if value:
        yield from _requirements(value, path, claims, container_resource_problems)


def pod_resources(spec: Object, path: str, claims: Collection[str]) -> Problems:
    """`resources` of a pod as a whole."""
    value = spec.get("resources")
    if value is None:
        return
    if (spec.get("os") or {}).get("name") == "windows":
        yield forbidden(path, "may not be set for a windows pod")
        return
    if "claims" in value:
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from _requirements(value, path, claims, _pod_resource_problems)


def _pod_resource_problems(resource: str, path: str) -> list[FieldError]:
    problems = resource_name_problems(resource, path)
    if not problems and resource not in _POD_RESOURCES and not is_huge_page_resource(resource):
        return [not_supported(path, resource, _POD_RESOURCES)]
    return problems


def _requirements(value: Object, path: str, claims: Collection[str], rule: Callable[[str, str], list[FieldError]]) -> Problems:
    limits, requests = value.get("limits") or {}, value.get("requests") or {}
    for resource, text in limits.items():
        yield from rule(resource, f"{path}.limits[{resource}]")
        yield from quantity(resource, text, f"{path}.limits[{resource}]")
        yield from _huge_pages(resource, text, f"{path}.limits[{resource}]")
    for resource, text in requests.items():
        yield from rule(resource, f"{path}.requests[{resource}]")
        yield from quantity(resource, text, f"{path}.requests[{resource}]")
        if resource in limits:
            yield from _compared(resource, text, limits[resource], f"{path}.requests")
        elif not may_overcommit(resource):
            yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
        yield from _huge_pages(resource, text, f"{path}.requests[{resource}]")
    given = limits.keys() | requests.keys()
    if any(map(is_huge_page_resource, given)) and not given & {"cpu", "memory"}:
        yield forbidden(path, "HugePages require cpu or memory")
    yield from _claims(value, f"{path}.claims", claims)


def _compared(resource: str, request: str, limit: str, path: str) -> Problems:
    wanted, most = amount(request), amount(limit)
    if wanted.nano != most.nano and not may_overcommit(resource):
        yield invalid(path, str(wanted), f"must be equal to {resource} limit of {most}")
    elif wanted.nano > most.nano:
        yield invalid(path, str(wanted), f"must be less than or equal to {resource} limit of {most}")


def quantity(resource: str, text: str, path: str) -> Problems:
    """The amount of a resource."""
    value = amount(text)
    if value.nano < 0:
        yield invalid(path, str(value), NOT_NEGATIVE)
    if (resource in _INTEGER_RESOURCES or is_extended_resource(resource)) and value.milli % 1000:
        yield invalid(path, str(value), "must be an integer")


def _huge_pages(resource: str, text: str, path: str) -> Problems:
    if not is_huge_page_resource(resource):
        return
    value = amount(text)
    try:
        unit = amount(resource.removeprefix("hugepages-")).nano
    except ValueError:
        return
    if unit <= 0 or value.nano <= 0 or value.nano % unit:
        yield invalid(path, str(value), f"{value} is not positive integer multiple of {resource}")


def _claims(value: Object, path: str, known: Collection[str]) -> Problems:
    seen: set[str] = set()
    requested: set[str] = set()
    for index, claim in enumerate(value.get("claims") or ()):
        here, wanted, request = f"{path}[{index}]", claim.get("name", ""), claim.get("request", "")
        if not wanted:
            yield required(here)
            continue
        if wanted in seen:
            yield duplicate(here, wanted)
        else:
            key = f"{wanted}/{request}" if request else wanted
            if request:
                yield from label(request, f"{here}.request")
            if key in seen:
                yield duplicate(here, key)
            elif not request and wanted in requested:
                yield duplicate(here, wanted)
            seen.add(key)
            if request:
                requested.add(wanted)
        if wanted not in known:
            detail = "must be one of the names in pod.spec.resourceClaims"
            detail += f": {', '.join(sorted(known))}" if known else " which is empty"
            yield FieldError(reason="FieldValueNotFound", field=here, value=wanted, detail=detail)
