"""Recordings: their requests, their texts, which are equal in each run, and their files."""

from __future__ import annotations

import json
import ssl
import urllib.error
import urllib.request

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.controllers.runtime.queue import Key
from kcp_py.testing import SnapshotMismatchError, compare, control_plane, record, serving

CONFIGMAPS = GroupVersionResource("", "v1", "configmaps")
CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a", "namespace": "default"}}


@pytest.fixture(scope="module")
def server():
    with serving() as server:
        yield server


def call(server, cluster, method, path, body=None, *, agent="ship-operator/1.0", token="", kind="application/json"):
    """The decoded answer of a request, a refusal included."""
    access = server.local.access
    request = urllib.request.Request(
        f"{cluster.url}/api/v1/namespaces/default/configmaps{path}",
        method=method,
        headers={"Authorization": f"Bearer {token or access.token}", "User-Agent": agent, "Content-Type": kind},
        data=body if isinstance(body, bytes) else None if body is None else json.dumps(body).encode(),
    )
    context = ssl.create_default_context(cadata=access.authority.decode())
    try:
        with urllib.request.urlopen(request, context=context, timeout=30) as answer:
            return json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return json.load(error)


def work(server, cluster):
    """What a controller does: a generated name, an update with what the server has set, conflicts, deletions."""
    made = call(server, cluster, "POST", "", {"metadata": {"generateName": "part-"}, "data": {"cluster": cluster.name}})
    name = made["metadata"]["name"]
    made["data"] = {"of": made["metadata"]["uid"], "at": "2026-01-02T03:04:05Z", "own": name}
    call(server, cluster, "PUT", f"/{name}", made)
    call(server, cluster, "PUT", f"/{name}", made)
    call(server, cluster, "GET", f"/{name}")
    call(server, cluster, "DELETE", f"/{name}")
    call(server, cluster, "DELETE", f"/{name}")


EXPECTED = """\
- cluster: cluster-1
  requests:
  - verb: create
    resource: configmaps
    namespace: default
    name: part-<1>
    body:
      data:
        cluster: cluster-1
      metadata:
        generateName: part-
    outcome: '201'
  - verb: update
    resource: configmaps
    namespace: default
    name: part-<1>
    body:
      apiVersion: v1
      data:
        at: <time>
        of: <uid-1>
        own: part-<1>
      kind: ConfigMap
      metadata:
        generateName: part-
        name: part-<1>
        namespace: default
    outcome: '200'
"""


def test_a_recording_is_equal_in_each_run(server):
    """Names of clusters, generated names, uids, versions and times differ between two runs; the texts do not."""
    texts = []
    for _ in range(2):
        with record(server) as recording:
            work(server, server.new_cluster("run"))
        texts.append(recording.text())
    assert compare(*texts) == ""
    assert texts[0].startswith(EXPECTED)
    outcomes = [request["outcome"] for request in recording.entries()[0]["requests"]]
    assert outcomes == ["201", "200", "409 Conflict", "200", "404 NotFound"]


def test_requests_are_chosen(server):
    """By user agent, user, cluster, verb and resource; after the block none is added."""
    first, second = server.new_cluster(), server.new_cluster()
    token = server.add_user("ann")
    with record(server, user_agent="^ship-", reads=True) as agents, record(server, user="ann") as users:
        with record(server, clusters=[second.name], exclude=["secrets"]) as clusters:
            call(server, first, "POST", "", CONFIGMAP)
            call(server, first, "GET", "", agent="kubectl")
            call(server, first, "GET", "")
            call(server, first, "DELETE", "/a", token=token, agent="kubectl")
            call(server, second, "DELETE", "/b")
        call(server, second, "DELETE", "/c")
    call(server, second, "DELETE", "/d")
    found = [(request.verb, request.name) for request in agents.requests]
    assert found == [
        ("create", "a"),
        ("list", ""),
        ("delete", "b"),
        ("delete", "c"),
    ]
    refused = [(request.verb, request.user, request.code, request.reason) for request in users.requests]
    assert refused == [("delete", "ann", 403, "Forbidden")]
    assert [request.name for request in clusters.requests] == ["b"]


def test_bodies_that_are_not_json(server):
    """YAML is decoded; anything else is named by type and size, and recorded with its refusal."""
    cluster = server.new_cluster()
    with record(server) as recording:
        call(server, cluster, "POST", "", b"{apiVersion: v1, kind: ConfigMap, metadata: {name: ark}}", kind="application/yaml")
        call(server, cluster, "POST", "", b"k8s\0...", kind="application/vnd.kubernetes.protobuf")
        call(server, cluster, "POST", "", b"{", kind="application/json")
        call(server, cluster, "POST", "", b"{a: [", kind="application/yaml")
    bodies = [request.body for request in recording.requests]
    assert bodies[0] == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "ark"}}
    assert bodies[1:] == ["<application/vnd.kubernetes.protobuf, 7 bytes>", "<application/json, 1 bytes>", "<application/yaml, 5 bytes>"]
    assert [request.code for request in recording.requests] == [201, 400, 400, 400]


def test_a_file_is_compared_and_written(server, tmp_path):
    """A missing file, an update, an equal run, and a difference as a diff."""
    file = tmp_path / "snapshots" / "ship.yaml"
    cluster = server.new_cluster()
    with record(server) as recording:
        call(server, cluster, "POST", "", CONFIGMAP)
    with pytest.raises(SnapshotMismatchError, match="does not exist: write it with --kcp-update"):
        recording.check(file)
    recording.check(file, update=True)
    recording.check(file)
    file.write_text(file.read_text().replace("'201'", "'409 AlreadyExists'"))
    with pytest.raises(SnapshotMismatchError, match=r"-    outcome: '409 AlreadyExists'\n\+    outcome: '201'"):
        recording.check(file)
    with pytest.raises(ValueError, match="name the file"):
        recording.check()


class Labeller:
    """A controller that marks each config map."""

    name = "labeller"
    per_cluster = 1

    def __init__(self, context):
        from kcp_py.controllers.runtime.controller import ControllerSource

        self.client = context.client
        self.sources = [ControllerSource(CONFIGMAPS)]

    async def reconcile(self, key: Key) -> int:
        if key.name == "a":
            document = {"metadata": {"labels": {"seen": "yes"}}}
            await self.client.patch(key.cluster, CONFIGMAPS, key.namespace, key.name, document=document)
        return 0


@pytest.mark.anyio
async def test_a_recorded_controller_counts_by_the_clock_of_its_server():
    """Its context has all that it would have without a recording."""
    from kcp_py.testing import FakeClock, Recording

    contexts = []

    def create(context):
        contexts.append(context)
        return Labeller(context)

    clock = FakeClock()
    async with control_plane(parts={"controllers": [Recording().controller(create)], "clock": clock}):
        assert [context.clock for context in contexts] == [clock]


@pytest.mark.anyio
async def test_clients_and_controllers_of_the_process_are_recorded():
    """With their refusals and watches; what they change after a call is not in the recording."""
    from kcp_py.testing import Recording

    recording, controlled = Recording(reads=True), Recording()
    async with control_plane(parts={"controllers": [controlled.controller(Labeller)]}) as server:
        cluster = await server.new_cluster("own")
        client = recording.client(server.client)
        obj = json.loads(json.dumps(CONFIGMAP))
        created = await client.create(cluster.name, CONFIGMAPS, obj)
        obj["data"] = {"later": "1"}
        with pytest.raises(StatusError):
            await client.create(cluster.name, CONFIGMAPS, CONFIGMAP)
        events = client.watch(cluster.name, CONFIGMAPS, resource_version=created["metadata"]["resourceVersion"])
        async for event in events:
            if event.obj["metadata"]["name"] == "a" and event.obj["metadata"].get("labels"):
                break
        await events.aclose()
        assert await client.find_kind(cluster.name, "v1", "ConfigMap") is not None
    assert [(request.verb, request.name, request.code) for request in recording.requests] == [
        ("create", "a", 201),
        ("create", "a", 409),
        ("watch", "", 200),
    ]
    assert "later" not in recording.text()
    first = controlled.entries()[0]["requests"][0]
    assert (first["verb"], first["name"], first["body"]["metadata"]) == ("patch", "a", {"labels": {"seen": "yes"}})
