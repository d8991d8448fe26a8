"""Completion of CRDs of upstream kinds."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kcp_py.apis.upstream.crds import crds_named
from kcp_py.apis.upstream.forms import completed, kind_form
from kcp_py.apis.upstream.provider import UpstreamKinds
from kcp_py.bootstrap.upstream_kinds import upstream_models
from kcp_py.registry.catalog.compilation import CompiledCRDs
from kcp_py.registry.custom_resources import CustomResourceStrategy
from kcp_py.registry.resource import ServedResource

POD = upstream_models()["io.k8s.api.core.v1.Pod"]


def stored(name: str) -> dict[str, Any]:
    """A CRD of an upstream kind as the store has it once its names are accepted."""
    (crd,) = copy.deepcopy(crds_named([name]))
    crd["spec"]["conversion"] = {"strategy": "None"}
    crd["status"] = {
        "acceptedNames": crd["spec"]["names"],
        "conditions": [{"type": "NamesAccepted", "status": "True"}, {"type": "Established", "status": "True"}],
        "storedVersions": [crd["spec"]["versions"][0]["name"]],
    }
    return crd


def served(name: str) -> ServedResource:
    return CompiledCRDs("/registry", upstream=UpstreamKinds()).compile(stored(name)).resources[0]


def test_the_kind_itself():
    """A CRD with the published schema is served as the kind: compiled in, with its type's name and strategic merge patch."""
    pods = served("pods")
    assert (pods.typed, pods.upstream_model) == (True, "io.k8s.api.core.v1.Pod")
    assert pods.strategic_merge is pods.document is POD
    assert pods.storage_version_hash == "xPOwRZ+Yhw8="
    assert pods.strategy.return_deleted_object
    assert pods.field_labels["spec.nodeName"] == "spec.nodeName"
    assert served("jobs").field_labels == {"status.successful": "status.succeeded"}


def test_compiled_schemas_are_shared():
    """Definitions of the same kind have one schema, and versions of one form have one."""
    assert served("pods").schema is served("pods").schema
    one, other = CompiledCRDs("/registry", upstream=UpstreamKinds()).compile(stored("resourceclaims")).resources
    assert one.schema is other.schema is one.storage_schema


def test_another_schema():
    """A CRD with a schema of its own stays a custom resource in all but the completed fields."""
    crd = stored("pods")
    schema = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    schema["properties"]["spec"]["properties"]["nodeName"]["maxLength"] = 5
    (pods,) = CompiledCRDs("/registry", upstream=UpstreamKinds()).compile(crd).resources
    assert (pods.typed, pods.upstream_model, pods.protobuf) == (False, "", True)
    assert pods.strategic_merge is not None
    containers = pods.strategic_merge["properties"]["spec"]["properties"]["containers"]
    assert containers["x-kubernetes-patch-merge-key"] == "name"
    assert pods.document is pods.strategic_merge


def test_other_kinds():
    """A kind, a version or a group that is not known is an ordinary custom resource."""
    crd = stored("pods")
    crd["spec"]["group"] = "example.com"
    (pods,) = CompiledCRDs("/registry", upstream=UpstreamKinds()).compile(crd).resources
    assert pods.strategic_merge is None
    assert type(pods.strategy) is CustomResourceStrategy
    spec, version = crd["spec"], crd["spec"]["versions"][0]
    assert kind_form({**spec, "group": ""}, {**version, "name": "v2"}) is None


def test_scope_belongs_to_the_kind():
    """A kind of another scope than the known one is not the kind itself."""
    crd = stored("pods")
    crd["spec"]["scope"] = "Cluster"
    (pods,) = CompiledCRDs("/registry", upstream=UpstreamKinds()).compile(crd).resources
    assert not pods.typed


@pytest.mark.parametrize(
    ("document", "result"),
    [
        ({"type": "array", "items": {"type": "object", "properties": {"name": {}}}}, ["merge", "name", "map"]),
        # Field ownership by keys needs the keys.
        ({"type": "array", "items": {"type": "object"}}, ["merge", "name", None]),
        ({"type": "array", "x-kubernetes-list-type": "atomic"}, ["merge", "name", "atomic"]),
        ({"type": "array", "x-kubernetes-patch-strategy": "replace"}, ["replace", "name", "map"]),
    ],
    ids=["all missing", "no keys", "own list type", "own strategy"],
)
def test_what_a_definition_says_itself_stays(document, result):
    """Only missing fields are completed."""
    if "items" not in document:
        document = {**document, "items": {"type": "object", "properties": {"name": {}}}}
    spec = {"type": "object", "properties": {"containers": document, "other": {"type": "string"}}}
    found = completed({"type": "object", "properties": {"spec": spec}}, POD)["properties"]["spec"]["properties"]
    keywords = ("x-kubernetes-patch-strategy", "x-kubernetes-patch-merge-key", "x-kubernetes-list-type")
    assert [found["containers"].get(keyword) for keyword in keywords] == result
    assert found["other"] == {"type": "string"}
    assert "x-kubernetes-patch-strategy" not in document or document["x-kubernetes-patch-strategy"] == "replace"
