"""Access reviews: what interfaces of clusters ask before they show anything."""

from __future__ import annotations

from typing import Any

import pytest

from tests.authz.conftest import ALICE, BOB, RBAC, REVIEWS, binding, let_in, role, rule
from tests.server.handlers.conftest import ADMIN, Api

pytestmark = pytest.mark.anyio

LIST_PODS = {"resourceAttributes": {"verb": "list", "resource": "pods"}}


async def reviewed(api: Api, spec: dict[str, Any], *, token: str = ADMIN, resource: str = "selfsubjectaccessreviews") -> dict[str, Any]:
    answer: dict[str, Any] = (await api.ok("POST", f"{REVIEWS}/{resource}", {"spec": spec}, token=token))["status"]
    return answer


async def test_a_caller_asks_about_itself(api: Api) -> None:
    """The answer is that of the authorizers, with the binding that allows; the group `system:masters` needs no reason."""
    await let_in(api, "User:alice")
    await api.ok("POST", f"{RBAC}/clusterroles", role("maps", rule("get", "configmaps")))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("maps", "maps", "User:alice"))
    assert await reviewed(api, LIST_PODS) == {"allowed": True}
    assert await reviewed(api, LIST_PODS, token=ALICE) == {"allowed": False}
    assert await reviewed(api, {"resourceAttributes": {"verb": "get", "resource": "configmaps", "name": "x"}}, token=ALICE) == {
        "allowed": True,
        "reason": 'RBAC: allowed by ClusterRoleBinding "maps" of ClusterRole "maps" to User "alice"',
    }
    assert (await reviewed(api, {"nonResourceAttributes": {"verb": "get", "path": "/api"}}, token=ALICE))["reason"] == (
        'RBAC: allowed by ClusterRoleBinding "system:discovery" of ClusterRole "system:discovery" to Group "system:authenticated"'
    )


async def test_an_answer_is_about_the_cluster_of_the_request(api: Api) -> None:
    """A user who may do anything in one cluster hears of another that it may not even enter."""
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("admins", "cluster-admin", "User:alice"))
    asked = {"spec": {"user": "alice", **LIST_PODS}}
    answers = {
        cluster: (await api.ok("POST", f"/clusters/{cluster}/apis/authorization.k8s.io/v1/subjectaccessreviews", asked))["status"]
        for cluster in ("team-a", "team-b")
    }
    assert answers["team-a"]["allowed"] is True
    assert answers["team-b"] == {"allowed": False, "denied": True, "reason": "access denied"}
    await api.fails(405, "POST", "/clusters/*/apis/authorization.k8s.io/v1/subjectaccessreviews", asked)


async def test_questions_about_others_are_not_for_everybody(api: Api) -> None:
    """A caller that enters a cluster may ask about itself, and needs a permission to ask about others."""
    await let_in(api, "User:alice")
    for resource in ("subjectaccessreviews", "namespaces/default/localsubjectaccessreviews"):
        await api.fails(403, "POST", f"{REVIEWS}/{resource}", {"spec": {"user": "bob", **LIST_PODS}}, token=ALICE)


async def test_a_local_review_is_about_its_namespace(api: Api) -> None:
    """The namespace of the question is that of the URL."""
    asked = {"user": "bob", "resourceAttributes": {"verb": "get", "resource": "pods", "namespace": "default"}}
    answer = await api.ok("POST", f"{REVIEWS}/namespaces/default/localsubjectaccessreviews", {"spec": asked})
    assert answer["metadata"]["namespace"] == "default"
    assert answer["status"]["allowed"] is False
    refused = await api.fails(422, "POST", f"{REVIEWS}/namespaces/other/localsubjectaccessreviews", {"spec": asked})
    assert refused["message"] == (
        '.authorization.k8s.io "" is invalid: spec.resourceAttributes.namespace: Invalid value: "default": must match metadata.namespace'
    )


async def test_selectors_that_cannot_be_read(api: Api) -> None:
    """They are left out of the decision, and the answer says so."""
    attributes = {"verb": "list", "resource": "pods", "labelSelector": {"rawSelector": "a in ("}, "fieldSelector": {"rawSelector": "a=b"}}
    assert await reviewed(api, {"resourceAttributes": attributes}) == {
        "allowed": True,
        "evaluationError": "spec.resourceAttributes.labelSelector ignored due to parse error",
    }


async def test_requirements_that_cannot_be_used(api: Api) -> None:
    """The answer tells whether others of the selector were used. Both forms of a selector at once are refused."""
    known = {"key": "a", "operator": "In", "values": ["b"]}
    attributes = {
        "verb": "list",
        "resource": "pods",
        "labelSelector": {"requirements": [known, {"key": "c", "operator": "Like"}]},
        "fieldSelector": {"requirements": [{"key": "c", "operator": "Exists"}]},
    }
    assert (await reviewed(api, {"resourceAttributes": attributes}))["evaluationError"] == (
        "spec.resourceAttributes.fieldSelector ignored due to parse error; "
        "spec.resourceAttributes.labelSelector partially ignored due to parse error"
    )
    attributes["fieldSelector"] = {"requirements": [known], "rawSelector": "a=b"}
    refused = await api.fails(422, "POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": {"resourceAttributes": attributes}})
    assert (
        'spec.resourceAttributes.fieldSelector.rawSelector: Invalid value: "a=b": may not specified at the same time as requirements'
        in refused["message"]
    )


async def test_the_rules_of_a_caller(api: Api) -> None:
    """Those of the namespace and of the cluster, as `kubectl auth can-i --list` shows them."""
    await let_in(api, "User:bob")
    await api.ok("POST", f"{RBAC}/namespaces/default/roles", role("maps", rule("get", "configmaps", names="one")))
    await api.ok("POST", f"{RBAC}/namespaces/default/rolebindings", binding("maps", "maps", "User:bob", kind="Role"))
    answer = await api.ok("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, token=BOB)
    status = answer["status"]
    own = {"verbs": ["get"], "apiGroups": [""], "resources": ["configmaps"], "resourceNames": ["one"]}
    assert own in status["resourceRules"]
    reviews = {
        "verbs": ["create"],
        "apiGroups": ["authorization.k8s.io"],
        "resources": ["selfsubjectaccessreviews", "selfsubjectrulesreviews"],
    }
    assert reviews in status["resourceRules"]
    assert {"verbs": ["access"], "nonResourceURLs": ["/"]} in status["nonResourceRules"]
    assert status["incomplete"] is False
    elsewhere = await api.ok("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "other"}}, token=BOB)
    assert own not in elsewhere["status"]["resourceRules"]
    assert (await api.fails(400, "POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {}}, token=BOB))[
        "message"
    ] == "no namespace on request"


async def test_reviews_are_created_and_nothing_else(api: Api) -> None:
    """They are not stored, cannot be read, and carry no annotation of the server."""
    assert (await api.ok("POST", f"{REVIEWS}/selfsubjectaccessreviews", {"spec": LIST_PODS}))["metadata"] == {}


@pytest.mark.parametrize("method", ["GET", "PUT", "PATCH", "DELETE", "FOO"])
async def test_reviews_have_no_names(api: Api, method: str) -> None:
    """Other methods are refused as by kube-apiserver 1.37, which has a route for the collection and none for names."""
    for resource in ("selfsubjectaccessreviews", "namespaces/default/localsubjectaccessreviews"):
        refused = await api.fails(405, method, f"{REVIEWS}/{resource}")
        assert (refused["reason"], refused["message"], refused["details"]) == (
            "MethodNotAllowed",
            "the server does not allow this method on the requested resource",
            {},
        )
        refused = await api.fails(404, method, f"{REVIEWS}/{resource}/x")
        assert (refused["reason"], refused["message"], refused["details"]) == (
            "NotFound",
            "the server could not find the requested resource",
            {},
        )


async def test_the_rules_of_a_caller_with_very_many(api: Api) -> None:
    """A role that is bound often is shown once, and rules beyond a bound are left out: the answer says so."""
    many = [rule("get", f"resource-{number}") for number in range(15_000)]
    await let_in(api, "User:bob")
    await api.ok("POST", f"{RBAC}/clusterroles", role("many", *many))
    for number in range(20):
        await api.ok("POST", f"{RBAC}/clusterrolebindings", binding(f"many-{number}", "many", "User:bob"))
    answer = await api.ok("POST", f"{REVIEWS}/selfsubjectrulesreviews", {"spec": {"namespace": "default"}}, token=BOB)
    status = answer["status"]
    resources = [tuple(one["resources"]) for one in status["resourceRules"]]
    assert 10_000 < len(resources) == len(set(resources)) < 15_000
    assert status["incomplete"] is True
    assert status["evaluationError"].startswith("only the first ")
