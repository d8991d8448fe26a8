"""Objects of the group over HTTP: generation, defaults, columns, reserved names. Answers are those of kube-apiserver 1.37.2."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, api

__all__ = ["api"]

pytestmark = pytest.mark.anyio
GROUP = "/clusters/a/apis/admissionregistration.k8s.io/v1"
MERGE = {"Content-Type": "application/merge-patch+json"}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"}
WEBHOOK: dict[str, Any] = {
    "name": "a.example.com",
    "clientConfig": {"url": "https://example.com/x"},
    "sideEffects": "None",
    "admissionReviewVersions": ["v1"],
}


async def test_configurations(api: Api) -> None:
    """Defaults are stored, changes of webhooks alone count, and a PUT needs the version that it replaces."""
    hooks = f"{GROUP}/mutatingwebhookconfigurations"
    created = await api.ok("POST", hooks, {"metadata": {"name": "one"}, "webhooks": [WEBHOOK]})
    assert created["webhooks"][0]["reinvocationPolicy"] == "Never"
    assert created["metadata"]["generation"] == 1
    labelled = await api.ok("PATCH", f"{hooks}/one", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    assert labelled["metadata"]["generation"] == 1
    changed = await api.ok("PUT", f"{hooks}/one", {**labelled, "webhooks": [{**WEBHOOK, "timeoutSeconds": 3}]})
    assert changed["metadata"]["generation"] == 2
    changed["metadata"].pop("resourceVersion")
    refused = await api.fails(422, "PUT", f"{hooks}/one", changed)
    assert "metadata.resourceVersion: Invalid value: 0: must be specified for an update" in refused["message"]
    table = await api.ok("GET", hooks, headers=TABLE)
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "Webhooks", "Age"]
    assert table["rows"][0]["cells"][:2] == ["one", 1]
    await api.fails(404, "PUT", f"{hooks}/two", {"metadata": {"name": "two", "resourceVersion": "1"}, "webhooks": []})


async def test_reserved_names(api: Api) -> None:
    """Names that kube-apiserver keeps for manifests of the operator are refused."""
    refused = await api.fails(422, "POST", f"{GROUP}/validatingwebhookconfigurations", {"metadata": {"name": "x.static.k8s.io"}})
    assert refused["details"]["causes"] == [
        {
            "reason": "FieldValueInvalid",
            "message": 'Invalid value: "x.static.k8s.io": names ending with ".static.k8s.io" are reserved for static manifest-based '
            "configurations and cannot be managed via the API",
            "field": "metadata.name",
        }
    ]


async def test_policies(api: Api) -> None:
    """Policies and bindings are stored with their defaults; the status of a policy is written through its subresource."""
    constraints = {"resourceRules": [{"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}
    spec = {"matchConstraints": constraints, "validations": [{"expression": "true"}]}
    policies = f"{GROUP}/validatingadmissionpolicies"
    created = await api.ok("POST", policies, {"metadata": {"name": "p"}, "spec": spec, "status": {"observedGeneration": 9}})
    assert created["status"] == {}
    assert created["spec"]["failurePolicy"] == "Fail"
    assert created["spec"]["matchConstraints"]["resourceRules"][0]["scope"] == "*"
    assert created["spec"]["matchConstraints"]["matchPolicy"] == "Equivalent"
    status = await api.ok("PATCH", f"{policies}/p/status", {"status": {"observedGeneration": 1}}, headers=MERGE)
    assert (status["metadata"]["generation"], status["status"]) == (1, {"observedGeneration": 1})
    binding = {"policyName": "p", "validationActions": ["Deny"], "matchResources": {}}
    bound = await api.ok("POST", f"{GROUP}/validatingadmissionpolicybindings", {"metadata": {"name": "b"}, "spec": binding})
    assert bound["spec"]["matchResources"] == {"matchPolicy": "Equivalent", "namespaceSelector": {}, "objectSelector": {}}
