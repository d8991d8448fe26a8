"""The official Python client: typed calls, definitions, custom and dynamic objects, leases, all clusters at once, and its watch."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import create_definition, definition

kubernetes = pytest.importorskip("kubernetes", reason="the kubernetes client is not installed")
pytest.importorskip("kubernetes.dynamic", reason="the kubernetes client has no dynamic client")

pytestmark = pytest.mark.compatibility(
    "kubernetes (Python)",
    version("kubernetes"),
    "typed, custom and dynamic objects: create, read, replace, patch, list, watch, delete; cached discovery; leases; all clusters at once",
)


@pytest.fixture
def client(server: ServerProcess) -> Iterator[Callable[[str], Any]]:
    """Makes the client of a logical cluster, or of all for `*`."""
    with ExitStack() as stack:

        def of(cluster: str) -> Any:
            configuration = kubernetes.client.Configuration()
            configuration.host = f"{server.url}/clusters/{cluster}"
            configuration.ssl_ca_cert = str(server.ca_file)
            configuration.api_key = {"authorization": f"Bearer {server.token}"}
            made = stack.enter_context(kubernetes.client.ApiClient(configuration))
            stack.callback(made.rest_client.pool_manager.clear)
            return made

        yield of


@pytest.fixture
def api(client: Callable[[str], Any]) -> Any:
    return client("py-client")


def test_typed_calls_and_watch(api: Any) -> None:
    """A config map is created, read, replaced, patched, listed and deleted, and a watch resumes from its first version."""
    core = kubernetes.client.CoreV1Api(api)
    made = core.create_namespaced_config_map("default", {"metadata": {"name": "one"}, "data": {"n": "1"}})
    assert core.read_namespaced_config_map("one", "default").data == {"n": "1"}
    made.data = {"n": "2"}
    core.replace_namespaced_config_map("one", "default", made)
    core.patch_namespaced_config_map("one", "default", {"data": {"m": "3"}})
    assert [item.data for item in core.list_namespaced_config_map("default").items] == [{"n": "2", "m": "3"}]
    core.delete_namespaced_config_map("one", "default")
    watch = kubernetes.watch.Watch()
    events = []
    for event in watch.stream(
        core.list_namespaced_config_map, "default", resource_version=made.metadata.resource_version, timeout_seconds=60
    ):
        events.append(event["type"])
        if event["type"] == "DELETED":
            watch.stop()
    assert events == ["MODIFIED", "MODIFIED", "DELETED"]
    with pytest.raises(kubernetes.client.ApiException) as caught:
        core.read_namespaced_config_map("one", "default")
    assert caught.value.status == 404


def test_custom_objects(api: Any, server: ServerProcess) -> None:
    """Objects of a CRD are created, patched, listed and deleted."""
    create_definition(server, "py-client", definition("py.example.com", "things", "Thing", {"n": {"type": "integer"}}))
    custom = kubernetes.client.CustomObjectsApi(api)
    where = ("py.example.com", "v1", "default", "things")
    thing = {"apiVersion": "py.example.com/v1", "kind": "Thing", "metadata": {"name": "one"}, "spec": {"n": 1}}
    custom.create_namespaced_custom_object(*where, thing)
    assert custom.patch_namespaced_custom_object(*where, "one", {"spec": {"n": 2}})["spec"] == {"n": 2}
    assert [item["spec"] for item in custom.list_namespaced_custom_object(*where)["items"]] == [{"n": 2}]
    custom.delete_namespaced_custom_object(*where, "one")
    assert custom.list_namespaced_custom_object(*where)["items"] == []


def test_definitions_and_dynamic_client(api: Any, tmp_path: Path) -> None:
    """A typed CRD becomes Established, and the dynamic client discovers, creates, patches, watches and deletes its objects."""
    extensions = kubernetes.client.ApiextensionsV1Api(api)
    manifest = definition("dynamic.example.com", "widgets", "Widget", {"n": {"type": "integer"}, "m": {"type": "string"}})
    made = extensions.create_custom_resource_definition(manifest)
    watch = kubernetes.watch.Watch()
    for event in watch.stream(
        extensions.list_custom_resource_definition,
        field_selector=f"metadata.name={made.metadata.name}",
        resource_version=made.metadata.resource_version,
        timeout_seconds=60,
    ):
        if any(one.type == "Established" and one.status == "True" for one in event["object"].status.conditions or ()):
            watch.stop()
    read = extensions.read_custom_resource_definition(made.metadata.name)
    assert {one.type: one.status for one in read.status.conditions} == {"NamesAccepted": "True", "Established": "True"}

    dynamic = kubernetes.dynamic.DynamicClient(api, cache_file=str(tmp_path / "discovery.json"))
    widgets = dynamic.resources.get(api_version="dynamic.example.com/v1", kind="Widget")
    assert (widgets.name, widgets.namespaced) == ("widgets", True)
    body = {"apiVersion": "dynamic.example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"n": 1}}
    created = widgets.create(body=body, namespace="default")
    merge = "application/merge-patch+json"
    assert widgets.patch(body={"spec": {"m": "x"}}, name="one", namespace="default", content_type=merge).spec.to_dict() == {
        "n": 1,
        "m": "x",
    }
    read = widgets.get(name="one", namespace="default")
    read.spec.n = 2
    assert widgets.replace(body=read, namespace="default").spec.to_dict() == {"n": 2, "m": "x"}
    with pytest.raises(kubernetes.dynamic.exceptions.UnprocessibleEntityError):
        widgets.patch(body={"spec": {"n": "text"}}, name="one", namespace="default", content_type=merge)
    widgets.delete(name="one", namespace="default")
    watcher = kubernetes.watch.Watch()
    seen = []
    for event in widgets.watch(
        namespace="default", name="one", resource_version=created.metadata.resourceVersion, timeout=60, watcher=watcher
    ):
        seen.append((event["type"], event["object"].spec.to_dict()))
        if event["type"] == "DELETED":
            watcher.stop()
    assert seen == [("MODIFIED", {"n": 1, "m": "x"}), ("MODIFIED", {"n": 2, "m": "x"}), ("DELETED", {"n": 2, "m": "x"})]
    with pytest.raises(kubernetes.dynamic.exceptions.NotFoundError):
        widgets.get(name="one", namespace="default")


def test_cached_discovery(api: Any, tmp_path: Path) -> None:
    """The next client reads the cached discovery from a file, and repeats the discovery for a later kind; eager discovery finds all."""
    cache = tmp_path / "discovery.json"
    first = kubernetes.dynamic.DynamicClient(api, cache_file=str(cache))
    assert first.resources.get(api_version="v1", kind="ConfigMap").name == "configmaps"
    with pytest.raises(kubernetes.dynamic.exceptions.ResourceNotFoundError):
        first.resources.get(api_version="late.example.com/v1", kind="Late")
    assert cache.exists()
    manifest = definition("late.example.com", "lates", "Late", {})
    made = kubernetes.client.ApiextensionsV1Api(api).create_custom_resource_definition(manifest)
    watch = kubernetes.watch.Watch()
    for event in watch.stream(
        kubernetes.client.ApiextensionsV1Api(api).list_custom_resource_definition,
        field_selector=f"metadata.name={made.metadata.name}",
        timeout_seconds=60,
    ):
        if any(one.type == "Established" and one.status == "True" for one in event["object"].status.conditions or ()):
            watch.stop()
    second = kubernetes.dynamic.DynamicClient(api, cache_file=str(cache))
    assert second.resources.get(api_version="late.example.com/v1", kind="Late").name == "lates"
    eager = kubernetes.dynamic.DynamicClient(api, cache_file=str(tmp_path / "eager.json"), discoverer=kubernetes.dynamic.EagerDiscoverer)
    assert {one.kind for one in eager.resources.search(group="late.example.com")} >= {"Late"}


def test_all_clusters(client: Callable[[str], Any], server: ServerProcess) -> None:
    """Lists and watches at `/clusters/*` have the objects of every cluster, distinguished by their annotation."""
    names = ["py-wild-a", "py-wild-b"]
    shared = definition("wild.example.com", "gears", "Gear", {"n": {"type": "integer"}})
    for name in names:
        create_definition(server, name, shared)
    everywhere = client("*")
    core, custom = kubernetes.client.CoreV1Api(everywhere), kubernetes.client.CustomObjectsApi(everywhere)
    group = ("wild.example.com", "v1", "gears")
    selected = {"label_selector": "of=py-wild"}
    maps_from = core.list_config_map_for_all_namespaces(**selected).metadata.resource_version
    gears_from = custom.list_cluster_custom_object(*group, **selected)["metadata"]["resourceVersion"]
    for name in names:
        one = client(name)
        metadata = {"name": "same", "labels": {"of": "py-wild"}}
        kubernetes.client.CoreV1Api(one).create_namespaced_config_map("default", {"metadata": metadata, "data": {"in": name}})
        gear = {"apiVersion": "wild.example.com/v1", "kind": "Gear", "metadata": metadata, "spec": {"n": len(name)}}
        kubernetes.client.CustomObjectsApi(one).create_namespaced_custom_object(group[0], group[1], "default", group[2], gear)

    maps = core.list_config_map_for_all_namespaces(**selected).items
    assert {item.metadata.annotations["kcp.io/cluster"]: item.data["in"] for item in maps} == {name: name for name in names}
    gears = custom.list_cluster_custom_object(*group, **selected)["items"]
    assert sorted(item["metadata"]["annotations"]["kcp.io/cluster"] for item in gears) == names

    def watched(call: Any, *arguments: Any, **options: Any) -> list[Any]:
        watch = kubernetes.watch.Watch()
        found: list[Any] = []
        for event in watch.stream(call, *arguments, timeout_seconds=60, **selected, **options):
            assert event["type"] == "ADDED"
            found.append(event["raw_object"]["metadata"]["annotations"]["kcp.io/cluster"])
            if len(found) == len(names):
                watch.stop()
        return found

    assert watched(core.list_config_map_for_all_namespaces, resource_version=maps_from) == names
    assert watched(custom.list_cluster_custom_object, *group, resource_version=gears_from) == names


def test_watch_ends_by_its_timeout(api: Any) -> None:
    """A watch with `timeout_seconds` delivers the existing objects and then ends, which is not an error for the client."""
    core = kubernetes.client.CoreV1Api(api)
    core.create_namespaced_secret("default", {"metadata": {"name": "ends"}, "stringData": {"k": "v"}})
    events = [
        (event["type"], event["object"].metadata.name)
        for event in kubernetes.watch.Watch().stream(
            core.list_namespaced_secret, "default", field_selector="metadata.name=ends", timeout_seconds=1
        )
    ]
    assert set(events) == {("ADDED", "ends")}


def test_lease(api: Any) -> None:
    """A lease is acquired and renewed by its holder; a holder with an older version receives a conflict."""
    coordination = kubernetes.client.CoordinationV1Api(api)
    acquired = dt.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=dt.UTC)
    renewed = acquired + dt.timedelta(seconds=10)
    spec = kubernetes.client.V1LeaseSpec(
        holder_identity="a", lease_duration_seconds=15, acquire_time=acquired, renew_time=acquired, lease_transitions=0
    )
    lease = kubernetes.client.V1Lease(metadata=kubernetes.client.V1ObjectMeta(name="leader"), spec=spec)
    mine = coordination.create_namespaced_lease("default", lease)
    theirs = coordination.read_namespaced_lease("leader", "default")
    assert (mine.spec.renew_time, mine.spec.holder_identity) == (acquired, "a")
    mine.spec.renew_time = renewed
    assert coordination.replace_namespaced_lease("leader", "default", mine).spec.renew_time == renewed
    theirs.spec.holder_identity = "b"
    with pytest.raises(kubernetes.client.ApiException) as caught:
        coordination.replace_namespaced_lease("leader", "default", theirs)
    assert (caught.value.status, json.loads(caught.value.body)["reason"]) == (409, "Conflict")
    assert coordination.read_namespaced_lease("leader", "default").spec.holder_identity == "a"
    with pytest.raises(kubernetes.client.ApiException) as caught:
        coordination.create_namespaced_lease("default", lease)
    assert (caught.value.status, json.loads(caught.value.body)["reason"]) == (409, "AlreadyExists")
