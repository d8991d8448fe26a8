"""Limited resources need a quota that covers them; the answers are those of kube-apiserver 1.37.2 with the same configuration."""

from __future__ import annotations

from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.registry.quota.limited import LimitedResource, check_covered
from kcp_py.registry.quota.quotas import Change, Quota
from kcp_py.registry.quota.usage import CLAIMS, PODS, Scope
from kcp_py.storage.contract import KeyValue

SECRETS, DEPLOYMENTS = GroupResource("", "secrets"), GroupResource("apps", "deployments")
LIMITED = (
    LimitedResource(CLAIMS, (".storageclass.storage.k8s.io/requests.storage",)),
    LimitedResource(PODS, ("cpu", "pods"), (Scope("PriorityClass", "In", ("cluster-services",)), Scope("BestEffort"))),
    LimitedResource(SECRETS, ("secrets",)),
    LimitedResource(DEPLOYMENTS, ("",)),
)
PRIORITY = Scope("PriorityClass")


def quota(*scopes: Scope, **hard: str) -> Quota:
    """A quota, with underscores for slashes."""
    selector = {"matchExpressions": [{"scopeName": one.name, "operator": one.operator, "values": list(one.values)} for one in scopes]}
    spec = {"hard": {name.replace("_", "/"): amount for name, amount in hard.items()}, "scopeSelector": selector}
    return Quota(KeyValue("k", orjson.dumps({"metadata": {"name": "q", "namespace": "default"}, "spec": spec}), 1, 1))


def pod(priority: str = "", **requests: str) -> dict[str, Any]:
    named = {"priorityClassName": priority} if priority else {}
    return {"metadata": {"name": "p"}, "spec": {**named, "containers": [{"name": "a", "resources": {"requests": requests}}]}}


def claim(name: str) -> dict[str, Any]:
    return {"metadata": {"name": "p"}, "spec": {"storageClassName": name, "resources": {"requests": {"storage": "1Gi"}}}}


ENOUGH = quota(pods="5", count_pods="9")


def answer(resource: GroupResource, after: dict[str, Any], *quotas: Quota, before: dict[str, Any] | None = None) -> str:
    """The code and the text of the refusal; empty for none."""
    try:
        check_covered(LIMITED, quotas, Change(resource, "default", "p", before, after))
    except StatusError as error:
        return f"{error.code} {error.message}"
    return ""


@pytest.mark.parametrize(
    ("resource", "after", "quotas", "refusal"),
    [
        (SECRETS, {}, [], '403 secrets "p" is forbidden: insufficient quota to consume: count/secrets,secrets'),
        (SECRETS, {}, [quota(secrets="1")], '403 secrets "p" is forbidden: insufficient quota to consume: count/secrets'),
        (SECRETS, {}, [quota(secrets="1"), quota(count_secrets="0")], ""),
        (DEPLOYMENTS, {}, [], '403 deployments.apps "p" is forbidden: insufficient quota to consume: count/deployments.apps'),
        (GroupResource("", "configmaps"), {}, [], ""),
        (PODS, pod(), [], '403 pods "p" is forbidden: insufficient quota to consume: count/pods,pods'),
        (PODS, pod(cpu="1"), [], '403 pods "p" is forbidden: insufficient quota to consume: count/pods,cpu,pods,requests.cpu'),
        (
            PODS,
            pod(cpu="1"),
            [quota(pods="5", cpu="4")],
            '403 pods "p" is forbidden: insufficient quota to consume: count/pods,requests.cpu',
        ),
        (PODS, pod(memory="1"), [ENOUGH], ""),
        (PODS, pod(), [ENOUGH], "500 insufficient quota to match these scopes: [{BestEffort Exists []}]"),
        (
            PODS,
            pod("cluster-services", memory="1"),
            [ENOUGH],
            "500 insufficient quota to match these scopes: [{PriorityClass In [cluster-services]}]",
        ),
        (
            PODS,
            pod("cluster-services"),
            [ENOUGH],
            "500 insufficient quota to match these scopes: [{PriorityClass In [cluster-services]} {BestEffort Exists []}]",
        ),
        (PODS, pod("cluster-services", memory="1"), [ENOUGH, quota(PRIORITY, pods="3")], ""),
        (PODS, pod("other", memory="1"), [ENOUGH], ""),
        (CLAIMS, claim(""), [], ""),
        (
            CLAIMS,
            claim("gold"),
            [quota(**{"silver.storageclass.storage.k8s.io_requests.storage": "1Gi"})],
            '403 persistentvolumeclaims "p" is forbidden: insufficient quota to consume: gold.storageclass.storage.k8s.io/requests.storage',
        ),
        (CLAIMS, claim("gold"), [quota(**{"gold.storageclass.storage.k8s.io_requests.storage": "1Ki"})], ""),
    ],
)
def test_what_no_quota_covers_is_refused(resource: GroupResource, after: dict[str, Any], quotas: list[Quota], refusal: str) -> None:
    """Amounts with 403, scopes with 500. A quota covers whether or not it has room."""
    assert answer(resource, after, *quotas) == refusal


def test_an_object_that_uses_no_more_needs_no_quota() -> None:
    """Because it may be older than the configuration. One that grows needs one."""
    assert answer(CLAIMS, claim("gold"), before=claim("gold")) == ""
    larger = claim("gold")
    larger["spec"]["resources"]["requests"]["storage"] = "2Gi"
    assert answer(CLAIMS, larger, before=claim("gold")).startswith("403 ")
    assert answer(CLAIMS, claim("gold"), before=larger) == ""


def test_deletions_need_no_quota() -> None:
    """Whatever is configured."""
    check_covered(LIMITED, (), Change(SECRETS, "default", "p", {}, None))
