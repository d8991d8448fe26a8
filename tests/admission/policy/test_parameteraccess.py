"""Who may refer to parameters. Texts are those of kube-apiserver 1.37.2."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.policy.making import CLUSTER, GROUP, binding, policy
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

BOB = {"Impersonate-User": "bob", "Authorization": "Bearer secret"}
SECRETS = {"apiVersion": "v1", "kind": "Secret"}
POLICIES = f"{CLUSTER}/{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{CLUSTER}/{GROUP}/validatingadmissionpolicybindings"
RBAC = f"{CLUSTER}/apis/rbac.authorization.k8s.io/v1"
USER = "user &{bob  [system:authenticated] map[]}"


async def grant(api: Api, name: str, *rules: dict[str, Any]) -> None:
    """Give bob a role."""
    await api.ok("POST", f"{RBAC}/clusterroles", {"metadata": {"name": name}, "rules": [*rules]})
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name}
    subject = {"apiGroup": "rbac.authorization.k8s.io", "kind": "User", "name": "bob"}
    await api.ok("POST", f"{RBAC}/clusterrolebindings", {"metadata": {"name": name}, "roleRef": reference, "subjects": [subject]})


async def test_parameters(api: Api) -> None:
    """An author needs `get` on all objects of the kind for a policy, and on the parameter, or `list`, for a binding."""
    access = {"nonResourceURLs": ["/"], "verbs": ["access"]}
    await grant(api, "author", access, {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]})
    given = policy("p", "true", paramKind=SECRETS)
    status = await api.fails(422, "POST", POLICIES, given, headers=BOB)
    expected = f'{USER} must have "get" permission on all objects of the referenced paramKind (kind=Secret, apiVersion=v1)'
    assert status["details"]["causes"] == [
        {"reason": "FieldValueForbidden", "message": f"Forbidden: {expected}", "field": "spec.paramKind"}
    ]
    await api.ok("POST", POLICIES, given)
    for reference, verb in (({"name": "s", "namespace": "default"}, "get"), ({"selector": {}}, "list")):
        bound = binding(paramRef={**reference, "parameterNotFoundAction": "Deny"})
        status = await api.fails(422, "POST", BINDINGS, bound, headers=BOB)
        expected = f'spec.paramRef: Forbidden: {USER} does not have "{verb}" permission on the object referenced by paramRef'
        assert status["message"].endswith(expected)
    missing = binding("c", "nope", paramRef={"name": "s", "parameterNotFoundAction": "Deny"})
    status = await api.fails(422, "POST", BINDINGS, missing, headers=BOB)
    assert "unable to get policy nope to determine minimum required permissions" in status["message"]
    await grant(api, "reader", {"apiGroups": [""], "resources": ["secrets"], "verbs": ["get", "list"]})
    await api.ok("POST", POLICIES, {**given, "metadata": {"name": "q"}}, headers=BOB)
    await api.ok("POST", BINDINGS, binding(paramRef={"selector": {}, "parameterNotFoundAction": "Deny"}), headers=BOB)


async def test_unchanged_references(api: Api) -> None:
    """An update that leaves the kind of parameters as it is needs no permission for it."""
    access = {"nonResourceURLs": ["/"], "verbs": ["access"]}
    await grant(api, "author", access, {"apiGroups": ["admissionregistration.k8s.io"], "resources": ["*"], "verbs": ["*"]})
    await api.ok("POST", POLICIES, policy("p", "true", paramKind=SECRETS))
    merge = {**BOB, "Content-Type": "application/merge-patch+json"}
    await api.ok("PATCH", f"{POLICIES}/p", {"spec": {"failurePolicy": "Ignore"}}, headers=merge)
    await api.fails(422, "PATCH", f"{POLICIES}/p", {"spec": {"paramKind": {"kind": "ConfigMap"}}}, headers=merge)
