"""Paths and operations are those under which clients look for kinds."""

from __future__ import annotations

from typing import Any

from kcp_py.registry.resource import ALL_VERBS
from kcp_py.schema.publish.kinds import PublishedKind, PublishedSubresource
from kcp_py.schema.publish.operations import Operation, path_items

STATUS = PublishedSubresource("status", ("get", "patch", "update"))
WIDGET = PublishedKind(
    group="example.com",
    version="v1",
    kind="Widget",
    list_kind="WidgetList",
    plural="widgets",
    namespaced=True,
    verbs=ALL_VERBS,
    subresources=(STATUS,),
    patch_types=("application/apply-patch+yaml", "application/merge-patch+json"),
    document={},
)


def operations(kind: PublishedKind) -> dict[tuple[str, str], Operation]:
    return {(item.path, operation.method): operation for item in path_items(kind) for operation in item.operations}


def parameters(operation: Operation) -> list[str]:
    return [parameter.name for parameter in operation.parameters]


def test_paths_of_namespaced_kinds():
    """Collections are below a namespace and across all; objects and their status below a namespace."""
    root = "/apis/example.com/v1"
    assert {(path, method): operation.action for (path, method), operation in operations(WIDGET).items()} == {
        (f"{root}/widgets", "get"): "list",
        (f"{root}/namespaces/{{namespace}}/widgets", "get"): "list",
        (f"{root}/namespaces/{{namespace}}/widgets", "post"): "post",
        (f"{root}/namespaces/{{namespace}}/widgets", "delete"): "deletecollection",
        (f"{root}/namespaces/{{namespace}}/widgets/{{name}}", "get"): "get",
        (f"{root}/namespaces/{{namespace}}/widgets/{{name}}", "put"): "put",
        (f"{root}/namespaces/{{namespace}}/widgets/{{name}}", "patch"): "patch",
        (f"{root}/namespaces/{{namespace}}/widgets/{{name}}", "delete"): "delete",
        (f"{root}/namespaces/{{namespace}}/widgets/{{name}}/status", "get"): "get",
        (f"{root}/namespaces/{{namespace}}/widgets/{{name}}/status", "put"): "put",
        (f"{root}/namespaces/{{namespace}}/widgets/{{name}}/status", "patch"): "patch",
    }


def test_paths_of_cluster_scoped_core_kinds():
    """The core group is below /api, and a kind without namespaces has one collection."""
    kind = WIDGET._replace(group="", namespaced=False, subresources=())
    assert {path for path, _ in operations(kind)} == {"/api/v1/widgets", "/api/v1/widgets/{name}"}


def test_operation_ids():
    """Generated clients are named by these."""
    assert {operation.operation_id for operation in operations(WIDGET).values()} == {
        "listExampleComV1WidgetForAllNamespaces", "listExampleComV1NamespacedWidget", "createExampleComV1NamespacedWidget",
        "deleteExampleComV1CollectionNamespacedWidget", "readExampleComV1NamespacedWidget", "replaceExampleComV1NamespacedWidget",
        "patchExampleComV1NamespacedWidget", "deleteExampleComV1NamespacedWidget", "readExampleComV1NamespacedWidgetStatus",
        "replaceExampleComV1NamespacedWidgetStatus", "patchExampleComV1NamespacedWidgetStatus",
    }  # fmt: skip


def test_writes_take_dry_run_field_manager_and_field_validation():
    """With these parameters on PATCH, kubectl leaves validation to the server and trusts its dry run."""
    for (_, method), operation in operations(WIDGET).items():
        if method in {"post", "put", "patch"}:
            assert parameters(operation)[:3] == ["dryRun", "fieldManager", "fieldValidation"]
        if method == "patch":
            assert parameters(operation)[3:] == ["force"]
            assert operation.body_types == WIDGET.patch_types


def test_only_served_verbs_are_published():
    """A kind that is going away offers what can still be done with it."""
    left = (STATUS._replace(verbs=("get",)), STATUS._replace(name="gone", verbs=()))
    kind: Any = WIDGET._replace(verbs=("delete", "deletecollection", "get", "list", "watch"), subresources=left)
    assert not any(path.endswith("/gone") for path, _ in operations(kind))
    assert {operation.action for operation in operations(kind).values()} == {"delete", "deletecollection", "get", "list"}


def test_subresources_have_operations_of_their_own():
    """Named after the kind and the subresource, as upstream names those of pods and service accounts; with the model of their bodies."""
    kinds = {"group": "policy", "kind": "Eviction", "version": "v1"}
    subresources = (
        PublishedSubresource("eviction", ("create",), "io.k8s.api.policy.v1.Eviction", kinds),
        PublishedSubresource("port", ("delete", "get")),
    )
    found = operations(WIDGET._replace(verbs=(), subresources=subresources))
    root = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"
    assert {key: operation.operation_id for key, operation in found.items()} == {
        (f"{root}/eviction", "post"): "createExampleComV1NamespacedWidgetEviction",
        (f"{root}/port", "get"): "readExampleComV1NamespacedWidgetPort",
        (f"{root}/port", "delete"): "deleteExampleComV1NamespacedWidgetPort",
    }
    evicted = found[f"{root}/eviction", "post"]
    assert (evicted.answer, evicted.body, evicted.group_version_kind) == (evicted.body, "io.k8s.api.policy.v1.Eviction", kinds)
    assert parameters(evicted) == ["dryRun", "fieldManager", "fieldValidation"]
    assert found[f"{root}/port", "get"].answer == WIDGET.model
    assert found[f"{root}/port", "get"].group_version_kind is None
