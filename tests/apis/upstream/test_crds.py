"""CRDs of upstream kinds."""

from __future__ import annotations

import copy

import pytest

import kcp_py
from kcp_py.apis.upstream.crds import crds_named, crds_of, versions_of
from kcp_py.bootstrap.upstream_kinds import upstream_kinds
from kcp_py.schema.crd.validation import default_crd, initial_status, validate_crd

EVERY = crds_named(["all"])


@pytest.mark.parametrize("definition", EVERY, ids=[definition["metadata"]["name"] for definition in EVERY])
def test_every_definition_is_valid(definition):
    """Each passes the rules of apiextensions.k8s.io, with schemas that are structural."""
    definition = copy.deepcopy(definition)
    default_crd(definition)
    definition["status"] = initial_status(definition)
    assert validate_crd(definition) == []


def test_what_a_definition_has():
    """Names, scope, subresources and selectable fields are those of the kind."""
    (pods,) = crds_named(["pods"])
    assert pods["metadata"] == {"name": "pods.core"}
    assert pods["spec"]["group"] == ""
    assert pods["spec"]["names"] == {
        "kind": "Pod",
        "listKind": "PodList",
        "plural": "pods",
        "singular": "pod",
        "shortNames": ["po"],
        "categories": ["all"],
    }
    version = pods["spec"]["versions"][0]
    assert version["subresources"] == {"status": {}}
    assert {"jsonPath": ".spec.nodeName"} in version["selectableFields"]
    spec = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
    ports = spec["properties"]["containers"]["items"]["properties"]["ports"]
    assert ports["x-kubernetes-list-map-keys"] == ["containerPort", "protocol"]
    (deployments,) = crds_named(["deployments"])
    assert deployments["spec"]["versions"][0]["subresources"] == {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
    }


def test_groups_of_kubernetes_domains_carry_their_approval():
    """Without the annotation no kind may be defined in them."""
    (policies,) = crds_named(["networkpolicies"])
    assert list(policies["metadata"]["annotations"]) == ["api-approved.kubernetes.io"]


def test_versions_that_differ_in_name_alone_are_offered_together():
    """The preferred one comes first and is stored; one of another form cannot be converted and is left out."""
    assert [row.version for row in versions_of("storagemigration.k8s.io", "StorageVersionMigration")] == ["v1", "v1beta1"]
    assert [row.version for row in versions_of("resource.k8s.io", "ResourceClaim")] == ["v1", "v1beta2"]
    (claims,) = crds_named(["resourceclaims"])
    assert [(version["name"], version["storage"]) for version in claims["spec"]["versions"]] == [("v1", True), ("v1beta2", False)]
    assert len(crds_of(list(upstream_kinds().values()))) == len(EVERY)


def test_library():
    """The package hands definitions out, and tells what it does not know."""
    assert [definition["metadata"]["name"] for definition in kcp_py.builtin_definitions("po", "Deployment")] == [
        "pods.core",
        "deployments.apps",
    ]
    with pytest.raises(ValueError, match='"widgets" is not a kind of Kubernetes'):
        kcp_py.builtin_definitions("widgets")
