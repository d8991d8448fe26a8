"""A server in a thread: calls from threads, event loops and forked processes, exceptions, and its end."""

from __future__ import annotations

import asyncio
import base64
import json
import multiprocessing
import os
import signal
import ssl
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.testing import Server, serving

CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
ROLE = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "reader"},
    "rules": [{"apiGroups": [""], "resources": ["configmaps"], "verbs": ["list"]}],
}
BINDING = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRoleBinding",
    "metadata": {"name": "reader"},
    "subjects": [{"kind": "Group", "name": "readers", "apiGroup": "rbac.authorization.k8s.io"}],
    "roleRef": {"kind": "ClusterRole", "name": "reader", "apiGroup": "rbac.authorization.k8s.io"},
}


@pytest.fixture(scope="module")
def server():
    with serving() as server:
        yield server


def ask(cluster, token=None):
    """The status of a list with the credentials of a kubeconfig."""
    document = cluster.kubeconfig(token=token)
    authority = base64.b64decode(document["clusters"][0]["cluster"]["certificate-authority-data"]).decode()
    request = urllib.request.Request(
        document["clusters"][0]["cluster"]["server"] + "/api/v1/namespaces/default/configmaps",
        headers={"Authorization": f"Bearer {document['users'][0]['user']['token']}"},
    )
    try:
        with urllib.request.urlopen(request, context=ssl.create_default_context(cadata=authority), timeout=30) as answer:
            json.load(answer)
            return answer.status
    except urllib.error.HTTPError as error:
        error.close()
        return error.code


def test_clusters_of_many_threads(server):
    """Each thread has its own cluster, and none waits for another."""

    def use(number):
        with server.cluster(f"thread {number}") as cluster:
            cluster.apply({**CONFIGMAP, "data": {"n": str(number)}})
            return cluster.name, cluster.get("configmaps", "a")["data"]["n"]

    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(use, range(16)))
    assert [value for _, value in found] == [str(number) for number in range(16)]
    assert len({name for name, _ in found}) == 16


def test_users_have_the_permissions_of_their_roles(server):
    """A token of the server's own table, in a cluster with and in one without the role."""
    token = server.add_user("ann", ["readers"])
    cluster, other = server.new_cluster(), server.new_cluster()
    cluster.apply(ROLE, BINDING)
    assert (ask(cluster, token), ask(other, token), ask(cluster), ask(cluster, "wrong")) == (200, 403, 200, 401)


def test_code_on_another_event_loop(server):
    """Coroutines of asyncio, and the blocking methods between them."""
    cluster = server.new_cluster()

    async def use():
        waiting = asyncio.ensure_future(cluster.objects.wait_for("configmaps", "a", lambda obj: obj["data"]["n"]))
        cluster.apply(CONFIGMAP)
        await cluster.objects.apply({**CONFIGMAP, "data": {"n": "1"}})
        assert (await waiting)["data"] == {"n": "1"}
        with pytest.raises(StatusError):
            await cluster.objects.get("configmaps", "b")
        return [obj["data"] for obj in await cluster.objects.list("configmaps", "default") if "data" in obj and "n" in obj["data"]]

    assert asyncio.run(use()) == [{"n": "1"}]


def test_code_on_trio(server):
    """Its coroutines wait in a thread."""
    trio = pytest.importorskip("trio", reason="trio is not installed")
    cluster = server.new_cluster()

    async def use():
        return await cluster.objects.apply(CONFIGMAP)

    assert trio.run(use)[0]["metadata"]["name"] == "a"


def test_calls_that_could_never_end_are_errors(server):
    """On the event loop of the server itself, and after its end."""

    async def nested():
        server.new_cluster()

    with pytest.raises(RuntimeError, match="await the coroutine"):
        server.run(nested())
    with serving() as ended:
        cluster = ended.new_cluster()
    with pytest.raises(RuntimeError, match="does not run"):
        cluster.get("configmaps", "a")
    ended.stop()


def test_a_start_that_fails_raises_why():
    """Where `serving` is entered; no thread remains."""
    before = threading.active_count()
    with pytest.raises(TypeError, match="colour"), serving(colour="red"):
        pass
    assert threading.active_count() == before


def test_several_run_at_once(server):
    """With their own users and files."""
    with serving() as other:
        assert other.url != server.url
        assert ask(other.new_cluster(), server.local.users.admin_token) == 401
        root = other.local.control_plane.options.root_directory
    assert not root.exists()


def _in_child(server, cluster, pipe):
    answers = [ask(cluster)]
    try:
        server.new_cluster()
    except RuntimeError as error:
        answers.append(str(error))
    server.stop()
    pipe.send(answers)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the platform has no fork")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*:DeprecationWarning")
def test_a_forked_process_uses_urls_and_leaves_the_server_alone(server):
    """Calls there are errors instead of waits without an end; its exit removes nothing."""
    cluster = server.new_cluster()
    path = cluster.write_kubeconfig()
    receiving, sending = multiprocessing.Pipe()
    child = multiprocessing.get_context("fork").Process(target=_in_child, args=(server, cluster, sending))
    child.start()
    assert receiving.poll(60)
    status, message = receiving.recv()
    child.join()
    assert status == 200
    assert "was forked from" in message
    assert path.exists()
    assert ask(cluster) == 200


INTERRUPTED = """
import signal
from kcp_py.testing import serving
# A shell has its commands in the background ignore the signal.
signal.signal(signal.SIGINT, signal.default_int_handler)
with serving() as server:
    print(server.local.control_plane.options.root_directory, flush=True)
    cluster = server.new_cluster()
    cluster.wait_for("configmaps", "never", lambda obj: print("never") or True)
"""
LEFT_OPEN = """
from kcp_py.testing import Server
server = Server()
server.start()
print(server.local.control_plane.options.root_directory, flush=True)
"""


def test_an_interrupt_ends_the_server():
    """Ctrl-C in a call: the call is cancelled, the server ends in order, the files are gone."""
    process = subprocess.Popen([sys.executable, "-c", INTERRUPTED], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    root = process.stdout.readline().strip()
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert "KeyboardInterrupt" in err
    assert not Path(root).exists()


def test_a_server_that_is_never_stopped_leaves_no_files():
    """The end of the interpreter removes them."""
    finished = subprocess.run([sys.executable, "-c", LEFT_OPEN], capture_output=True, text=True, check=True, timeout=60)
    assert finished.stdout.strip()
    assert not Path(finished.stdout.strip()).exists()


def test_stop_before_start_is_nothing():
    """As a second stop is."""
    Server().stop()


FIRST = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "first"}, "data": {"n": "1"}}
SECOND = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "second"}}


def names(objects):
    return sorted(obj["metadata"]["name"] for obj in objects if obj["metadata"]["name"] != "kube-root-ca.crt")


def owned(owner):
    reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": owner["metadata"]["name"], "uid": owner["metadata"]["uid"]}
    return {**SECOND, "metadata": {"name": "second", "ownerReferences": [reference]}}


def test_a_cluster_is_as_it_was_saved(server):
    """Objects keep their uids; later ones are gone, deleted and changed ones are as before."""
    cluster = server.new_cluster()
    [stored] = cluster.apply(FIRST)
    saved = server.snapshots.save(cluster)
    cluster.apply(SECOND, {**FIRST, "data": {"n": "2"}})
    assert server.snapshots.restore(saved).cluster == cluster.name
    assert names(cluster.list("configmaps")) == ["first"]
    restored = cluster.get("configmaps", "first")
    assert (restored["data"], restored["metadata"]["uid"]) == ({"n": "1"}, stored["metadata"]["uid"])
    cluster.delete("configmaps", "first")
    assert cluster.restore(saved).written == 1
    assert cluster.get("configmaps", "first")["metadata"]["uid"] == stored["metadata"]["uid"]


@pytest.mark.parametrize("of", ["cluster", "snapshot"])
def test_clones_are_new_clusters(server, of):
    """Each with objects of its own: new uids, owners among the copies, and nothing that is written in another one."""
    template = server.new_cluster("template")
    [first] = template.apply(FIRST)
    template.apply(owned(first))
    source = template if of == "cluster" else template.save()
    one, other = server.snapshots.clone(source, "My Shop"), server.snapshots.clone(source)
    assert one.name.startswith("my-shop-")
    one.apply({**FIRST, "data": {"n": "2"}})
    assert other.get("configmaps", "first")["data"] == template.get("configmaps", "first")["data"] == {"n": "1"}
    copy, child = one.get("configmaps", "first"), one.get("configmaps", "second")
    assert copy["metadata"]["uid"] != first["metadata"]["uid"]
    assert child["metadata"]["ownerReferences"][0]["uid"] == copy["metadata"]["uid"]


def test_another_server_takes_the_content(server):
    """As a new cluster, from a cluster and from a file, and in the place of what a cluster had."""
    template = server.new_cluster()
    [first] = template.apply(FIRST)
    saved = type(template.save()).from_bytes(template.save().to_bytes())
    with serving(controllers=()) as other:
        for cluster in (other.snapshots.clone(template), other.new_cluster(content=saved)):
            assert cluster.server is other
            assert names(cluster.list("configmaps")) == ["first"]
        replaced = other.new_cluster()
        replaced.apply(SECOND)
        other.snapshots.restore(saved, replaced)
        assert names(replaced.list("configmaps")) == ["first"]
        assert replaced.get("configmaps", "first")["metadata"]["uid"] != first["metadata"]["uid"]
        assert other.snapshots.save(replaced.name).cluster == replaced.name
    with pytest.raises(RuntimeError, match="does not run"):
        other.snapshots.restore(saved)


def test_what_does_not_exist_cannot_be_saved(server):
    """The server answers with its 404; a name of no cluster is refused."""
    with pytest.raises(StatusError) as refused:
        server.snapshots.save("missing")
    assert refused.value.code == 404
    with pytest.raises(ValueError, match="No Name"):
        server.snapshots.save("No Name")
