"""The official Python client: typed calls, custom objects and its watch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from e2e.conftest import ServerProcess
from e2e.informer import create_definition, definition

kubernetes = pytest.importorskip("kubernetes", reason="the kubernetes client is not installed")


@pytest.fixture
def api(server: ServerProcess) -> Iterator[Any]:
    configuration = kubernetes.client.Configuration()
    configuration.host = f"{server.url}/clusters/py-client"
    configuration.ssl_ca_cert = str(server.ca_file)
    configuration.api_key = {"authorization": f"Bearer {server.token}"}
    with kubernetes.client.ApiClient(configuration) as client:
        yield client
        client.rest_client.pool_manager.clear()


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
