"""`LimitRanger`: the defaults and the bounds that LimitRanges of a namespace set for pods, containers and claims.

Source: kubernetes `plugin/pkg/admission/limitranger`.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

from kcp_py.admission.clusterobjects import ClusterObjects
from kcp_py.apimachinery import errors
from kcp_py.apimachinery.amounts import Amounts, add, raise_to
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apimachinery.quantity import Quantity, parse_quantity
from kcp_py.registry.admission import AdmissionPlugin, Attributes, Operation

LIMIT_RANGES: Final = GroupResource("", "limitranges")
ANNOTATION: Final = "kubernetes.io/limit-ranger"
_PODS: Final = GroupResource("", "pods")
_CLAIMS: Final = GroupResource("", "persistentvolumeclaims")
_MOST_MILLI: Final = (2**63 - 1) // 1000
_POD_LEVEL: Final = ("cpu", "memory")


class Limit(NamedTuple):
    """One item of a LimitRange."""

    type: str
    least: Amounts
    most: Amounts
    default: Amounts
    default_request: Amounts
    ratio: Amounts


def parse_limits(limit_range: Mapping[str, Any]) -> Sequence[Limit]:
    """The items of a stored LimitRange."""
    return tuple(
        Limit(
            limit.get("type", ""),
            *(_amounts(limit.get(member)) for member in ("min", "max", "default", "defaultRequest", "maxLimitRequestRatio")),
        )
        for limit in (limit_range.get("spec") or {}).get("limits") or ()
    )


class LimitRanger(AdmissionPlugin):
    """Fills requests and limits of the containers of new pods, and refuses pods and claims out of bounds."""

    name = "LimitRanger"
    conforming = True
    operations = frozenset[Operation]({"CREATE", "UPDATE"})
    resources = frozenset({_PODS, _CLAIMS})

    def __init__(self, limits: ClusterObjects[Sequence[Limit]]) -> None:
        """Make the plugin from the LimitRanges of clusters."""
        self._limits = limits

    async def mutate(self, attributes: Attributes) -> None:
        """Fill what containers leave out."""
        if attributes.resource.resource == "pods" and attributes.obj is not None:
            for limits in await self._of(attributes):
                set_defaults(attributes.obj, limits)

    async def validate(self, attributes: Attributes) -> None:
        """Compare with the bounds.

        Raises:
            StatusError: 403, with everything that one LimitRange forbids.
        """
        problems = pod_problems if attributes.resource.resource == "pods" else claim_problems
        for limits in await self._of(attributes):
            if found := list(dict.fromkeys(problems(attributes.obj or {}, limits))):
                text = found[0] if len(found) == 1 else f"[{', '.join(found)}]"
                raise errors.forbidden(attributes.resource.group_resource, attributes.name, text)

    async def _of(self, attributes: Attributes) -> Sequence[Sequence[Limit]]:
        """The LimitRanges that apply to a write."""
        old = attributes.old
        if (
            attributes.subresource
            or not attributes.resource.typed
            or (attributes.resource.resource == "pods" and attributes.operation == "UPDATE")
            or (old is not None and old["metadata"].get("deletionTimestamp"))
        ):
            return ()
        found = await self._limits.get(attributes.cluster)
        return [one.value for one in found if one.namespace == attributes.namespace]


def set_defaults(pod: dict[str, Any], limits: Sequence[Limit]) -> None:
    """Fill requests and limits of containers, in place, and note that in an annotation."""
    containers = [limit for limit in limits if limit.type == "Container"]
    defaults = {
        "requests": {name: amount for limit in containers for name, amount in limit.default_request.items()},
        "limits": {name: amount for limit in containers for name, amount in limit.default.items()},
    }
    notes = []
    for member, title in (("containers", "container"), ("initContainers", "init container")):
        for container in pod["spec"].get(member) or ():
            for field, values in defaults.items():
                own = container.setdefault("resources", {}).get(field) or {}
                if missing := sorted(values.keys() - own.keys()):
                    container["resources"][field] = {**own, **{name: str(values[name]) for name in missing}}
                    notes.append(f"{', '.join(missing)} {field[:-1]} for {title} {container.get('name', '')}")
    if notes:
        annotations = pod["metadata"].get("annotations") or {}
        pod["metadata"]["annotations"] = {**annotations, ANNOTATION: f"LimitRanger plugin set: {'; '.join(notes)}"}


def pod_problems(pod: Mapping[str, Any], limits: Iterable[Limit]) -> Iterator[str]:
    """What a pod violates, in upstream's words."""
    spec = pod.get("spec") or {}
    for limit in limits:
        if limit.type == "Container":
            for container in (*(spec.get("containers") or ()), *(spec.get("initContainers") or ())):
                resources = container.get("resources") or {}
                yield from _violations(limit, _amounts(resources.get("requests")), _amounts(resources.get("limits")))
        elif limit.type == "Pod":
            yield from _violations(limit, pod_total(spec, "requests"), pod_total(spec, "limits"))


def claim_problems(claim: Mapping[str, Any], limits: Iterable[Limit]) -> Iterator[str]:
    """What a PersistentVolumeClaim violates. Its own limits do not count."""
    requests = _amounts(((claim.get("spec") or {}).get("resources") or {}).get("requests"))
    for limit in limits:
        if limit.type == "PersistentVolumeClaim":
            for name, bound in limit.least.items():
                yield from _below(limit.type, name, bound, requests, {})
            for name, bound in limit.most.items():
                value = requests.get(name)
                if value is None:
                    yield f"maximum {name} usage per {limit.type} is {bound}.  No request is specified"
                elif _exceeds(value, bound):
                    yield f"maximum {name} usage per {limit.type} is {bound}, but request is {value}"


def pod_total(spec: Mapping[str, Any], member: str) -> Amounts:
    """The `requests` or `limits` of a whole pod, as the scheduler counts them. Overhead is not counted."""
    total: dict[str, Quantity] = {}
    for container in spec.get("containers") or ():
        add(total, _amounts((container.get("resources") or {}).get(member)))
    sidecars: dict[str, Quantity] = {}
    initial: dict[str, Quantity] = {}
    for container in spec.get("initContainers") or ():
        amounts = _amounts((container.get("resources") or {}).get(member))
        if container.get("restartPolicy") == "Always":
            add(total, amounts)
            add(sidecars, amounts)
            needed = sidecars
        else:
            needed = dict(amounts)
            add(needed, sidecars)
        raise_to(initial, needed)
    raise_to(total, initial)
    own = _amounts((spec.get("resources") or {}).get(member))
    return {**total, **{name: amount for name, amount in own.items() if name in _POD_LEVEL}}


def _violations(limit: Limit, requests: Amounts, limits: Amounts) -> Iterator[str]:
    for check, bounds in ((_below, limit.least), (_above, limit.most), (_ratio, limit.ratio)):
        for name, bound in bounds.items():
            yield from check(limit.type, name, bound, requests, limits)


def _below(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    text = f"minimum {name} usage per {kind} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if request is None:
        yield f"{text}.  No request is specified"
    elif _exceeds(bound, request):
        yield f"{text}, but request is {request}"
    elif limit is not None and _exceeds(bound, limit):
        yield f"{text}, but limit is {limit}"


def _above(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    text = f"maximum {name} usage per {kind} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if limit is None:
        yield f"{text}.  No limit is specified"
    elif _exceeds(limit, bound):
        yield f"{text}, but limit is {limit}"
    elif request is not None and _exceeds(request, bound):
        yield f"{text}, but request is {request}"


def _ratio(kind: str, name: str, bound: Quantity, requests: Amounts, limits: Amounts) -> Iterator[str]:
    text = f"{name} max limit to request ratio per {kind} is {bound}"
    request, limit = requests.get(name), limits.get(name)
    if request is None or not request.nano:
        yield f"{text}, but no request is specified or request is 0"
    elif limit is None or not limit.nano:
        yield f"{text}, but no limit is specified or limit is 0"
    else:
        given = limit.milli / request.milli
        if given * 1000 > bound.milli:
            yield f"{text}, but provided ratio is {given:f}"


def _exceeds(value: Quantity, bound: Quantity) -> bool:
    """Compare at the precision of upstream: thousandths, or whole numbers where those would not fit into 64 bits."""
    if max(value.value, bound.value) <= _MOST_MILLI:
        return value.milli > bound.milli
    return value.value > bound.value


def _amounts(values: Mapping[str, Any] | None) -> Amounts:
    return {name: parse_quantity(value) for name, value in sorted((values or {}).items())}
