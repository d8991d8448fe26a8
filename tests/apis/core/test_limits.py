"""LimitRanges and ResourceQuotas hold sensible amounts."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apis.core.limits import LimitRangeStrategy, ResourceQuotaStrategy

VALUES_RULE = "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector"


def texts(problems: Any) -> list[str]:
    return [str(problem) for problem in problems]


def limit_range(*limits: dict[str, Any]) -> dict[str, Any]:
    return {"kind": "LimitRange", "metadata": {"name": "a"}, "spec": {"limits": list(limits)}}


def quota(**spec: Any) -> dict[str, Any]:
    return {"kind": "ResourceQuota", "metadata": {"name": "a"}, "spec": spec}


@pytest.mark.parametrize(("limit", "wanted"), [
    ({"type": "Container", "max": {"cpu": "1"}, "min": {"cpu": "500m"}}, []),
    ({"type": "Odd"}, ['spec.limits[0].type: Invalid value: "Odd": must be a standard limit type or fully qualified']),
    ({"type": "Pod", "default": {"cpu": "1"}}, ["spec.limits[0].default: Forbidden: may not be specified when `type` is 'Pod'"]),
    ({"type": "Pod", "max": {"storage": "1"}}, [
        'spec.limits[0].max[storage]: Invalid value: "storage": must be a standard resource for containers',
    ]),
    ({"type": "PersistentVolumeClaim", "max": {"cpu": "1"}}, [
        "spec.limits[0].limits: Required value: either minimum or maximum storage value is required, but neither was provided",
    ]),
    ({"type": "Pod", "max": {"cpu": "1"}, "min": {"cpu": "2"}}, [
        'spec.limits[0].min[cpu]: Invalid value: "2": min value 2 is greater than max value 1',
    ]),
    ({"type": "Pod", "maxLimitRequestRatio": {"cpu": "0.5"}}, [
        'spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: "500m": ratio 500m is less than 1',
    ]),
], ids=["good", "type", "pod default", "resource", "claim", "order", "ratio"])  # fmt: skip
def test_limit_ranges(limit, wanted):
    """Each rule of limits answers in upstream's words."""
    obj = limit_range(limit)
    LimitRangeStrategy().prepare_for_create(obj)
    assert texts(LimitRangeStrategy().validate(obj)) == wanted


def test_same_type_twice():
    """There is one limit per type."""
    limit = {"type": "Pod", "max": {"cpu": "1"}}
    assert texts(LimitRangeStrategy().validate(limit_range(limit, limit))) == ['spec.limits[1].type: Duplicate value: "Pod"']


def test_defaults_of_containers():
    """The default limit follows from the maximum, the default request from the default limit and the minimum."""
    obj = limit_range({"type": "Container", "max": {"cpu": 2}, "min": {"memory": "1024Mi"}})
    LimitRangeStrategy().prepare_for_create(obj)
    assert obj["spec"]["limits"][0] == {
        "type": "Container",
        "max": {"cpu": "2"},
        "min": {"memory": "1Gi"},
        "default": {"cpu": "2"},
        "defaultRequest": {"cpu": "2", "memory": "1Gi"},
    }


@pytest.mark.parametrize(("spec", "wanted"), [
    ({"hard": {"pods": "10", "count/widgets.example.com": "5", "requests.storage": "1Gi"}}, []),
    ({"hard": {"odd": "1"}}, [
        'spec.hard[odd]: Invalid value: "odd": must be a standard resource type or fully qualified',
        'spec.hard[odd]: Invalid value: "odd": must be a standard resource for quota',
    ]),
    ({"hard": {"cpu": "-1"}}, ['spec.hard[cpu]: Invalid value: "-1": must be greater than or equal to 0']),
    ({"hard": {"pods": "500m"}}, ['spec.hard[pods]: Invalid value: "500m": must be an integer']),
    ({"hard": {"pods": "1"}, "scopes": ["Odd"]}, ['spec.scopes: Invalid value: ["Odd"]: unsupported scope']),
    ({"hard": {"secrets": "1"}, "scopes": ["BestEffort"]}, [
        'spec.scopes: Invalid value: ["BestEffort"]: unsupported scope applied to resource',
    ]),
    ({"hard": {"pods": "1"}, "scopes": ["BestEffort", "NotBestEffort"]}, [
        'spec.scopes: Invalid value: ["BestEffort","NotBestEffort"]: conflicting scopes',
    ]),
    ({"hard": {"pods": "1"}, "scopeSelector": {"matchExpressions": [{"scopeName": "PriorityClass", "operator": "In"}]}}, [
        f"spec.scopeSelector.matchExpressions.values: Required value: {VALUES_RULE}",
    ]),
], ids=["good", "name", "negative", "fraction", "scope", "misfit", "conflict", "selector"])  # fmt: skip
def test_quotas(spec, wanted):
    """Each rule of quotas answers in upstream's words."""
    obj = quota(**spec)
    ResourceQuotaStrategy().prepare_for_create(obj)
    assert texts(ResourceQuotaStrategy().validate(obj)) == wanted


def test_scopes_are_fixed():
    """A quota is for the same scopes for its whole life, in any order."""
    old = quota(hard={"pods": "1"}, scopes=["Terminating", "NotBestEffort"])
    assert ResourceQuotaStrategy().validate_update(quota(hard={"pods": "1"}, scopes=["NotBestEffort", "Terminating"]), old) == []
    assert texts(ResourceQuotaStrategy().validate_update(quota(hard={"pods": "1"}), old)) == [
        "spec.scopes: Invalid value: null: field is immutable"
    ]


@pytest.mark.parametrize("member", ["spec", "status"])
def test_not_a_quantity(member):
    """A value that is not a quantity is refused as the decoder of upstream does."""
    obj = quota(hard={"cpu": "x"}) if member == "spec" else {**quota(), "status": {"used": {"cpu": "x"}}}
    prepare = ResourceQuotaStrategy().prepare_for_update if member == "spec" else ResourceQuotaStrategy().prepare_for_status_update
    with pytest.raises(StatusError) as raised:
        prepare(obj, {})
    assert raised.value.code == 400
    assert raised.value.message.startswith('ResourceQuota in version "v1" cannot be handled as a ResourceQuota: quantities must match')
