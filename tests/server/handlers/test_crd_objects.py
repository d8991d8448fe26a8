"""CustomResourceDefinitions themselves, as objects that are created, changed and read."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, config_map, instance, make_crd
from tests.server.handlers.widgets import CRD, CRDS, MERGE, WIDGETS, gone, install, two_versions

pytestmark = pytest.mark.anyio

ALL = f"/clusters/a{CRDS}"
LOGICAL_CLUSTER = "/clusters/a/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
AGGREGATED = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}


async def test_create_ignores_the_status_and_begins_generations(api: Api) -> None:
    """Names, conversion and the stored version are filled in."""
    crd = make_crd()
    del crd["spec"]["names"]["singular"], crd["spec"]["names"]["listKind"]
    crd["status"] = {"acceptedNames": {"plural": "x", "kind": "X"}, "storedVersions": ["v7"], "conditions": []}
    created = await api.ok("POST", ALL, crd)
    assert created["metadata"]["generation"] == 1
    assert created["spec"]["conversion"] == {"strategy": "None"}
    assert created["spec"]["names"] == {"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"}
    assert created["status"] == {"conditions": None, "acceptedNames": {"plural": "", "kind": ""}, "storedVersions": ["v1"]}


async def test_an_update_leaves_the_status_and_counts_generations(api: Api) -> None:
    """A change of the specification is another generation, one of labels is not; without a resourceVersion nothing is updated."""
    await install(api)
    crd = await api.ok("GET", CRD)
    changed = await api.ok("PUT", CRD, {**crd, "status": {"storedVersions": ["v9"]}, "spec": {**crd["spec"], "scope": "Namespaced"}})
    assert (changed["status"], changed["metadata"]["generation"]) == (crd["status"], 1)
    changed = await api.ok("PATCH", CRD, {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    assert changed["metadata"]["generation"] == 1
    changed = await api.ok("PATCH", CRD, {"spec": {"names": {"categories": ["all"]}}}, headers=MERGE)
    assert changed["metadata"]["generation"] == 2
    del changed["metadata"]["resourceVersion"]
    status = await api.fails(422, "PUT", CRD, changed)
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in status["message"]
    assert (await api("PUT", f"{ALL}/gadgets.example.com", make_crd("gadgets"))).status_code in {404, 422}


async def test_the_status_is_read_and_patched_by_itself(api: Api) -> None:
    """A strategic merge patch is taken, since definitions are a built-in kind; the specification is left alone, labels are not."""
    await install(api)
    assert (await api.ok("GET", f"{CRD}/status"))["metadata"]["name"] == "widgets.example.com"
    patch = {
        "metadata": {"labels": {"a": "b"}},
        "spec": {"scope": "Cluster"},
        "status": {"conditions": [{"type": "Mine", "status": "True", "reason": "x", "message": "y"}]},
    }
    patched = await api.ok("PATCH", f"{CRD}/status", patch, headers=STRATEGIC)
    assert patched["spec"]["scope"] == "Namespaced"
    assert patched["metadata"]["labels"] == {"a": "b"}
    assert "Mine" in {condition["type"] for condition in patched["status"]["conditions"]}
    assert (await api.ok("PATCH", CRD, {"metadata": {"labels": {"a": "c"}}}, headers=STRATEGIC))["metadata"]["labels"] == {"a": "c"}


async def test_stored_versions_grow_with_the_storage_version_and_shrink_by_the_status(api: Api) -> None:
    """A version may only go when it is not stored any more."""
    crd = two_versions()
    await install(api, crd)
    current = await api.ok("GET", CRD)
    assert current["status"]["storedVersions"] == ["v1"]
    for version in current["spec"]["versions"]:
        version["storage"] = version["name"] == "v1beta1"
    current = await api.ok("PUT", CRD, current)
    assert current["status"]["storedVersions"] == ["v1", "v1beta1"]
    beta = [version for version in current["spec"]["versions"] if version["name"] == "v1beta1"]
    status = await api.fails(422, "PATCH", CRD, {"spec": {"versions": beta}}, headers=MERGE)
    assert status["message"] == (
        'CustomResourceDefinition.apiextensions.k8s.io "widgets.example.com" is invalid: status.storedVersions[0]: Invalid value: "v1": '
        "missing from spec.versions; v1 was previously a storage version, and must remain in spec.versions until a storage migration "
        "ensures no data remains persisted in v1 and removes v1 from status.storedVersions"
    )
    for stored, message in (([], "must have at least one stored version"), (["v1"], "must have the storage version v1beta1")):
        refused = await api.fails(422, "PATCH", f"{CRD}/status", {"status": {"storedVersions": stored}}, headers=MERGE)
        assert message in refused["message"]
    shrunk = await api.ok("PATCH", f"{CRD}/status", {"status": {"storedVersions": ["v1beta1"]}}, headers=MERGE)
    assert shrunk["status"]["storedVersions"] == ["v1beta1"]
    await api.ok("PATCH", CRD, {"spec": {"versions": beta}}, headers=MERGE)
    assert (await api("GET", WIDGETS)).status_code == 404
    assert (await api("GET", WIDGETS.replace("v1", "v1beta1"))).status_code == 200


async def test_names_of_a_status_are_checked(api: Api) -> None:
    """Clients that may write it cannot have names served that definitions must not request."""
    await install(api)
    refused = await api.fails(422, "PATCH", f"{CRD}/status", {"status": {"acceptedNames": {"kind": "No Kind"}}}, headers=MERGE)
    assert "status.acceptedNames.kind: Invalid value" in refused["message"]


async def test_warnings_of_a_definition(api: Api) -> None:
    """Unrecognized formats and sets of objects are told when they come."""
    schema: dict[str, Any] = {
        "type": "object",
        "properties": {
            "name": {"type": "string", "format": "moon-phase"},
            "parts": {
                "type": "array",
                "x-kubernetes-list-type": "set",
                "items": {"type": "object", "x-kubernetes-map-type": "atomic", "properties": {"a": {"type": "string"}}},
            },
        },
    }
    of_format = '299 - "unrecognized format \\"moon-phase\\""'
    of_set = (
        '299 - "x-kubernetes-list-type: set for items of type \\"object\\" is not supported by server-side apply or CEL validation rules"'
    )
    response = await api("POST", ALL, make_crd(schema=schema))
    assert response.status_code == 201, response.text
    assert response.headers.get_list("warning") == [of_format, of_set]
    changed = await api("PATCH", CRD, {"spec": {"names": {"categories": ["all"]}}}, headers=MERGE)
    assert changed.headers.get_list("warning") == []


async def test_protected_groups_need_an_approval(api: Api) -> None:
    """With upstream's words."""
    crd = make_crd(group="x.k8s.io")
    status = await api.fails(422, "POST", ALL, crd)
    assert status["message"] == (
        'CustomResourceDefinition.apiextensions.k8s.io "widgets.x.k8s.io" is invalid: '
        "metadata.annotations[api-approved.kubernetes.io]: Required value: protected groups must have approval annotation "
        '"api-approved.kubernetes.io", see https://github.com/kubernetes/enhancements/pull/1111'
    )
    crd["metadata"]["annotations"] = {"api-approved.kubernetes.io": "unapproved"}
    await install(api, crd)
    conditions = (await api.ok("GET", f"{ALL}/widgets.x.k8s.io"))["status"]["conditions"]
    (condition,) = [one for one in conditions if one["type"] == "KubernetesAPIApprovalPolicyConformant"]
    assert (condition["status"], condition["reason"]) == ("False", "UnapprovedAnnotation")


@pytest.mark.parametrize("group", ["apps", "batch", "autoscaling", "policy"])
async def test_a_kind_of_a_built_in_group_is_brought_by_a_definition(api: Api, group: str) -> None:
    """It is served, discovered and published in its cluster."""
    await install(api, make_crd("deployments", group=group))
    path = f"/clusters/a/apis/{group}/v1/namespaces/default/deployments"
    created = await api.ok("POST", path, {"apiVersion": f"{group}/v1", "kind": "Deployment", "metadata": {"name": "one"}})
    assert (await api.ok("GET", f"{path}/one"))["metadata"]["uid"] == created["metadata"]["uid"]
    assert [one["name"] for one in (await api.ok("GET", f"/clusters/a/apis/{group}/v1"))["resources"]] == [
        "deployments",
        "deployments/status",
    ]
    assert f"apis/{group}/v1" in (await api.ok("GET", "/clusters/a/openapi/v3"))["paths"]
    assert (await api("GET", f"/clusters/b/apis/{group}")).status_code == 404


async def test_discovery_tells_names_categories_and_the_storage_version(api: Api) -> None:
    """In both forms, for every served version, and of definitions themselves."""
    crd = two_versions()
    crd["spec"]["names"] |= {"shortNames": ["wd", "w"], "categories": ["all", "things"]}
    await install(api, crd)
    (resource, status) = (await api.ok("GET", "/clusters/a/apis/example.com/v1"))["resources"]
    digest = resource.pop("storageVersionHash")
    assert resource == {
        "name": "widgets",
        "singularName": "widget",
        "namespaced": True,
        "kind": "Widget",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["wd", "w"],
        "categories": ["all", "things"],
    }
    assert (status["name"], status["verbs"], "shortNames" in status) == ("widgets/status", ["get", "patch", "update"], False)
    assert (await api.ok("GET", "/clusters/a/apis/example.com/v1beta1"))["resources"][0]["storageVersionHash"] == digest
    group = await api.ok("GET", "/clusters/a/apis/example.com")
    assert [version["version"] for version in group["versions"]] == ["v1", "v1beta1"]
    assert group["preferredVersion"] == {"groupVersion": "example.com/v1", "version": "v1"}
    items = (await api.ok("GET", "/clusters/a/apis", headers=AGGREGATED))["items"]
    (found,) = [item for item in items if item["metadata"]["name"] == "example.com"]
    assert [version["version"] for version in found["versions"]] == ["v1", "v1beta1"]
    entry = found["versions"][0]["resources"][0]
    assert (entry["shortNames"], entry["categories"], entry["scope"]) == (["wd", "w"], ["all", "things"], "Namespaced")
    (own, _) = (await api.ok("GET", "/clusters/a/apis/apiextensions.k8s.io/v1"))["resources"]
    assert (own["shortNames"], own["categories"]) == (["crd", "crds"], ["api-extensions"])


async def test_definitions_as_a_table(api: Api) -> None:
    """The columns of a real server, and in wide output where the definition comes from."""
    created = await install(api)
    table = await api.ok("GET", ALL, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    columns = [(column["name"], column["priority"]) for column in table["columnDefinitions"]]
    shown = [("Name", 0), ("Scope", 0), ("Versions", 0), ("Created At", 0)]
    assert columns == [*shown, ("Group", 1), ("Kind", 1), ("ShortNames", 1), ("Established", 1), ("Source", 1)]
    cells = ["widgets.example.com", "Namespaced", "v1(storage)", created["metadata"]["creationTimestamp"]]
    (row,) = table["rows"]
    assert row["cells"][:6] == [*cells, "example.com", "Widget"]
    assert row["cells"][7:] == [True, "<none>"]


async def test_installed_definitions_are_protected(api: Api) -> None:
    """A definition with the installer's mark is shown as such, and no client deletes it before the mark is taken away."""
    crd = make_crd()
    crd["metadata"]["annotations"] = {"kcp-py.io/installed-by": "builtin"}
    await install(api, crd)
    table = await api.ok("GET", ALL, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert [row["cells"][-1] for row in table["rows"]] == ["builtin"]
    await api.ok("POST", WIDGETS, instance("kept"))
    for path in (CRD, ALL, f"{CRD}?dryRun=All"):
        status = await api.fails(403, "DELETE", path)
        assert status["reason"] == "Forbidden"
        assert 'use "kcp-py builtin uninstall widgets.example.com"' in status["message"]
        assert "annotation kcp-py.io/installed-by" in status["message"]
    assert "deletionTimestamp" not in (await api.ok("GET", CRD))["metadata"]
    await api.ok("PATCH", CRD, {"metadata": {"annotations": {"kcp-py.io/installed-by": None}}}, headers=MERGE)
    await api.ok("DELETE", CRD)
    await gone(api, CRD)


async def test_a_cluster_takes_its_installed_definitions_along(api: Api) -> None:
    """The mark keeps no logical cluster from being deleted with all that is in it."""
    crd = make_crd()
    crd["metadata"]["annotations"] = {"kcp-py.io/installed-by": "builtin"}
    await install(api, crd)
    await api.ok("POST", WIDGETS, instance("goes"))
    await api.ok("DELETE", LOGICAL_CLUSTER)
    await gone(api, LOGICAL_CLUSTER)


async def test_preconditions_of_a_deletion(api: Api) -> None:
    """Another uid or resourceVersion than the definition's is a conflict, and leaves it as it was."""
    await install(api)
    before = await api.ok("GET", CRD)
    uid, revision = before["metadata"]["uid"], before["metadata"]["resourceVersion"]
    for field, name, value, own in (("uid", "UID", "other", uid), ("resourceVersion", "ResourceVersion", "1", revision)):
        status = await api.fails(409, "DELETE", CRD, {"kind": "DeleteOptions", "apiVersion": "v1", "preconditions": {field: value}})
        assert status["message"] == (
            'Operation cannot be fulfilled on customresourcedefinitions.apiextensions.k8s.io "widgets.example.com": precondition failed: '
            f"{name} in precondition: {value}, {name} in object meta: {own}"
        )
    assert await api.ok("GET", CRD) == before


async def test_a_terminating_definition_shows_its_state(api: Api) -> None:
    """Deleting it marks it; its objects are served until their finalizers are gone, and a second deletion changes nothing."""
    await install(api)
    held = instance("one", spec={"size": 1})
    held["metadata"]["finalizers"] = ["example.com/hold"]
    await api.ok("POST", WIDGETS, held)
    deleted = await api.ok("DELETE", CRD)
    (condition,) = [one for one in deleted["status"]["conditions"] if one["type"] == "Terminating"]
    assert (condition["status"], condition["reason"]) == ("True", "InstanceDeletionPending")
    again = await api.ok("DELETE", CRD)
    assert again["metadata"]["deletionTimestamp"] == deleted["metadata"]["deletionTimestamp"]
    status = await api.fails(403, "POST", WIDGETS, instance("two"))
    assert (status["reason"], status["message"]) == (
        "Forbidden",
        "widgets.example.com is forbidden: create not allowed while custom resource definition is terminating",
    )
    assert (await api("DELETE", f"{WIDGETS}/one")).status_code == 200
    held = await api.ok("GET", f"{WIDGETS}/one")
    del held["metadata"]["finalizers"]
    await api.ok("PUT", f"{WIDGETS}/one", held)
    await gone(api, CRD)


@pytest.mark.parametrize("headers", [pytest.param({}, id="created"), pytest.param(MERGE, id="patched")])
async def test_the_limit_of_a_body(api: Api, headers: dict[str, str]) -> None:
    """Three mebibytes are too much, and endless nesting is refused below that."""
    method, path = ("PATCH", CRD) if headers else ("POST", "/clusters/a/api/v1/namespaces/default/configmaps")
    await install(api)
    big = await api(method, path, config_map("big", {"a": "x" * (3 * 1024 * 1024)}), headers=headers)
    assert (big.status_code, big.json()["reason"]) == (413, "RequestEntityTooLarge")
    assert big.json()["message"] == "Request entity too large: limit is 3145728"
    deep = await api(method, path, content=b'{"a":' * 500_000, headers={"Content-Type": "application/json", **headers})
    assert deep.status_code == 400
