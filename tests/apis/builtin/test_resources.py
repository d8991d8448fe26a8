"""The built-in kinds put together."""

from __future__ import annotations

import pytest

from kcp_py.apimachinery.kinds import GroupResource
from kcp_py.apis.admissionregistration import install as admissionregistration
from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.registry.strategy import Strategy
from kcp_py.request.user import LOOPBACK

ADMISSION = {str(name) for name in admissionregistration.install()}
RESOURCES = {resource.group_resource: resource for resource in builtin_resources("/registry")}


def of(group: str, plural: str):
    return RESOURCES[GroupResource(group, plural)]


def test_both_event_groups_share_their_storage():
    """An object that is written through one group is read through the other."""
    core, new = of("", "events"), of("events.k8s.io", "events")
    assert core.keys == new.keys
    assert (new.storage_group_version, new.group_version) == ("v1", "events.k8s.io/v1")
    assert new.storage_schema is core.schema
    assert new.storage_version_hash == core.storage_version_hash


def test_create_on_update():
    """Exactly the kinds for which upstream allows it are created by a PUT."""
    assert {str(name) for name, resource in RESOURCES.items() if resource.strategy.allow_create_on_update} == {
        "limitranges", "events", "events.events.k8s.io", "leases.coordination.k8s.io", "roles.rbac.authorization.k8s.io",
        "clusterroles.rbac.authorization.k8s.io", "rolebindings.rbac.authorization.k8s.io", "clusterrolebindings.rbac.authorization.k8s.io",
    }  # fmt: skip


def test_unconditional_update():
    """Exactly the kinds for which upstream refuses it need a resourceVersion."""
    assert {str(name) for name, resource in RESOURCES.items() if not resource.strategy.allow_unconditional_update} == {
        "leases.coordination.k8s.io", "customresourcedefinitions.apiextensions.k8s.io", "logicalclusters.core.kcp.io", *ADMISSION,
    }  # fmt: skip


def test_deleted_objects_are_returned():
    """Exactly the kinds for which upstream does so answer a DELETE with the object."""
    assert {str(name) for name, resource in RESOURCES.items() if resource.strategy.return_deleted_object} == {
        "namespaces", "serviceaccounts", "resourcequotas",
    }  # fmt: skip


def test_generation():
    """Kinds without a spec for controllers have no generation."""
    assert {str(name) for name, resource in RESOURCES.items() if resource.strategy.has_generation} == {
        "customresourcedefinitions.apiextensions.k8s.io", "logicalclusters.core.kcp.io", *ADMISSION,
    }  # fmt: skip


def test_subresources():
    """The kinds have the subresources of upstream, in the order of discovery, each with the verbs that it has there."""
    found = {str(name): {one.name: one.verbs for one in resource.subresources.values()} for name, resource in RESOURCES.items()}
    changed = ("get", "patch", "update")
    assert {name: list(table.items()) for name, table in found.items() if table} == {
        "namespaces": [("finalize", ("update",)), ("status", changed)],
        "resourcequotas": [("status", changed)],
        "serviceaccounts": [("token", ("create",))],
        "validatingadmissionpolicies.admissionregistration.k8s.io": [("status", changed)],
        "customresourcedefinitions.apiextensions.k8s.io": [("status", changed)],
        "certificatesigningrequests.certificates.k8s.io": [("approval", changed), ("status", changed)],
        "logicalclusters.core.kcp.io": [("status", changed)],
    }


def test_strategies_can_be_replaced():
    """The rules of CustomResourceDefinitions are passed in."""
    mine = Strategy()
    name = GroupResource("apiextensions.k8s.io", "customresourcedefinitions")
    (crd,) = [resource for resource in builtin_resources("/registry", strategies={name: mine}) if resource.group_resource == name]
    assert crd.strategy is mine


def test_field_labels():
    """The fields by which kinds can be selected are upstream's."""
    assert dict(of("", "secrets").field_labels) == {"type": "type"}
    assert dict(of("", "namespaces").field_labels) == {"status.phase": "status.phase"}
    assert of("", "events").field_labels["involvedObject.uid"] == "involvedObject.uid"
    assert of("events.k8s.io", "events").field_labels["regarding.uid"] == "regarding.uid"


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda resource: str(resource.group_resource))
def test_every_schema_compiles_and_accepts_the_smallest_object(resource):
    """Each kind can be decoded, prepared and checked from nothing but a name without a failure of the server."""
    name = "cluster" if resource.resource == "logicalclusters" else "a"
    obj = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": {"name": name}}
    if resource.namespaced:
        obj["metadata"]["namespace"] = "default"
    resource.schema.type_error(obj)
    assert resource.schema.prune(obj) == []
    resource.schema.default(obj)
    resource.strategy.prepare_for_create(obj)
    resource.schema.complete(obj)
    resource.strategy.fill_new(obj, LOOPBACK)
    assert resource.schema.validate(obj) == []
    resource.strategy.validate(obj)
    resource.strategy.validate_update(obj, obj)
    resource.strategy.warnings(obj, None)


@pytest.mark.parametrize("resource", RESOURCES.values(), ids=lambda resource: str(resource.group_resource))
@pytest.mark.parametrize("junk", [1, "x", [], {"a": 1}, [1], True, {"a": {"b": []}}], ids=repr)
def test_hostile_members_are_refused_or_survived(resource, junk):
    """Whatever a client puts into the members of an object, it gets an answer that blames the object."""
    from kcp_py.apimachinery.errors import StatusError

    metadata = {"name": "a", "namespace": "x"} if resource.namespaced else {"name": "a"}
    for member in resource.document["properties"].keys() - {"apiVersion", "kind", "metadata"}:
        obj = {"apiVersion": resource.group_version, "kind": resource.kind, "metadata": dict(metadata), member: junk}
        try:
            resource.schema.type_error(obj)
            resource.schema.prune(obj)
            resource.schema.default(obj)
            resource.strategy.prepare_for_create(obj)
            resource.schema.complete(obj)
            resource.strategy.fill_new(obj, LOOPBACK)
            resource.schema.validate(obj)
            resource.strategy.validate(obj)
            resource.strategy.validate_update(obj, obj)
        except StatusError as error:
            assert error.code == 400  # noqa: PT017 (an outcome, not the expectation)
