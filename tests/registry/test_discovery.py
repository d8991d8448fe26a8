"""Discovery documents equal those of upstream for the same resources."""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

import orjson
import pytest

from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.registry.discovery import Discovery, Document, etag_of, group_order, version_order
from kcp_py.registry.resource import ServedResource
from tests.corpus import TABLES, needs_corpus

BUILTIN = builtin_resources("/registry")
DISCOVERY = Discovery(BUILTIN, server_address="host:6443")
REAL = TABLES / "k8s-discovery"


def custom(group: str, version: str, plural: str = "widgets", **changes: Any) -> ServedResource:
    template = next(resource for resource in BUILTIN if resource.resource == "configmaps")
    changes = {"kind": "Widget", "list_kind": "WidgetList", "singular": "widget", "short_names": (), "storage_version_hash": "", **changes}
    init = {field.name: getattr(template, field.name) for field in dataclasses.fields(template) if field.init}
    return ServedResource(**{**init, "group": group, "version": version, "resource": plural, "storage_version": version, **changes})


def content(document: Document | None) -> Any:
    assert document is not None
    return orjson.loads(document.body)


def test_versions_by_preference():
    """GA comes before beta before alpha, higher before lower; other names come last, by name."""
    versions = ["v1alpha1", "foo", "v2", "v1beta10", "v10", "v1", "v1beta2", "bar", "v11alpha2", "v1beta", "v12beta1"]
    assert sorted(versions, key=version_order) == [
        "v10", "v2", "v1", "v12beta1", "v1beta10", "v1beta2", "v11alpha2", "v1alpha1", "bar", "foo", "v1beta",
    ]  # fmt: skip


def test_groups_by_preference():
    """Built-in groups come in upstream's order, others behind them by name."""
    groups = ["z.io", "rbac.authorization.k8s.io", "a.io", "apps", "", "events.k8s.io"]
    assert sorted(groups, key=group_order) == ["", "apps", "events.k8s.io", "rbac.authorization.k8s.io", "a.io", "z.io"]


def test_core_versions():
    """/api names the versions of the core group and where the server is."""
    assert content(DISCOVERY.core_versions()) == {
        "kind": "APIVersions",
        "versions": ["v1"],
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": "host:6443"}],
    }


def test_groups_document():
    """/apis lists every group but the core one with its preferred version; /apis/<group> says the same of one."""
    discovery = Discovery([*BUILTIN, custom("example.com", "v1beta1"), custom("example.com", "v1")])
    groups = content(discovery.groups())["groups"]
    assert [group["name"] for group in groups] == [
        "events.k8s.io", "authentication.k8s.io", "authorization.k8s.io", "certificates.k8s.io", "rbac.authorization.k8s.io",
        "admissionregistration.k8s.io", "apiextensions.k8s.io", "coordination.k8s.io", "core.kcp.io", "example.com",
    ]  # fmt: skip
    assert groups[-1] == {
        "name": "example.com",
        "versions": [
            {"groupVersion": "example.com/v1", "version": "v1"},
            {"groupVersion": "example.com/v1beta1", "version": "v1beta1"},
        ],
        "preferredVersion": {"groupVersion": "example.com/v1", "version": "v1"},
    }
    assert content(discovery.group("example.com")) == {"kind": "APIGroup", "apiVersion": "v1", **groups[-1]}


@pytest.mark.parametrize("group", ["", "absent.io"])
def test_absent_group(group):
    """A group that is not served has no document, nor has the core group one of that form."""
    assert DISCOVERY.group(group) is None
    assert DISCOVERY.resources("absent.io", "v1") is None


@needs_corpus
def test_core_resources_equal_those_of_a_real_server():
    """Every entry of /api/v1, status included, is a real server's; finalize and token come with their subresources."""
    real = {entry["name"]: entry for entry in json.loads((REAL / "api__v1.json").read_text())["resources"]}
    ours = content(DISCOVERY.resources("", "v1"))
    assert ours["groupVersion"] == "v1"
    assert ours["resources"]
    for entry in ours["resources"]:
        assert entry == real[entry["name"]]


@needs_corpus
def test_aggregated_entries_equal_those_of_a_real_server():
    """The aggregated entries are a real server's, but that kinds are written with their group and version."""
    real = {
        (item["metadata"].get("name", ""), resource["resource"]): resource
        for item in json.loads((REAL / "aggregated_v2.json").read_text())["items"]
        for version in item["versions"]
        for resource in version["resources"]
    }
    compared = 0
    for item in content(DISCOVERY.aggregated())["items"]:
        for version in item["versions"]:
            assert version["freshness"] == "Current"
            for resource in version["resources"]:
                kind = resource["responseKind"]
                assert (kind["group"], kind["version"]) == (item["metadata"]["name"], version["version"])
                wanted = real.get((item["metadata"]["name"], resource["resource"]))
                if wanted is not None:
                    compared += 1
                    assert _without_kinds(resource) == _without_kinds(wanted)
    assert compared == 18


def test_aggregated_forms_are_split_as_the_paths_are():
    """The core group is under /api alone, all others under /apis alone."""
    core = content(DISCOVERY.aggregated_core())
    assert (core["kind"], core["apiVersion"]) == ("APIGroupDiscoveryList", "apidiscovery.k8s.io/v2")
    assert [item["metadata"].get("name", "") for item in core["items"]] == [""]
    assert all(item["metadata"]["name"] for item in content(DISCOVERY.aggregated())["items"])


def test_aggregated_status():
    """Subresources stand in the order of their names with the verbs that they take."""
    (namespaces,) = [
        resource
        for resource in content(DISCOVERY.aggregated_core())["items"][0]["versions"][0]["resources"]
        if resource["resource"] == "namespaces"
    ]
    assert namespaces["subresources"] == [
        {
            "subresource": "finalize",
            "responseKind": {"group": "", "version": "v1", "kind": "Namespace"},
            "verbs": ["update"],
        },
        {
            "subresource": "status",
            "responseKind": {"group": "", "version": "v1", "kind": "Namespace"},
            "verbs": ["get", "patch", "update"],
        },
    ]


def test_documents_are_made_once_and_tagged():
    """A document is kept; its tag is the SHA-512 of the sent bytes, in capitals and quotes."""
    document = DISCOVERY.aggregated()
    assert DISCOVERY.aggregated() is document
    assert document.etag == f'"{hashlib.sha512(document.body).hexdigest().upper()}"' == etag_of(document.body)
    assert Discovery(BUILTIN, server_address="host:6443").aggregated() == document


def test_order_of_resources_does_not_matter():
    """The order of resources does not change the documents."""
    assert Discovery(reversed(BUILTIN)).aggregated() == Discovery(BUILTIN).aggregated()


def _without_kinds(resource: dict[str, Any]) -> dict[str, Any]:
    result = {key: value for key, value in resource.items() if key != "responseKind"}
    result["kind"] = resource["responseKind"]["kind"]
    if "subresources" in resource:
        result["subresources"] = [_without_kinds(subresource) for subresource in resource["subresources"]]
    return result
