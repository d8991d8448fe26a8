"""Rules of PriorityLevelConfigurations.

Source: kubernetes `pkg/apis/flowcontrol/validation`, and `pkg/apis/flowcontrol/v1` for the rules of its unions, which come last.
"""

from __future__ import annotations

import math
from typing import Final

from kcp_py.apimachinery.fielderrors import forbidden, invalid, not_supported, required
from kcp_py.apis.upstream.validation.fields import Object, Problems
from kcp_py.apis.upstream.validation.structs import Pointer, Struct, printed, values_of
from kcp_py.bootstrap.flowcontrol import MANDATORY, flow_control

_TYPES: Final = ("Exempt", "Limited")
_RESPONSES: Final = ("Queue", "Reject")
_MAX_QUEUES: Final = 10_000_000
_HASH_BITS: Final = 60

_QUEUING: Final = Struct({"Queues": ("queues", 0), "HandSize": ("handSize", 0), "QueueLengthLimit": ("queueLengthLimit", 0)})
_LIMITED: Final = Struct(
    {
        "NominalConcurrencyShares": ("nominalConcurrencyShares", 0),
        "LimitResponse": ("limitResponse", Struct({"Type": ("type", ""), "Queuing": ("queuing", Pointer(_QUEUING))})),
        "LendablePercent": ("lendablePercent", None),
        "BorrowingLimitPercent": ("borrowingLimitPercent", None),
    }
)
_EXEMPT: Final = Struct({"NominalConcurrencyShares": ("nominalConcurrencyShares", None), "LendablePercent": ("lendablePercent", None)})
_SPEC: Final = Struct({"Type": ("type", ""), "Limited": ("limited", Pointer(_LIMITED)), "Exempt": ("exempt", Pointer(_EXEMPT))})


def priority_level_problems(obj: Object) -> Problems:
    """Of a new PriorityLevelConfiguration."""
    title, spec = obj["metadata"].get("name", ""), obj["spec"]
    kind = spec.get("type", "")
    if (title == "exempt") != (kind == "Exempt"):
        yield invalid("spec.type", kind, "must be 'Exempt' if and only if `name` is 'exempt'")
    match kind:
        case "Exempt":
            yield from _exempt_problems(spec.get("exempt") or {})
        case "Limited":
            if (limited := spec.get("limited")) is not None:
                yield from _limited_problems(limited)
        case _ if kind:
            yield not_supported("spec.type", kind, _TYPES)
    if title in MANDATORY:
        yield from _fixed_problems(title, spec)
    yield from _union_problems(spec, kind)


def _fixed_problems(title: str, spec: Object) -> Problems:
    fixed = flow_control()["prioritylevelconfigurations"][title]
    if title == "exempt":
        if values_of({**spec, "exempt": None}, _SPEC) != values_of({**fixed, "exempt": None}, _SPEC):
            yield invalid("spec", printed(spec, _SPEC), f"spec of '{title}' except the 'spec.exempt' field must equal the fixed value")
    elif values_of(spec, _SPEC) != values_of(fixed, _SPEC):
        yield invalid("spec", printed(spec, _SPEC), f"spec of '{title}' must equal the fixed value")


def _union_problems(spec: Object, kind: str) -> Problems:
    """The fields that the types need, and those that they do not take."""
    limited = spec.get("limited")
    if spec.get("exempt") is not None and kind != "Exempt":
        yield forbidden("spec.exempt", "")
    if limited is None and kind == "Limited":
        yield required("spec.limited")
    elif limited is not None and kind != "Limited":
        yield forbidden("spec.limited", "")
    if not kind:
        yield required("spec.type")
    if limited is None:
        return
    response, path = limited.get("limitResponse") or {}, "spec.limited.limitResponse"
    queues = response.get("queuing") is not None
    if queues != (response.get("type") == "Queue"):
        yield forbidden(f"{path}.queuing", "") if queues else required(f"{path}.queuing")
    if not response.get("type"):
        yield required(f"{path}.type")


def _shares(fields: Object, path: str) -> Problems:
    if (shares := fields.get("nominalConcurrencyShares")) is not None and shares < 0:
        yield invalid(f"{path}.nominalConcurrencyShares", shares, "must be a non-negative integer")


def _lendable(fields: Object, path: str) -> Problems:
    if (percent := fields.get("lendablePercent")) is not None and not 0 <= percent <= 100:
        yield invalid(f"{path}.lendablePercent", percent, "must be between 0 and 100, inclusive")


def _exempt_problems(exempt: Object) -> Problems:
    yield from _shares(exempt, "spec.exempt")
    yield from _lendable(exempt, "spec.exempt")


def _limited_problems(limited: Object) -> Problems:
    path = "spec.limited"
    yield from _shares(limited, path)
    response = limited.get("limitResponse") or {}
    kind, queuing = response.get("type", ""), response.get("queuing")
    if kind == "Queue" and queuing is not None:
        yield from _queuing_problems(queuing, f"{path}.limitResponse.queuing")
    elif kind and kind not in _RESPONSES:
        yield not_supported(f"{path}.limitResponse.type", kind, _RESPONSES)
    yield from _lendable(limited, path)
    if (percent := limited.get("borrowingLimitPercent")) is not None and percent < 0:
        yield invalid(f"{path}.borrowingLimitPercent", percent, "if specified, must be a non-negative integer")


def _queuing_problems(queuing: Object, path: str) -> Problems:
    length, queues, hand = (queuing.get(member, 0) for member in ("queueLengthLimit", "queues", "handSize"))
    if length <= 0:
        yield invalid(f"{path}.queueLengthLimit", length, "must be positive")
    if queues <= 0:
        yield invalid(f"{path}.queues", queues, "must be positive")
    elif queues > _MAX_QUEUES:
        yield invalid(f"{path}.queues", queues, f"must not be greater than {_MAX_QUEUES}")
    path = f"{path}.handSize"
    if hand <= 0:
        yield invalid(path, hand, "must be positive")
    elif hand > queues:
        yield invalid(path, hand, f"should not be greater than queues ({queues})")
    elif math.ceil(math.log2(queues) * hand) > _HASH_BITS:
        bits = f"required entropy bits of deckSize {queues} and handSize {hand}"
        yield invalid(path, hand, f"{bits} should not be greater than {_HASH_BITS}")
