"""What every cluster inherits: roles and bindings that are valid, complete, and belong to the cluster."""

from __future__ import annotations

import uuid
from typing import Any

import orjson
import pytest

from kcp_py.apis.rbac.install import install
from kcp_py.apis.rbac.policy import ACCESS_ROLE, CLUSTER_OPERATORS, KCP_ADMINS, inherited_by, inherited_objects
from kcp_py.apis.rbac.strategy import ClusterRoleStrategy, RoleBindingStrategy, RoleStrategy
from kcp_py.apis.typed.structs import struct_codec
from kcp_py.controllers.clusterroles import composed

RESOURCES = {"clusterroles": "ClusterRole", "clusterrolebindings": "ClusterRoleBinding", "roles": "Role", "rolebindings": "RoleBinding"}
STRATEGIES = {
    "clusterroles": ClusterRoleStrategy(),
    "clusterrolebindings": RoleBindingStrategy(namespaced=False),
    "roles": RoleStrategy(),
    "rolebindings": RoleBindingStrategy(),
}
CREATED = "2026-01-02T03:04:05Z"


def objects_of(resource: str, cluster: str = "team-a", uid: str = "1", created: str = CREATED) -> dict[str, dict[str, Any]]:
    return {place: orjson.loads(value) for place, value in inherited_by(resource)(cluster, uid, created).items()}


@pytest.mark.parametrize("name", [
    "cluster-admin", "admin", "edit", "view", "system:aggregate-to-admin", "system:aggregate-to-edit", "system:aggregate-to-view",
    "system:discovery", "system:basic-user", "system:public-info-viewer", "system:monitoring", "system:heapster", "system:auth-delegator",
    "system:service-account-issuer-discovery", "system:controller:namespace-controller", "system:controller:generic-garbage-collector",
    "system:controller:clusterrole-aggregation-controller", ACCESS_ROLE,
])  # fmt: skip
def test_cluster_roles(name):
    """Roles that tools and documentation rely on are there."""
    assert name in objects_of("clusterroles")


@pytest.mark.parametrize(("name", "role", "groups"), [
    ("cluster-admin", "cluster-admin", ["system:masters"]),
    ("system:discovery", "system:discovery", ["system:authenticated"]),
    ("system:basic-user", "system:basic-user", ["system:authenticated"]),
    ("system:public-info-viewer", "system:public-info-viewer", ["system:authenticated", "system:unauthenticated"]),
    ("system:monitoring", "system:monitoring", ["system:monitoring"]),
    ("system:service-account-issuer-discovery", "system:service-account-issuer-discovery", ["system:serviceaccounts"]),
    ("system:kcp:admin", "cluster-admin", [KCP_ADMINS]),
    (CLUSTER_OPERATORS, CLUSTER_OPERATORS, [CLUSTER_OPERATORS]),
])  # fmt: skip
def test_cluster_role_bindings(name, role, groups):
    """Groups have the roles that they have upstream, and those of kcp."""
    binding = objects_of("clusterrolebindings")[name]
    assert binding["roleRef"]["name"] == role
    assert [(subject["kind"], subject["name"]) for subject in binding["subjects"]] == [("Group", group) for group in groups]


def test_administrators_and_anonymous_callers():
    """Full authority is bound to the two groups of administrators, and anonymous callers are bound to public information alone."""
    bindings = objects_of("clusterrolebindings").values()
    assert {subject["name"] for one in bindings if one["roleRef"]["name"] == "cluster-admin" for subject in one.get("subjects", ())} == {
        "system:masters", KCP_ADMINS,
    }  # fmt: skip
    anonymous = {"system:unauthenticated", "system:anonymous"}
    assert [one["roleRef"]["name"] for one in bindings if any(subject["name"] in anonymous for subject in one.get("subjects", ()))] == [
        "system:public-info-viewer"
    ]


def test_no_group_may_enter_by_itself():
    """The role with the permission to enter a cluster is bound to no caller; each cluster says who may."""
    assert objects_of("clusterroles")[ACCESS_ROLE]["rules"] == [{"nonResourceURLs": ["/"], "verbs": ["access"]}]
    for resource in ("clusterrolebindings", "rolebindings"):
        assert ACCESS_ROLE not in {one["roleRef"]["name"] for one in objects_of(resource).values()}


def test_operators_have_nothing_that_leads_further():
    """Every rule names its resources and verbs. What can be written is LogicalClusters, and bindings can be deleted."""
    writes: set[tuple[str, str]] = set()
    for rule in objects_of("clusterroles")[CLUSTER_OPERATORS]["rules"]:
        if "nonResourceURLs" in rule:
            assert rule == {"nonResourceURLs": ["/"], "verbs": ["access"]}
            continue
        assert "*" not in {*rule["apiGroups"], *rule["resources"], *rule["verbs"]}
        assert not any("/" in resource for resource in rule["resources"])
        for verb in set(rule["verbs"]) - {"get", "list", "watch"}:
            writes.update((resource, verb) for resource in rule["resources"])
    assert writes == {
        *(("logicalclusters", verb) for verb in ("create", "delete", "patch", "update")),
        ("clusterrolebindings", "delete"), ("rolebindings", "delete"),
    }  # fmt: skip


@pytest.mark.parametrize(("resource", "kind"), RESOURCES.items())
def test_form(resource, kind):
    """Objects have type, label and annotation, are in the order of their keys, and have the form in which the kind is stored."""
    found = objects_of(resource)
    assert list(found) == sorted(found)
    codec = struct_codec(f"io.k8s.api.rbac.v1.{kind}")
    assert codec is not None
    for place, obj in found.items():
        metadata = obj["metadata"]
        assert (obj["apiVersion"], obj["kind"]) == ("rbac.authorization.k8s.io/v1", kind)
        assert place == "/".join(filter(None, (metadata.get("namespace"), metadata["name"])))
        assert bool(metadata.get("namespace")) is resource.startswith("role")
        assert metadata["labels"]["kubernetes.io/bootstrapping"] == "rbac-defaults"
        assert metadata["annotations"] == {"rbac.authorization.kubernetes.io/autoupdate": "true"}
        again = orjson.loads(orjson.dumps(obj))
        codec.decode(again)
        codec.complete(again)
        assert again == obj


@pytest.mark.parametrize("resource", RESOURCES)
def test_objects_are_valid(resource):
    """Objects pass the validation of their kind, so that a client can change them."""
    strategy = STRATEGIES[resource]
    for place, obj in objects_of(resource).items():
        strategy.prepare_for_create(obj)
        assert (place, strategy.validate(obj), strategy.validate_name(obj["metadata"]["name"])) == (place, [], [])


def test_nothing_is_left_to_compose():
    """Composed roles have their rules already: the controller has nothing to do in a cluster without roles of its own."""
    roles = objects_of("clusterroles").values()
    assert {role["metadata"]["name"] for role in roles if "aggregationRule" in role} >= {"admin", "edit", "view"}
    assert composed(roles) == {}


@pytest.mark.parametrize("resource", ["clusterrolebindings", "rolebindings"])
def test_bindings_are_to_roles_that_exist(resource):
    """Each binding refers to a role that the cluster inherits, too."""
    cluster_roles, roles = objects_of("clusterroles"), objects_of("roles")
    for obj in objects_of(resource).values():
        reference = obj["roleRef"]
        if reference["kind"] == "Role":
            assert f"{obj['metadata']['namespace']}/{reference['name']}" in roles
        else:
            assert reference["name"] in cluster_roles


@pytest.mark.parametrize("resource", RESOURCES)
def test_identity(resource):
    """Each object has a uid of its own and the cluster's time of creation; asked again, they are the same."""
    found = objects_of(resource)
    uids = [obj["metadata"]["uid"] for obj in found.values()]
    assert len({uuid.UUID(uid) for uid in uids}) == len(uids)
    assert all(obj["metadata"]["creationTimestamp"] == CREATED for obj in found.values())
    assert inherited_by(resource)("team-a", "1", CREATED) == inherited_by(resource)("team-a", "1", CREATED)


@pytest.mark.parametrize(("cluster", "uid"), [("team-b", "1"), ("team-a", "2"), ("team-a/1", "")])
def test_identity_differs(cluster, uid):
    """No object has the uid of one in another cluster, nor of one in an earlier cluster of the same name."""
    ones = {obj["metadata"]["uid"] for resource in RESOURCES for obj in objects_of(resource).values()}
    others = {obj["metadata"]["uid"] for resource in RESOURCES for obj in objects_of(resource, cluster, uid).values()}
    assert len(ones) == len(others) == sum(len(objects_of(resource)) for resource in RESOURCES)
    assert not ones & others


@pytest.mark.parametrize("resource", RESOURCES)
def test_only_identity_differs(resource):
    """Clusters inherit equal objects, except for uid and time."""

    def without_identity(found):
        for obj in found.values():
            del obj["metadata"]["uid"], obj["metadata"]["creationTimestamp"]
        return found

    ours, theirs = objects_of(resource), objects_of(resource, "team-b", "2", "2025-01-01T00:00:00Z")
    assert without_identity(ours) == without_identity(theirs)
    assert [obj["metadata"]["name"] for obj in ours.values()] == [obj["metadata"]["name"] for obj in inherited_objects()[resource]]


def test_the_kinds_serve_them():
    """All four kinds are served with what clusters inherit."""
    rules = install()
    assert {key.resource for key in rules} == set(RESOURCES)
    for key, one in rules.items():
        assert one.inherited
        assert one.default_objects is not None
        assert one.default_objects("c", "1", CREATED) == inherited_by(key.resource)("c", "1", CREATED)
