"""Changes of owner references need the permissions that kube-apiserver 1.37.2 asks for."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.admission.serving import CLUSTER, recorded, serving
from tests.server.handlers.conftest import established

pytestmark = pytest.mark.anyio

GENERATED = re.compile(r'"g-[a-z0-9]{5}"')


async def test_owner_references_need_permissions(tmp_path: Path) -> None:
    """Creates, updates, kinds and scopes of owners, and writes that change none: every answer, recorded."""
    data = recorded("ownerreferences")
    switches = ("OwnerReferencesPermissionEnforcement",)
    # The owners do not exist.
    controllers = ("*", "-garbage-collector-controller")
    async with serving(tmp_path, enable_admission_plugins=switches, require_cluster_access=False, controllers=controllers) as api:
        for path, obj in data["setup"]:
            await api.ok("POST", CLUSTER + path, obj)
        for case in data["cases"]:
            headers = {"Authorization": "Bearer secret"} | ({"Impersonate-User": case["user"]} if case["user"] != "admin" else {})
            if case["method"] == "PATCH":
                headers["Content-Type"] = "application/merge-patch+json"
            path = CLUSTER + case["path"].partition("?")[0]
            response = await api(case["method"], path, case["object"], headers=headers, params={"dryRun": "All"})
            answer = {"code": response.status_code} | ({"message": response.json()["message"]} if response.status_code >= 400 else {})
            assert _named(answer) == _named(case["answer"]), case["name"]


async def test_an_owner_that_comes_as_a_crd_is_one_of_its_cluster(tmp_path: Path) -> None:
    """The kind is unknown in another cluster, and permissions of one cluster do not count in another."""
    names = {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"}
    schema = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": names,
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }
    rules = [
        {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["create"]},
        {"apiGroups": ["example.com"], "resources": ["boxes/finalizers"], "verbs": ["update"]},
    ]
    rbac = "apis/rbac.authorization.k8s.io/v1"
    reference = {"apiVersion": "example.com/v1", "kind": "Box", "name": "b", "uid": "u", "blockOwnerDeletion": True}
    owned = {"metadata": {"name": "n", "ownerReferences": [reference]}}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "dev"}
    headers = {"Authorization": "Bearer secret", "Impersonate-User": "dev"}
    switches = ("OwnerReferencesPermissionEnforcement",)
    async with serving(tmp_path, enable_admission_plugins=switches, require_cluster_access=False) as api:
        for cluster, granted in (("a", rules), ("b", rules), ("c", rules[:1])):
            base = f"/clusters/{cluster}"
            await api.ok("POST", f"{base}/{rbac}/clusterroles", {"metadata": {"name": "dev"}, "rules": granted})
            role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "dev"}
            await api.ok(
                "POST", f"{base}/{rbac}/clusterrolebindings", {"metadata": {"name": "dev"}, "roleRef": role, "subjects": [subject]}
            )
            if cluster != "b":
                await api.ok("POST", f"{base}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
                await established(api, cluster, "boxes.example.com")
        messages = {}
        for cluster in "abc":
            path = f"/clusters/{cluster}/api/v1/namespaces/default/configmaps"
            response = await api("POST", path, owned, headers=headers, params={"dryRun": "All"})
            messages[cluster] = response.json().get("message", "")
        assert messages["a"] == ""
        assert messages["b"].endswith('no matches for kind "Box" in version "example.com/v1"')
        assert messages["c"].endswith("a resource you can't set finalizers on: , <nil>")


def _named(answer: dict[str, object]) -> dict[str, object]:
    """With another name instead of a generated one."""
    return {**answer, "message": GENERATED.sub('"generated"', str(answer.get("message")))}
