"""LimitRanges and ResourceQuotas: what their numbers may be. Applying them is admission's part.

Source: kubernetes `pkg/apis/core/validation` (`ValidateLimitRange`, `ValidateResourceQuota*`), `pkg/apis/core/helper`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from kcp_py.apimachinery.errors import DecodingError
from kcp_py.apimachinery.fielderrors import FieldError, duplicate, forbidden, invalid, required
from kcp_py.apimachinery.meta.names import qualified_name_problems
from kcp_py.apimachinery.quantity import Quantity, canonical, parse_quantity
from kcp_py.registry.strategy import Strategy

_CONTAINER_RESOURCES: Final = frozenset({"cpu", "memory", "ephemeral-storage"})
_INTEGER_RESOURCES: Final = frozenset(
    {
        "pods",
        "resourcequotas",
        "services",
        "replicationcontrollers",
        "secrets",
        "configmaps",
        "persistentvolumeclaims",
        "services.nodeports",
        "services.loadbalancers",
    }
)
_COMPUTE_RESOURCES: Final = frozenset({"cpu", "memory", "limits.cpu", "limits.memory", "requests.cpu", "requests.memory"})
_QUOTA_RESOURCES: Final = (
    _INTEGER_RESOURCES
    | _COMPUTE_RESOURCES
    | {"ephemeral-storage", "requests.ephemeral-storage", "limits.ephemeral-storage", "requests.storage"}
)
_STANDARD_RESOURCES: Final = _QUOTA_RESOURCES | {"storage"}
_LIMIT_TYPES: Final = frozenset({"Pod", "Container", "PersistentVolumeClaim"})
_HUGE_PAGES: Final = ("hugepages-", "requests.hugepages-")
_EXISTS_ONLY_SCOPES: Final = frozenset({"Terminating", "NotTerminating", "BestEffort", "NotBestEffort"})
_COMPUTE_SCOPES: Final = frozenset({"Terminating", "NotTerminating", "NotBestEffort", "PriorityClass"})
_SCOPES: Final = _COMPUTE_SCOPES | {"BestEffort", "CrossNamespacePodAffinity", "VolumeAttributesClass"}
_CONFLICTING_SCOPES: Final = ({"BestEffort", "NotBestEffort"}, {"Terminating", "NotTerminating"})
_LIMIT_MEMBERS: Final = ("max", "min", "default", "defaultRequest", "maxLimitRequestRatio")


class LimitRangeStrategy(Strategy):
    """Bounds and defaults for the resources of pods, containers and claims."""

    has_generation = False
    allow_create_on_update = True
    qualifies_finalizers = True

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        for limit in (obj.get("spec") or {}).get("limits") or ():
            for member in _LIMIT_MEMBERS:
                canonicalize_quantities(obj, limit, member)
            if limit.get("type") == "Container":
                _default_limits(limit)

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        self.prepare_for_create(obj)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        problems: list[FieldError] = []
        seen = set()
        for index, limit in enumerate((obj.get("spec") or {}).get("limits") or ()):
            path = f"spec.limits[{index}]"
            kind = limit.get("type", "")
            problems += _limit_type_problems(kind, f"{path}.type")
            if kind in seen:
                problems.append(duplicate(f"{path}.type", kind))
            seen.add(kind)
            problems += _limit_problems(limit, kind, path)
        return problems


class ResourceQuotaStrategy(Strategy):
    """How much a namespace may hold."""

    has_generation = False
    return_deleted_object = True

    def prepare_for_create(self, obj: dict[str, Any]) -> None:
        obj["status"] = {}
        canonicalize_quantities(obj, obj.get("spec") or {}, "hard")

    def prepare_for_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        canonicalize_quantities(obj, obj.get("spec") or {}, "hard")

    def prepare_for_status_update(self, obj: dict[str, Any], old: dict[str, Any]) -> None:
        del old
        for member in ("hard", "used"):
            canonicalize_quantities(obj, obj.get("status") or {}, member)

    def validate(self, obj: dict[str, Any]) -> list[FieldError]:
        spec, status = obj.get("spec") or {}, obj.get("status") or {}
        problems = _amount_problems(spec.get("hard") or {}, "spec.hard")
        problems += _scope_problems(spec)
        problems += _scope_selector_problems(spec)
        for member in ("hard", "used"):
            problems += _amount_problems(status.get(member) or {}, f"status.{member}")
        return problems

    def validate_update(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        problems = self.validate(obj)
        scopes = (obj.get("spec") or {}).get("scopes") or None
        if set(scopes or ()) != set((old.get("spec") or {}).get("scopes") or ()):
            problems.append(invalid("spec.scopes", scopes, "field is immutable"))
        return problems


def canonicalize_quantities(obj: Mapping[str, Any], holder: dict[str, Any], member: str) -> None:
    """Bring the values of a resource list to their canonical form.

    Raises:
        StatusError: 400 for a value that is not a quantity, as upstream's decoder answers.
    """
    amounts = holder.get(member)
    if not isinstance(amounts, dict) or not amounts:
        return
    try:
        holder[member] = {
            name: value if isinstance(value, bool | dict | list) or value is None else canonical(value) for name, value in amounts.items()
        }
    except ValueError as error:
        raise DecodingError(obj["kind"], "v1", str(error)) from None


def _default_limits(limit: dict[str, Any]) -> None:
    """For containers: the default limit is the maximum, the default request the default limit or else the minimum (defaults.go)."""
    default = dict(limit.get("default") or {})
    for name, value in (limit.get("max") or {}).items():
        default.setdefault(name, value)
    request = dict(limit.get("defaultRequest") or {})
    for source in (default, limit.get("min") or {}):
        for name, value in source.items():
            request.setdefault(name, value)
    if default:
        limit["default"] = default
    if request:
        limit["defaultRequest"] = request


def _limit_type_problems(kind: str, path: str) -> list[FieldError]:
    problems = [invalid(path, kind, text) for text in qualified_name_problems(kind)]
    if not problems and "/" not in kind and kind not in _LIMIT_TYPES:
        problems.append(invalid(path, kind, "must be a standard limit type or fully qualified"))
    return problems


def _limit_problems(limit: dict[str, Any], kind: str, path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    members: tuple[str, ...] = _LIMIT_MEMBERS
    if kind == "Pod":
        members = ("max", "min", "maxLimitRequestRatio")
        problems += [
            forbidden(f"{path}.{member}", "may not be specified when `type` is 'Pod'")
            for member in ("default", "defaultRequest")
            if limit.get(member)
        ]
    amounts: dict[str, dict[str, Quantity]] = {}
    for member in members:
        values = amounts[member] = _quantities(limit.get(member))
        for name in values:
            problems += _limited_resource_problems(kind, name, f"{path}.{member}[{name}]")
    if kind == "PersistentVolumeClaim" and "storage" not in amounts["min"] and "storage" not in amounts["max"]:
        problems.append(required(f"{path}.limits", "either minimum or maximum storage value is required, but neither was provided"))
    for name in sorted({name for values in amounts.values() for name in values}):
        problems += _bounds_problems({member: values[name] for member, values in amounts.items() if name in values}, name, path)
    return problems


def _bounds_problems(given: Mapping[str, Quantity], name: str, path: str) -> list[FieldError]:
    """The relations between the bounds and defaults of one resource."""
    problems: list[FieldError] = []

    def greater(left: str, right: str, *, member: str, value: str, text: str) -> None:
        if left in given and right in given and given[left].nano > given[right].nano:
            detail = text.format(given[left], given[right])
            problems.append(invalid(f"{path}.{member}[{name}]", str(given[value]), detail))

    request = "defaultRequest"
    greater("min", "max", member="min", value="min", text="min value {} is greater than max value {}")
    greater("min", request, member=request, value=request, text="min value {} is greater than default request value {}")
    greater(request, "max", member=request, value=request, text="default request value {} is greater than max value {}")
    greater(request, "default", member=request, value=request, text="default request value {} is greater than default limit value {}")
    greater("min", "default", member="default", value="min", text="min value {} is greater than default value {}")
    greater("default", "max", member="default", value="max", text="default value {} is greater than max value {}")
    if (ratio := given.get("maxLimitRequestRatio")) is not None:
        here = f"{path}.maxLimitRequestRatio[{name}]"
        if ratio.nano < 10**9:
            problems.append(invalid(here, str(ratio), f"ratio {ratio} is less than 1"))
        if "min" in given and "max" in given and given["min"].nano != 0:
            limit = given["max"].nano / given["min"].nano
            if ratio.nano / 10**9 > limit:
                problems.append(invalid(here, str(ratio), f"ratio {ratio} is greater than max/min = {limit:f}"))
    if not may_overcommit(name) and "default" in given and request in given and given["default"].nano != given[request].nano:
        detail = f"default value {given['default']} must equal to defaultRequest value {given[request]} in {name}"
        problems.append(invalid(f"{path}.{request}[{name}]", str(given[request]), detail))
    return problems


def _amount_problems(amounts: Mapping[str, Any], path: str) -> list[FieldError]:
    problems: list[FieldError] = []
    for name, quantity in _quantities(amounts).items():
        here = f"{path}[{name}]"
        problems += resource_name_problems(name, here)
        if "/" not in name and name not in _QUOTA_RESOURCES and not name.startswith(_HUGE_PAGES):
            problems.append(invalid(here, name, "must be a standard resource for quota"))
        if quantity.nano < 0:
            problems.append(invalid(here, str(quantity), "must be greater than or equal to 0"))
        if (name in _INTEGER_RESOURCES or is_extended_resource(name)) and quantity.milli % 1000:
            problems.append(invalid(here, str(quantity), "must be an integer"))
    return problems


def _scope_problems(spec: Mapping[str, Any]) -> list[FieldError]:
    scopes = spec.get("scopes") or []
    problems: list[FieldError] = []
    for scope in scopes:
        if scope not in _SCOPES:
            problems.append(invalid("spec.scopes", scopes, "unsupported scope"))
        problems += [
            invalid("spec.scopes", scopes, "unsupported scope applied to resource")
            for name in sorted(spec.get("hard") or {})
            if not _scope_fits(scope, name)
        ]
    return problems + _conflict_problems(scopes, "spec.scopes", scopes)


def _scope_selector_problems(spec: Mapping[str, Any]) -> list[FieldError]:
    selector = spec.get("scopeSelector")
    if not selector:
        return []
    path = "spec.scopeSelector.matchExpressions"
    problems: list[FieldError] = []
    scopes = []
    for expression in selector.get("matchExpressions") or ():
        scope, operator = expression.get("scopeName", ""), expression.get("operator", "")
        values = expression.get("values") or []
        scopes.append(scope)
        if scope not in _SCOPES:
            problems.append(invalid(f"{path}.scopeName", scope, "unsupported scope"))
        problems += [
            invalid(path, selector, "unsupported scope applied to resource")
            for name in sorted(spec.get("hard") or {})
            if not _scope_fits(scope, name)
        ]
        if scope in _EXISTS_ONLY_SCOPES | {"CrossNamespacePodAffinity"} and operator != "Exists":
            problems.append(invalid(f"{path}.operator", operator, _EXISTS_ONLY))
        problems += _operator_problems(operator, values, path)
    return problems + _conflict_problems(scopes, path, spec.get("scopes") or [])


_EXISTS_ONLY: Final = (
    "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, "
    "ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity"
)


def _operator_problems(operator: str, values: list[str], path: str) -> list[FieldError]:
    match operator:
        case "In" | "NotIn":
            if not values:
                return [required(f"{path}.values", "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")]
        case "Exists" | "DoesNotExist":
            if values:
                text = "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector"
                return [invalid(f"{path}.values", values, text)]
        case _:
            return [invalid(f"{path}.operator", operator, "not a valid selector operator")]
    return []


def _conflict_problems(scopes: Iterable[str], path: str, value: Any) -> list[FieldError]:
    given = set(scopes)
    return [invalid(path, value, "conflicting scopes") for pair in _CONFLICTING_SCOPES if pair <= given]


def _scope_fits(scope: str, name: str) -> bool:
    """Whether a scope says something about a resource. Names that are not the quota system's own are not judged."""
    if name not in _QUOTA_RESOURCES and not name.startswith(_HUGE_PAGES):
        return True
    if scope in _COMPUTE_SCOPES or scope == "CrossNamespacePodAffinity":
        return name == "pods" or name in _COMPUTE_RESOURCES
    if scope == "VolumeAttributesClass":
        return name in {"persistentvolumeclaims", "requests.storage"}
    return name == "pods" if scope == "BestEffort" else True


def _limited_resource_problems(kind: str, name: str, path: str) -> list[FieldError]:
    return container_resource_problems(name, path) if kind in {"Pod", "Container"} else resource_name_problems(name, path)


def container_resource_problems(name: str, path: str) -> list[FieldError]:
    """The problems of the name of a resource of containers."""
    problems = resource_name_problems(name, path)
    if "/" not in name:
        if name not in _CONTAINER_RESOURCES and not is_huge_page_resource(name):
            problems.append(invalid(path, name, "must be a standard resource for containers"))
    elif not _is_native(name) and not is_extended_resource(name):
        problems.append(invalid(path, name, "doesn't follow extended resource name standard"))
    return problems


def resource_name_problems(name: str, path: str) -> list[FieldError]:
    """The problems of the name of any resource."""
    problems = [invalid(path, name, text) for text in qualified_name_problems(name)]
    if not problems and "/" not in name and name not in _STANDARD_RESOURCES and not name.startswith(_HUGE_PAGES):
        problems.append(invalid(path, name, "must be a standard resource type or fully qualified"))
    return problems


def _is_native(name: str) -> bool:
    return "/" not in name or "kubernetes.io/" in name


def is_huge_page_resource(name: str) -> bool:
    """Whether a resource is pages of one size."""
    return name.startswith("hugepages-")


def is_extended_resource(name: str) -> bool:
    """Whether a resource is one that nodes of some clusters have, such as `example.com/gpu`."""
    return not _is_native(name) and not name.startswith("requests.") and not qualified_name_problems(f"requests.{name}")


def may_overcommit(name: str) -> bool:
    """Whether the limit of a resource may be greater than the request."""
    return _is_native(name) and not is_huge_page_resource(name)


def _quantities(amounts: Any) -> dict[str, Quantity]:
    """The readable quantities of a resource list; the others were refused when the object was prepared."""
    return {
        name: parse_quantity(value)
        for name, value in (amounts or {}).items()
        if isinstance(value, str | int | float) and not isinstance(value, bool)
    }
