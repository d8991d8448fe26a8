"""Whether a write fits into a quota, and what it adds, as k8s.io/apiserver's plugin `ResourceQuota` decides."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.quota.quotas import Change, Quota, charged
from kcp_py.registry.quota.usage import CLAIMS, PODS, SERVICES
from kcp_py.storage.contract import KeyValue

METADATA = {"name": "x", "namespace": "n"}


def quota(hard: dict[str, str], used: dict[str, str] | None = None, *, annotations: dict[str, str] | None = None, **spec: Any) -> Quota:
    metadata = {"name": "q", "namespace": "n", "annotations": annotations or {}}
    obj = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": {"hard": hard, **spec}}
    return Quota(KeyValue("/q", orjson.dumps(obj | {"status": {"hard": hard, "used": used or dict.fromkeys(hard, "0")}}), 7, 5))


def pod(cpu: str = "", phase: str = "", **spec: Any) -> dict[str, Any]:
    requests = {"requests": {"cpu": cpu}} if cpu else {}
    return {"metadata": METADATA, "spec": {"containers": [{"name": "c", "resources": requests}], **spec}, "status": {"phase": phase}}


def after(one: Quota, before: dict[str, Any] | None, new: dict[str, Any] | None, resource: GroupResource = PODS, **more: Any) -> Any:
    found = charged(one, one.used, Change(resource, "n", "x", before, new, **more))
    return None if found is None else {name: str(amount) for name, amount in found.items()}


def refused(one: Quota, before: dict[str, Any] | None, new: dict[str, Any], resource: GroupResource = PODS) -> str:
    with pytest.raises(StatusError) as raised:
        after(one, before, new, resource)
    assert (raised.value.code, raised.value.reason) == (403, "Forbidden")
    return raised.value.message


def test_the_difference_is_charged():
    """Of a create all, of an update the change, of a deletion all back."""
    one = quota({"cpu": "2", "pods": "5"}, {"cpu": "1", "pods": "1"})
    assert after(one, None, pod("500m")) == {"cpu": "1500m", "pods": "2"}
    assert after(one, pod("1"), pod("2")) == {"cpu": "2", "pods": "1"}
    assert after(one, pod("1"), pod("250m")) == {"cpu": "250m", "pods": "1"}
    assert after(one, pod("1"), None) == {"cpu": "0", "pods": "0"}
    assert after(one, pod("1"), pod("1", phase="Succeeded")) == {"cpu": "0", "pods": "0"}
    assert after(one, pod("1"), pod("1", priorityClassName="p")) is None
    assert after(one, None, {"metadata": METADATA}, SERVICES) is None


def test_usage_is_never_negative():
    """Even where the status was wrong."""
    assert after(quota({"pods": "5"}), pod("1"), None) == {"pods": "0"}


def test_only_the_names_that_are_exceeded_are_told():
    """Sorted, in the form in which quantities are written."""
    one = quota({"pods": "1", "cpu": "1500m", "requests.cpu": "100"}, {"pods": "1", "cpu": "1", "requests.cpu": "1"})
    assert refused(one, None, pod("1")) == (
        'pods "x" is forbidden: exceeded quota: q, requested: cpu=1,pods=1, used: cpu=1,pods=1, limited: cpu=1500m,pods=1'
    )
    assert "requested: cpu=600m, used: cpu=1, limited: cpu=1500m" in refused(one, pod("400m"), pod("1"))


def test_texts_of_kube_apiserver():
    """Recorded from kube-apiserver 1.37.2, with this status."""
    hard = {"count/configmaps": "1", "pods": "5", "cpu": "1500m", "requests.cpu": "2", "limits.memory": "1Gi"}
    one = quota(hard, {"count/configmaps": "1", "pods": "0", "cpu": "1", "requests.cpu": "1", "limits.memory": "0"})
    assert refused(one, None, {}, GroupResource("", "configmaps")) == (
        'configmaps "x" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: '
        "count/configmaps=1"
    )
    silent, asking = {"name": "c"}, {"name": "a", "resources": {"requests": {"cpu": "1"}}}
    assert refused(one, None, {"metadata": METADATA, "spec": {"containers": [silent, asking]}}) == (
        'pods "x" is forbidden: failed quota: q: must specify cpu for: c; limits.memory for: a,c; requests.cpu for: c'
    )
    large = {"name": "c", "resources": {"requests": {"cpu": "1100m"}, "limits": {"memory": "2Gi", "cpu": "1100m"}}}
    assert refused(one, None, {"metadata": METADATA, "spec": {"containers": [large]}}) == (
        'pods "x" is forbidden: exceeded quota: q, requested: cpu=1100m,limits.memory=2Gi,requests.cpu=1100m, '
        "used: cpu=1,limits.memory=0,requests.cpu=1, limited: cpu=1500m,limits.memory=1Gi,requests.cpu=2"
    )


def test_what_exceeds_a_quota_may_shrink():
    """A limit below the usage refuses what adds to it, and nothing else."""
    one = quota({"cpu": "1"}, {"cpu": "5"})
    assert after(one, pod("3"), pod("2")) == {"cpu": "4"}
    assert "used: cpu=5" in refused(one, pod("2"), pod("3"))


def test_writes_of_the_status_are_charged_only():
    """A controller can tell what happened, whatever the limits."""
    assert after(quota({"pods": "0"}), pod(phase="Failed"), pod(), enforced=False) == {"pods": "1"}


def test_pods_have_to_state_what_is_limited():
    """In upstream's words; pods that exist already need not."""
    one = quota({"limits.memory": "1"})
    assert refused(one, None, pod("1")) == 'pods "x" is forbidden: failed quota: q: must specify limits.memory for: c'
    assert after(one, pod("1"), pod("2")) is None


def test_negative_usage_is_refused():
    """A pod that asks for less than nothing would make room for others."""
    assert refused(quota({"cpu": "1"}), None, pod("-1")).endswith("quota usage is negative for resource(s): cpu,requests.cpu")


def test_a_change_of_scope_moves_the_whole_object():
    """Into the quotas of the new scope, and out of those of the old one."""
    ending, lasting = (
        quota({"cpu": "9"}, {"cpu": "4"}, scopes=["Terminating"]),
        quota({"cpu": "9"}, {"cpu": "4"}, scopes=["NotTerminating"]),
    )
    before, new = pod("1"), pod("2", activeDeadlineSeconds=1)
    assert after(ending, before, new) == {"cpu": "6"}
    assert after(lasting, before, new) == {"cpu": "3"}


def test_scope_selectors():
    """All conditions have to hold."""
    expressions = [{"scopeName": "PriorityClass", "operator": "In", "values": ["high"]}]
    one = quota({"pods": "9"}, scopes=["NotBestEffort"], scopeSelector={"matchExpressions": expressions})
    assert after(one, None, pod("1", priorityClassName="high")) == {"pods": "1"}
    assert after(one, None, pod(priorityClassName="high")) is None
    assert after(one, None, pod("1", priorityClassName="low")) is None
    assert after(one, None, {"metadata": METADATA, "spec": {}}, CLAIMS) is None


def test_the_stored_form():
    """The limits of the specification, and the usage of what they limit."""
    one = quota({"pods": "5", "nvidia.com/gpu": "1"}, {"pods": "1"})
    assert one.filled
    stored = orjson.loads(one.with_usage({**one.used, "pods": one.hard["pods"]}))
    assert stored["status"] == {"hard": {"pods": "5", "nvidia.com/gpu": "1"}, "used": {"pods": "5"}}
    assert not quota({"pods": "5", "cpu": "1"}, {"pods": "1"}).filled
    assert Quota(KeyValue("/q", orjson.dumps({"metadata": METADATA, "spec": {}}), 1, 1)).filled


def test_where_a_quota_counts():
    """In its namespace; with kcp's annotation in all, and objects of the cluster itself."""
    assert [quota({}).concerns(namespace) for namespace in ("n", "m", "")] == [True, False, False]
    wide = quota({}, annotations={"experimental.quota.kcp.io/cluster-scoped": "true"})
    assert all(wide.concerns(namespace) for namespace in ("n", "m", ""))
