"""Authors of roles and bindings grant only permissions that they have."""

from __future__ import annotations

from typing import Any

import pytest

from tests.authz.conftest import ALICE, GROUP, OPERATOR, RBAC, binding, let_in, role, rule
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

ALL = "get list watch create update patch delete"
NOT_HELD = 'user "alice" (groups=["dev" "system:authenticated"]) is attempting to grant RBAC permissions not currently held:\n'


@pytest.fixture(autouse=True)
async def roler(api: Api) -> None:
    """Alice may write roles and bindings, and read config maps."""
    await let_in(api, "User:alice")
    resources = "roles clusterroles rolebindings clusterrolebindings"
    await api.ok("POST", f"{RBAC}/clusterroles", role("roler", rule(ALL, resources, groups=GROUP), rule("get list", "configmaps")))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("roler", "roler", "User:alice"))


async def test_what_is_held_can_be_granted(api: Api) -> None:
    """A role with no more than its author has, and a binding to it."""
    await api.ok("POST", f"{RBAC}/clusterroles", role("maps", rule("get", "configmaps")), token=ALICE)
    await api.ok("POST", f"{RBAC}/namespaces/default/rolebindings", binding("maps", "maps", "User:bob"), token=ALICE)
    await api.ok("PUT", f"{RBAC}/clusterroles/maps", role("maps", rule("get list", "configmaps", names="a")), token=ALICE)


@pytest.mark.parametrize(
    ("path", "obj", "detail"),
    [
        pytest.param(
            "clusterroles",
            role("bad", rule("get list watch delete", "secrets configmaps", groups="- apps"), rule("get", "pods", names="a b")),
            '{APIGroups:[""], Resources:["configmaps"], Verbs:["watch" "delete"]}\n'
            '{APIGroups:[""], Resources:["pods"], ResourceNames:["a"], Verbs:["get"]}\n'
            '{APIGroups:[""], Resources:["pods"], ResourceNames:["b"], Verbs:["get"]}\n'
            '{APIGroups:[""], Resources:["secrets"], Verbs:["get" "list" "watch" "delete"]}\n'
            '{APIGroups:["apps"], Resources:["configmaps"], Verbs:["get" "list" "watch" "delete"]}\n'
            '{APIGroups:["apps"], Resources:["secrets"], Verbs:["get" "list" "watch" "delete"]}',
            id="rules",
        ),
        pytest.param(
            "clusterroles",
            role("bad", {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/healthz"]}),
            '{NonResourceURLs:["/metrics"], Verbs:["get"]}',
            id="URLs",
        ),
        pytest.param(
            "namespaces/default/roles",
            role("bad", rule("*", "*", groups="*")),
            '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}',
            id="everything",
        ),
        pytest.param(
            "namespaces/default/rolebindings",
            binding("bad", "cluster-admin", "User:alice"),
            '{APIGroups:["*"], Resources:["*"], Verbs:["*"]}\n{NonResourceURLs:["*"], Verbs:["*"]}',
            id="a binding",
        ),
    ],
)
async def test_what_is_not_held_is_refused(api: Api, path: str, obj: dict[str, Any], detail: str) -> None:
    """With the rules that are missing, those that differ in the verb alone on one line."""
    refused = await api.fails(403, "POST", f"{RBAC}/{path}", obj, token=ALICE)
    resource = path.rpartition("/")[2]
    assert refused["message"] == f'{resource}.{GROUP} "bad" is forbidden: {NOT_HELD}{detail}'
    await api.fails(404, "GET", f"{RBAC}/{path}/bad")


async def test_aggregation_needs_everything(api: Api) -> None:
    """A role that is composed of others can become anything."""
    composed = role("composed", aggregationRule={"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]})
    refused = await api.fails(403, "POST", f"{RBAC}/clusterroles", composed, token=ALICE)
    assert refused["message"].endswith('"composed" is forbidden: must have cluster-admin privileges to use the aggregationRule')
    await api.ok("POST", f"{RBAC}/clusterroles", composed, token=OPERATOR)
    await api.fails(403, "PUT", f"{RBAC}/clusterroles/composed", role("composed"), token=ALICE)


async def test_a_role_that_does_not_exist_cannot_be_bound(api: Api) -> None:
    """It could be created later, with anything in it."""
    for kind in ("Role", "ClusterRole"):
        refused = await api.fails(
            404, "POST", f"{RBAC}/namespaces/default/rolebindings", binding("b", "gone", "User:alice", kind=kind), token=ALICE
        )
        assert refused["message"] == f'rolebindings.{GROUP} "gone" not found'


async def test_permissions_to_escalate_and_to_bind(api: Api) -> None:
    """The verbs `escalate` on roles and `bind` on the role of a binding, by name where they are given by name."""
    await api.ok("POST", f"{RBAC}/clusterroles", role("binder", rule("bind", "clusterroles", groups=GROUP, names="view")))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("binder", "binder", "User:alice"))
    bindings = f"{RBAC}/namespaces/default/rolebindings"
    await api.ok("POST", bindings, binding("viewers", "view", "User:bob"), token=ALICE)
    await api.fails(403, "POST", bindings, binding("editors", "edit", "User:bob"), token=ALICE)
    await api.ok("POST", f"{RBAC}/clusterroles", role("escalator", rule("escalate", "clusterroles", groups=GROUP)))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("escalator", "escalator", "User:alice"))
    await api.ok("POST", f"{RBAC}/clusterroles", role("secrets", rule("*", "secrets")), token=ALICE)
    await api.fails(403, "POST", f"{RBAC}/namespaces/default/roles", role("secrets", rule("*", "secrets")), token=ALICE)


async def test_updates_for_the_garbage_collector(api: Api) -> None:
    """Owners and finalizers of a role may change without the permissions in it."""
    await api.ok("POST", f"{RBAC}/clusterroles", role("strong", rule("*", "secrets")))
    stored = await api.ok("GET", f"{RBAC}/clusterroles/strong", token=ALICE)
    stored["metadata"]["finalizers"] = ["example.com/hold"]
    stored = await api.ok("PUT", f"{RBAC}/clusterroles/strong", stored, token=ALICE)
    stored["metadata"]["labels"] = {"a": "b"}
    await api.fails(403, "PUT", f"{RBAC}/clusterroles/strong", stored, token=ALICE)


async def test_every_way_to_write_is_checked(api: Api) -> None:
    """A patch, an apply and a PUT that creates grant no more than a POST."""
    rules = role("bad", rule("get", "secrets"), apiVersion=f"{GROUP}/v1", kind="ClusterRole")
    path = f"{RBAC}/clusterroles/bad"
    await api.fails(403, "PUT", path, rules, token=ALICE)
    apply = {"Content-Type": "application/apply-patch+yaml"}
    await api.fails(403, "PATCH", path, rules, headers=apply, params={"fieldManager": "x"}, token=ALICE)
    await api.ok("POST", f"{RBAC}/clusterroles", role("bad", rule("get", "configmaps")), token=ALICE)
    for kind in ("merge-patch", "strategic-merge-patch"):
        await api.fails(403, "PATCH", path, {"rules": rules["rules"]}, headers={"Content-Type": f"application/{kind}+json"}, token=ALICE)
    change = [{"op": "replace", "path": "/rules/0/resources/0", "value": "secrets"}]
    await api.fails(403, "PATCH", path, change, headers={"Content-Type": "application/json-patch+json"}, token=ALICE)
    assert (await api.ok("GET", path))["rules"][0]["resources"] == ["configmaps"]


async def test_deletions_that_bring_inherited_permissions_back(api: Api) -> None:
    """A narrowed role or an emptied binding hides an inherited one: who has less than that cannot delete it."""
    narrowed = {**role("cluster-admin", rule("get", "pods")), "metadata": {"name": "cluster-admin"}}
    await api.ok("PUT", f"{RBAC}/clusterroles/cluster-admin", narrowed)
    emptied = await api.ok("GET", f"{RBAC}/clusterrolebindings/system:kube-scheduler")
    await api.ok("PUT", f"{RBAC}/clusterrolebindings/system:kube-scheduler", {**emptied, "subjects": []})
    refused = await api.fails(403, "DELETE", f"{RBAC}/clusterroles/cluster-admin", token=ALICE)
    assert NOT_HELD in refused["message"]
    await api.fails(403, "DELETE", f"{RBAC}/clusterrolebindings/system:kube-scheduler", token=ALICE)
    await api.ok("POST", f"{RBAC}/clusterroles", role("sweeper", rule("deletecollection", "clusterroles", groups=GROUP)))
    await api.ok("POST", f"{RBAC}/clusterrolebindings", binding("sweeper", "sweeper", "User:alice"))
    refused = await api.fails(403, "DELETE", f"{RBAC}/clusterroles?fieldSelector=metadata.name=cluster-admin", token=ALICE)
    assert NOT_HELD in refused["message"]
    await api.ok("DELETE", f"{RBAC}/clusterroles/cluster-admin")
    assert (await api.ok("GET", f"{RBAC}/clusterroles/cluster-admin"))["rules"][0]["verbs"] == ["*"]
    await api.ok("DELETE", f"{RBAC}/clusterrolebindings/system:kube-scheduler")
