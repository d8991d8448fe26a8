"""`ResourceQuota` with a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson
import pytest

from kcp_py.admission.configuration import Document
from kcp_py.admission.limitedresources import LimitedResourceQuota, parse_limited_resources
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.logicalcluster import Name
from kcp_py.options import OptionsError
from kcp_py.registry.admission import AdmissionChain
from kcp_py.registry.quota.limited import LimitedResource
from kcp_py.registry.quota.usage import PODS, Scope
from tests.admission.serving import serving
from tests.client.registry import CONFIG_MAPS, config_map
from tests.registry.quota.conftest import QUOTAS, TEAM, Charged, charged

__all__ = ["charged"]

HEAD = {"apiVersion": "apiserver.config.k8s.io/v1", "kind": "ResourceQuotaConfiguration"}
LIMITED = (LimitedResource(CONFIG_MAPS.group_resource, ("count/",)), LimitedResource(GroupResource("", "events"), ("",)))


def limited(charged: Charged) -> LimitedResourceQuota:
    """The plugin, put at the end of the chain."""
    access = charged.registry.access
    plugin = LimitedResourceQuota(charged.ledger, LIMITED)
    access.admission = AdmissionChain((*access.admission.plugins, plugin))
    return plugin


@pytest.mark.anyio
async def test_a_limited_resource_needs_a_quota(charged: Charged) -> None:
    """One of its namespace or of the whole cluster, from the answer to the creation of the quota until its deletion."""
    limited(charged)
    no_quota = "insufficient quota to consume: count/configmaps"
    for dry_run in (True, False):
        with pytest.raises(StatusError, match=no_quota):
            await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"), dry_run=dry_run)
    await charged.quota(hard={"configmaps": "5"})
    with pytest.raises(StatusError, match=no_quota):
        await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    await charged.quota("more", hard={"count/configmaps": "1"})
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("a"))
    with pytest.raises(StatusError, match="exceeded quota: more"):
        await charged.client.create(TEAM, CONFIG_MAPS, config_map("b"))
    await charged.client.delete(TEAM, QUOTAS, "default", "more")
    await charged.client.update(TEAM, CONFIG_MAPS, config_map("a", labels={"a": "b"}))
    with pytest.raises(StatusError, match=no_quota):
        await charged.client.create(TEAM, CONFIG_MAPS, config_map("b"))
    wide = {"experimental.quota.kcp.io/cluster-scoped": "true"}
    await charged.quota("wide", "kube-system", hard={"count/configmaps": "9"}, annotations=wide)
    await charged.client.create(TEAM, CONFIG_MAPS, config_map("b"))


@pytest.mark.anyio
async def test_other_resources_cost_nothing(charged: Charged) -> None:
    """The plugin is not asked about them where the cluster has no quotas, and never about events."""
    plugin = limited(charged)
    assert not plugin.ignores(Name("other"), CONFIG_MAPS.group_resource)
    assert plugin.ignores(Name("other"), GroupResource("", "secrets")) is not charged.shared
    assert plugin.ignores(Name("other"), GroupResource("", "events"))


@pytest.mark.parametrize(
    ("version", "kind"),
    [
        ("apiserver.config.k8s.io/v1", "ResourceQuotaConfiguration"),
        ("resourcequota.admission.k8s.io/v1beta1", "Configuration"),
        ("resourcequota.admission.k8s.io/v1alpha1", "Configuration"),
    ],
)
def test_a_configuration_is_read(version: str, kind: str) -> None:
    """In each version that kube-apiserver knows."""
    scope = {"scopeName": "PriorityClass", "operator": "In", "values": ["cluster-services"]}
    entries = [{"resource": "pods", "matchScopes": [scope]}, {"apiGroup": "apps", "resource": "deployments", "matchContains": ["count"]}]
    assert parse_limited_resources(Document("f", {"apiVersion": version, "kind": kind, "limitedResources": entries})) == [
        LimitedResource(PODS, (), (Scope("PriorityClass", "In", ("cluster-services",)),)),
        LimitedResource(GroupResource("apps", "deployments"), ("count",)),
    ]
    assert parse_limited_resources(Document("f", {"apiVersion": version, "kind": kind})) == []


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (
            {**HEAD, "limitedResources": [{"apiGroup": "x"}, None]},
            "[limitedResources[0].resource: Required value, limitedResources[1].resource: ",
        ),
        ({**HEAD, "limitedResources": [{"resource": 5}]}, "limitedResources[0].resource is not a string"),
        ({**HEAD, "limitedResources": [{"resource": "pods", "matchScope": []}]}, 'unknown field "limitedResources[0].matchScope"'),
        ({**HEAD, "kind": "Configuration"}, 'no kind "Configuration" is registered for version "apiserver.config.k8s.io/v1"'),
        ({"apiVersion": ["v1"], "kind": "Configuration"}, "no kind"),
        ([], "the document is not an object"),
    ],
)
def test_an_invalid_configuration_is_refused(content: Any, problem: str) -> None:
    """In the words of kube-apiserver where it can be read."""
    with pytest.raises(OptionsError) as caught:
        parse_limited_resources(Document("f", content))
    assert problem in str(caught.value)


def test_no_configuration_limits_nothing() -> None:
    """Then the plugin without one is used."""
    assert parse_limited_resources(None) == ()


@pytest.mark.anyio
async def test_a_server_reads_its_configuration(tmp_path: Path) -> None:
    """The answers are those of kube-apiserver. Virtual objects and those of namespaces without quotas are there without one."""
    file = tmp_path / "admission.yaml"
    plugins = [
        {"name": "ResourceQuota", "configuration": {**HEAD, "limitedResources": [{"resource": "configmaps", "matchContains": ["c"]}]}}
    ]
    file.write_text(
        orjson.dumps({"apiVersion": "apiserver.config.k8s.io/v1", "kind": "AdmissionConfiguration", "plugins": plugins}).decode()
    )
    async with serving(tmp_path, admission_control_config_file=file) as api:
        namespaces = "/clusters/x/api/v1/namespaces"
        await api.ok("POST", namespaces, {"metadata": {"name": "a"}})
        await api.ok("POST", f"{namespaces}/a/secrets", {"metadata": {"name": "a"}})
        refused = (await api("POST", f"{namespaces}/a/configmaps", {"metadata": {"name": "a"}})).json()
        text = 'configmaps "a" is forbidden: insufficient quota to consume: configmaps,count/configmaps'
        assert (refused["code"], refused["reason"], refused["message"]) == (403, "Forbidden", text)
        hard = {"configmaps": "3", "count/configmaps": "3"}
        await api.ok("POST", f"{namespaces}/a/resourcequotas", {"metadata": {"name": "q"}, "spec": {"hard": hard}})
        await api.ok("POST", f"{namespaces}/a/configmaps", {"metadata": {"name": "a"}})
        assert (await api("POST", f"{namespaces}/default/configmaps", {"metadata": {"name": "a"}})).status_code == 403
