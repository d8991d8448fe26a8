"""A caching proxy in front of a real server: answers, permissions, consistency, losses."""

from __future__ import annotations

import asyncio
import re
import shutil
import ssl
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from kcp_py.options import Options
from kcp_py.proxy.application import CachingProxy, ProxySettings
from kcp_py.proxy.serving import serve_proxy
from tests.authz.conftest import binding
from tests.proxy.conftest import ADMIN, BOB, CACHED, CLUSTER, DEFAULT, MAPS, PATIENCE, Proxied, World, configmap
from tests.proxy.scripted import scripted
from tests.proxy.scripted import until as until_true
from tests.serving.authorities import Issued, client_context, new_authority

pytestmark = pytest.mark.anyio
ROLES = f"{CLUSTER}/apis/rbac.authorization.k8s.io/v1"
METADATA = {"Accept": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}


async def until(condition, *arguments) -> None:
    async with asyncio.timeout(PATIENCE):
        while not await condition(*arguments):
            await asyncio.sleep(0.02)


async def permit(proxied: Proxied, subject: str, *verbs: str) -> None:
    """A role in the namespace default, and entry to the cluster."""
    client = proxied.client
    rules = [{"apiGroups": [""], "resources": ["configmaps"], "verbs": list(verbs)}]
    place = f"{ROLES}/namespaces/default"
    assert (await client.post(f"{place}/roles", json={"metadata": {"name": "maps"}, "rules": rules})).status_code == 201
    kind, _, name = subject.partition(":")
    subjects = [{"apiGroup": "rbac.authorization.k8s.io", "kind": kind, "name": name}]
    reference = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "maps"}
    body = {"metadata": {"name": "maps"}, "roleRef": reference, "subjects": subjects}
    assert (await client.post(f"{place}/rolebindings", json=body)).status_code == 201
    members = binding("members", "system:kcp:workspace:access", "Group:system:authenticated")
    assert (await client.post(f"{ROLES}/clusterrolebindings", json=members)).status_code in {201, 409}


async def test_reads_of_the_cache(world: World) -> None:
    """They are those of the API server, from one list and one watch."""
    async with world.proxy() as proxied:
        await proxied.create(configmap("one", {"app": "a"}, key="1"), configmap("two", {"app": "b"}))
        direct = (await proxied.client.get(DEFAULT)).json()
        await proxied.names(MAPS)
        world.asked.clear()
        for _ in range(20):
            cached = await proxied.client.get(DEFAULT, params=CACHED)
            assert [{"apiVersion": "v1", "kind": "ConfigMap", **item} for item in direct["items"]] == cached.json()["items"]
            assert cached.json()["kind"] == "ConfigMapList"
            assert await proxied.names(DEFAULT, labelSelector="app in (a)") == ["one"]
            assert await proxied.names(MAPS, fieldSelector="metadata.name=two") == ["two"]
            assert await proxied.names(f"{CLUSTER}/api/v1/namespaces/other/configmaps") == []
            found = (await proxied.client.get(f"{DEFAULT}/one", params=CACHED)).json()
            assert (found["kind"], found["data"]) == ("ConfigMap", {"key": "1"})
            page = (await proxied.client.get(DEFAULT, params=CACHED, headers=METADATA)).json()
            assert page["kind"] == "PartialObjectMetadataList"
            assert "data" not in page["items"][0]
        reads = {text: count for text, count in world.asked.items() if "configmaps" in text}
        assert reads == {}
        assert proxied.proxy.counts["cached"] >= 120


async def test_everything_else_is_passed_on(world: World) -> None:
    """Tables, protobuf, discovery, subresources, writes and errors are those of the API server."""
    async with (
        world.proxy(stale_ok=True) as proxied,
        httpx.AsyncClient(base_url=world.url, headers=ADMIN, verify=ssl.create_default_context(cafile=world.options.ca_file)) as direct,
    ):
        # More than a page of one, which makes pages.
        await proxied.create(configmap("one"), configmap("two"))
        table = "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"
        cases = [
            (DEFAULT, {"Accept": table}),
            (DEFAULT, {"Accept": "application/vnd.kubernetes.protobuf"}),
            (f"{CLUSTER}/apis", {}),
            (f"{CLUSTER}/openapi/v3", {}),
            (f"{DEFAULT}/missing", {}),
            (f"{DEFAULT}?fieldSelector=data.x%3D1", {}),
            (f"{CLUSTER}/nonsense", {}),
            (f"{DEFAULT}?pretty=true", {}),
            (f"{DEFAULT}?limit=1", {}),
            (f"{CLUSTER}/api/v1/namespaces/default/status", {}),
        ]
        for path, headers in cases:
            answers = [await client.get(path, headers=headers) for client in (proxied.client, direct)]
            assert [one.status_code for one in answers][:1] == [answers[1].status_code], path
            assert without_ages(answers[0].content) == without_ages(answers[1].content), path
            assert answers[0].headers["content-type"] == answers[1].headers["content-type"]
        answer = await proxied.client.post(DEFAULT, json=configmap("one"))
        assert answer.json()["reason"] == "AlreadyExists"
        head = await proxied.client.head(f"{DEFAULT}/one")
        assert head.content == b""


def without_ages(content: bytes) -> bytes:
    """An answer without the ages in its table, which go on between two requests."""
    return re.sub(rb'"[0-9]+s"', b'"AGE"', content)


async def test_reads_of_the_newest_state(world: World) -> None:
    """They are passed on, or with `stale_ok` at least as new as each write of this proxy."""
    async with world.proxy() as proxied:
        await proxied.create(configmap("zero"))
        await proxied.names(MAPS)
        world.asked.clear()
        for _ in range(3):
            assert (await proxied.client.get(f"{DEFAULT}/zero")).status_code == 200
        assert world.asked["get /api/v1/namespaces/default/configmaps/zero"] == 3
    async with world.proxy(stale_ok=True) as proxied:
        await proxied.client.get(MAPS)
        for number in range(50):
            (made,) = await proxied.create(configmap(f"map-{number}"))
            listed = (await proxied.client.get(DEFAULT)).json()
            assert f"map-{number}" in [item["metadata"]["name"] for item in listed["items"]]
            changed = await proxied.client.patch(
                f"{DEFAULT}/map-{number}", json={"data": {"n": str(number)}}, headers={"Content-Type": "application/merge-patch+json"}
            )
            assert changed.status_code == 200
            assert (await proxied.client.get(f"{DEFAULT}/map-{number}")).json()["data"] == {"n": str(number)}
            assert int(listed["metadata"]["resourceVersion"]) >= int(made["metadata"]["resourceVersion"])
            if number % 10 == 0:
                assert (await proxied.client.delete(f"{DEFAULT}/map-{number}")).status_code == 200
                assert (await proxied.client.get(f"{DEFAULT}/map-{number}")).status_code == 404


async def test_watches_share_one(world: World) -> None:
    """Twenty clients, one watch of the API server; each sees what it selects."""
    async with world.proxy() as proxied:
        await proxied.create(configmap("one", {"app": "a"}))
        version = (await proxied.client.get(MAPS)).json()["metadata"]["resourceVersion"]
        world.asked.clear()

        async def follow(number: int) -> list[tuple[str, str]]:
            query = {"resourceVersion": version, "labelSelector": "app=a"} if number % 2 else {"resourceVersion": "0"}
            async with proxied.watching(MAPS, None, **query) as watch:
                ready.release()
                return await watch.next(3 if number % 2 else 5)

        ready = asyncio.Semaphore(0)
        tasks = [asyncio.create_task(follow(number)) for number in range(20)]
        for _ in tasks:
            await ready.acquire()
        await proxied.create(configmap("two", {"app": "b"}), configmap("three", {"app": "a"}))
        patch = {"Content-Type": "application/merge-patch+json"}
        for name, label in (("three", "b"), ("two", "a")):
            body = {"metadata": {"labels": {"app": label}}}
            assert (await proxied.client.patch(f"{DEFAULT}/{name}", json=body, headers=patch)).status_code == 200
        found = await asyncio.gather(*tasks)
        assert found[0] == [("ADDED", "one"), ("ADDED", "two"), ("ADDED", "three"), ("MODIFIED", "three"), ("MODIFIED", "two")]
        assert found[1] == [("ADDED", "three"), ("DELETED", "three"), ("ADDED", "two")]
        assert all(one == found[number % 2] for number, one in enumerate(found))
        assert world.asked["watch /api/v1/configmaps"] == 1


async def test_streaming_lists(world: World) -> None:
    """The bookmark at their end has a version from which a watch goes on."""
    async with world.proxy() as proxied:
        await proxied.create(configmap("one"), configmap("two"))
        query = {"sendInitialEvents": "true", "resourceVersionMatch": "NotOlderThan", "allowWatchBookmarks": "true"}
        async with proxied.watching(MAPS, None, **query) as watch:
            assert await watch.next(2) == [("ADDED", "one"), ("ADDED", "two")]
            (end,) = await watch.events()
            assert end["type"] == "BOOKMARK"
            assert end["object"]["metadata"]["annotations"] == {"k8s.io/initial-events-end": "true"}
            version = end["object"]["metadata"]["resourceVersion"]
            await proxied.create(configmap("three"))
            assert await watch.next() == [("ADDED", "three")]
        async with proxied.watching(MAPS, resourceVersion=version) as watch:
            assert await watch.next() == [("ADDED", "three")]
        async with proxied.watching(MAPS, resourceVersion=version, timeoutSeconds="1") as watch:
            assert [event["type"] for event in await watch.rest()] == ["ADDED"]


async def test_permissions_are_those_of_the_caller(world: World) -> None:
    """The cache holds more than a caller may read: every answer is one that the API server allows."""
    async with world.proxy(decision_seconds=0, stale_ok=True) as proxied:
        await proxied.create(configmap("one"))
        kube = f"{CLUSTER}/api/v1/namespaces/kube-public/configmaps"
        await proxied.create(configmap("secret"), path=kube)
        assert await proxied.names(MAPS)
        await permit(proxied, "Group:dev", "get", "list", "watch")
        for path, expected in ((MAPS, 403), (DEFAULT, 200), (kube, 403), (f"{kube}/secret", 403), (f"{DEFAULT}/one", 200)):
            for query in (CACHED, {}):
                answer = await proxied.client.get(path, params=query, headers=BOB)
                assert answer.status_code == expected, (path, answer.text)
        for headers in ({"Authorization": "Bearer carol"}, {"Authorization": "Bearer nonsense"}, {"Authorization": "Basic x"}):
            answer = await proxied.client.get(DEFAULT, params=CACHED, headers=headers)
            assert answer.status_code in {401, 403}, answer.text
        async with httpx.AsyncClient(base_url=proxied.client.base_url) as stranger:
            assert (await stranger.get(DEFAULT, params=CACHED)).status_code == 403
            answer = await stranger.get(DEFAULT, params=CACHED, headers={"X-Remote-User": "admin", "X-Remote-Group": "system:masters"})
            assert answer.status_code == 403
            masters = {"Impersonate-User": "admin", "Impersonate-Group": "system:masters"}
            assert (await stranger.get(DEFAULT, params=CACHED, headers=masters)).status_code == 403
        assert (await proxied.client.get(DEFAULT, params=CACHED, headers={"Impersonate-User": "carol"})).status_code == 403
        assert (await proxied.client.get(DEFAULT, params=CACHED, headers={"Connection": "authorization"})).status_code == 400


async def test_permissions_that_end(world: World) -> None:
    """The next read is refused when a kept decision is old, and a running watch ends when it is checked."""
    checks = asyncio.Event()
    async with world.proxy(decision_seconds=0) as proxied:

        async def sleep(_: float) -> None:
            await checks.wait()
            await asyncio.sleep(0.01)

        proxied.proxy._sleep = sleep
        await proxied.create(configmap("one"))
        await permit(proxied, "User:bob", "list", "watch")
        assert await proxied.names(DEFAULT, headers=BOB) == ["one"]
        async with proxied.watching(DEFAULT, headers=BOB, resourceVersion="0") as watch:
            assert await watch.next() == [("ADDED", "one")]
            assert (await proxied.client.delete(f"{ROLES}/namespaces/default/rolebindings/maps")).status_code == 200
            checks.set()
            assert await watch.rest() == []

        async def refused() -> bool:
            return (await proxied.client.get(DEFAULT, params=CACHED, headers=BOB)).status_code == 403

        await until(refused)


async def test_logical_clusters_are_apart(world: World) -> None:
    """Each has a cache of its own; a request over all of them is passed on."""
    async with world.proxy() as proxied:
        other = DEFAULT.replace("team-a", "team-b")
        await proxied.create(configmap("of-a"))
        await proxied.create(configmap("of-b"), path=other)
        assert await proxied.names(DEFAULT) == ["of-a"]
        assert await proxied.names(other) == ["of-b"]
        assert sorted(await proxied.names("/clusters/*/api/v1/configmaps")) == ["of-a", "of-b"]
        assert {cache.place.prefix for cache in proxied.proxy.caches} == {"/clusters/team-a", "/clusters/team-b"}


async def test_without_the_api_server(world: World) -> None:
    """Reads of known objects by known callers go on, with a warning; all others fail. It comes back, and so does the watch."""
    async with world.proxy(decision_seconds=0) as proxied:
        await proxied.create(configmap("one"))
        await permit(proxied, "Group:dev", "list")
        assert await proxied.names(DEFAULT, headers=BOB) == ["one"]
        async with proxied.watching(MAPS, resourceVersion="0") as watch:
            assert await watch.next() == [("ADDED", "one")]
            assert (await proxied.client.get(f"{DEFAULT}/one", params=CACHED)).status_code == 200
            await world.stop()

            async def warned() -> bool:
                answer = await proxied.client.get(DEFAULT, params=CACHED, headers=BOB)
                assert answer.status_code == 200, answer.text
                return "cannot be reached" in answer.headers.get("warning", "")

            await until(warned)
            # The newest state that is known, also in the place of a table.
            for accept in ("application/json", "application/json;as=Table;g=meta.k8s.io;v=v1,application/json"):
                answer = await proxied.client.get(f"{DEFAULT}/one", headers={"Accept": accept})
                assert (answer.status_code, answer.json()["kind"]) == (200, "ConfigMap"), answer.text
                assert "cannot be reached" in answer.headers["warning"]
            for headers in (BOB, {"Authorization": "Bearer carol"}):
                answer = await proxied.client.get(f"{DEFAULT}/one", params=CACHED, headers=headers)
                assert answer.status_code == 503, answer.text
            assert (await proxied.client.post(DEFAULT, json=configmap("two"))).status_code == 503
            await world.start()

            async def back() -> bool:
                return (await proxied.client.post(DEFAULT, json=configmap("two"))).status_code == 201

            await until(back)
            assert await watch.next() == [("ADDED", "two")]


async def test_another_history(world: World) -> None:
    """An API server that comes back with an older store is listed again, and clients have to begin again, too."""
    async with world.proxy() as proxied:
        await proxied.create(*(configmap(f"map-{number}") for number in range(30)))
        async with proxied.watching(MAPS, resourceVersion="0") as watch:
            await watch.next(30)
            await world.stop()
            for file in (world.folder / "server").glob("kcp.db*"):
                file.unlink() if file.is_file() else shutil.rmtree(file)
            await world.start()
            (error,) = await watch.rest()
            assert (error["type"], error["object"]["code"], error["object"]["reason"]) == ("ERROR", 410, "Expired")

        async def empty() -> bool:
            return await proxied.names(MAPS) == []

        await until(empty)


async def test_a_definition_that_goes(world: World) -> None:
    """Its cache goes, and its watches end."""
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boats.example.com"},
        "spec": {
            "group": "example.com",
            "names": {"plural": "boats", "kind": "Boat"},
            "scope": "Namespaced",
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}],
        },
    }
    definitions, boats = f"{CLUSTER}/apis/apiextensions.k8s.io/v1/customresourcedefinitions", f"{CLUSTER}/apis/example.com/v1/boats"
    async with world.proxy() as proxied:
        await proxied.create(crd, path=definitions)

        async def served() -> bool:
            return (await proxied.client.get(boats)).status_code == 200

        await until(served)
        assert await proxied.names(boats) == []
        async with proxied.watching(boats, resourceVersion="0") as watch:
            await proxied.client.delete(f"{definitions}/boats.example.com")
            await watch.rest()

        async def gone() -> bool:
            return (await proxied.client.get(boats, params=CACHED)).status_code == 404

        await until(gone)


async def test_shared_credentials(world: World) -> None:
    """Programs of this machine act as the proxy; pages of other sites do not."""
    async with world.proxy(share_credentials=True) as proxied, httpx.AsyncClient(base_url=proxied.client.base_url) as client:
        assert (await client.get(DEFAULT, params=CACHED)).status_code == 200
        assert (await client.post(DEFAULT, json=configmap("one"))).status_code == 201
        assert (await client.get(DEFAULT, params=CACHED, headers={"Impersonate-User": "carol"})).status_code == 403
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            assert (await client.get(DEFAULT, params=CACHED, headers=headers)).status_code == 403
        assert (await client.get(DEFAULT, params=CACHED, headers={"Authorization": "Bearer nonsense"})).status_code == 401


async def test_nothing_is_read_for_those_who_may_not(tmp_path: Path) -> None:
    """A stranger does not make the proxy list whole resources with its own credentials."""
    async with scripted() as server, World(tmp_path).proxy(server.context, stale_ok=True) as proxied:
        server.allowed, server.refusal = False, 410
        for number in range(20):
            for query, status in ((CACHED, 200), ({}, 200), ({"watch": "true", "resourceVersion": "100"}, 410)):
                answer = await proxied.client.get(f"/api/v1/kinds{number}", params=query)
                assert answer.status_code == status
        assert list(proxied.proxy.caches) == []
        assert (server.asked["list"], server.asked["watch"]) == (40, 20)
        assert all("authorization: bearer admin" in head.lower() for head in server.heads)


async def test_writes_that_are_refused(tmp_path: Path) -> None:
    """They change nothing: the cache goes on to answer. One whose outcome is not known may have."""
    async with scripted() as server, World(tmp_path).proxy(server.context, stale_ok=True) as proxied:
        path = "/api/v1/namespaces/default/configmaps"

        async def reads_of_the_server() -> int:
            before = server.asked["list"]
            assert (await proxied.client.get(path)).status_code == 200
            return server.asked["list"] - before

        assert await reads_of_the_server() == 1
        for method, target in (("POST", path), ("DELETE", f"{path}/one"), ("PUT", f"{path}/one/status")):
            for status in (400, 401, 403, 404, 409, 422, 429):
                server.statuses = {method: [status]}
                assert (await proxied.client.request(method, target)).status_code == status
        for method in ("HEAD", "OPTIONS"):
            await proxied.client.request(method, path)
        await proxied.client.post("/api/v1/namespaces/default/configmaps/one/proxy")
        assert await reads_of_the_server() == 0
        server.statuses = {"PATCH": [500]}
        await proxied.client.patch(f"{path}/one")
        assert await reads_of_the_server() == 1


async def test_a_write_is_known_before_its_answer(tmp_path: Path) -> None:
    """A client that reads as soon as it has the answer to its write sees it."""
    async with scripted() as server, World(tmp_path).proxy(server.context, stale_ok=True) as proxied:
        await proxied.client.get("/api/v1/configmaps")
        (cache,) = proxied.proxy.caches
        sent: list[int | None] = []

        async def send(_: dict[str, Any]) -> None:
            sent.append(cache.written)

        async def receive() -> dict[str, Any]:
            raise AssertionError("there is no body")

        path = b"/api/v1/namespaces/default/configmaps"
        await proxied.proxy({"type": "http", "method": "POST", "raw_path": path, "query_string": b"", "headers": []}, receive, send)
        assert (len(sent), set(sent)) == (3, {None})


async def test_watches_from_a_later_version(tmp_path: Path) -> None:
    """One that the server has never had is the server's, and would wait for ever in the cache; others need no event in between."""
    async with scripted() as server, World(tmp_path).proxy(server.context) as proxied:
        server.put("one")
        assert await proxied.names("/api/v1/configmaps") == ["one"]
        server.version = 300
        async with proxied.watching("/api/v1/configmaps", resourceVersion="250") as watch:
            server.put("two")
            assert await watch.next() == [("ADDED", "two")]
        await until_true(lambda: server.waiting == 1)
        server.refusal = 410
        answer = await proxied.client.get("/api/v1/configmaps", params={"watch": "true", "resourceVersion": "9000"})
        assert answer.status_code == 410


async def test_offline_answers_are_as_new_as_they_must_be(tmp_path: Path) -> None:
    """A version that the cache has not reached cannot be answered without the server."""
    async with scripted() as server, World(tmp_path).proxy(server.context, decision_seconds=0) as proxied:
        server.put("one")
        assert await proxied.names("/api/v1/configmaps") == ["one"]
        await server.stop()
        (cache,) = proxied.proxy.caches
        await until_true(lambda: cache.lost)
        assert await proxied.names("/api/v1/configmaps", resourceVersion="101") == ["one"]
        for query in ({"resourceVersion": "102"}, {"resourceVersion": "102", "watch": "true"}):
            answer = await proxied.client.get("/api/v1/configmaps", params=query)
            assert answer.status_code == 503, answer.text


async def test_a_client_that_does_not_read(tmp_path: Path) -> None:
    """Its watch ends behind too many events, and nothing waits for it for ever; others go on."""
    async with scripted() as server, World(tmp_path).proxy(server.context) as proxied:

        async def sleep(_: float) -> None:
            await asyncio.sleep(0.01)

        proxied.proxy._sleep = sleep
        await proxied.names("/api/v1/configmaps")
        await until_true(lambda: server.waiting == 1)
        (cache,) = proxied.proxy.caches
        head = b"HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer admin\r\n\r\n"
        reader, writer = await asyncio.open_connection("127.0.0.1", proxied.client.base_url.port, limit=1)
        writer.write(b"GET /api/v1/configmaps?watch=true&resourceVersion=100 " + head)
        await until_true(lambda: cache.is_watched)
        for number in range(60):
            server.put(f"map-{number:02}", key="x" * 1_000_000)
            assert await cache.reached(server.version, PATIENCE)
        await until_true(lambda: not cache.is_watched)
        async with proxied.watching("/api/v1/configmaps", resourceVersion=str(server.version)) as watch:
            server.put("last")
            assert await watch.next() == [("ADDED", "last")]
        del reader
        writer.transport.abort()


async def test_client_certificates(tmp_path: Path) -> None:
    """Over TLS: users of the accepted authority are impersonated, others are strangers, and neither impersonates."""
    ca, strangers, folder = new_authority("clients"), new_authority("strangers"), tmp_path / "proxy"
    (tmp_path / "clients.crt").write_bytes(ca.pem)
    options = Options(root_directory=folder, secure_port=0, client_ca_file=tmp_path / "clients.crt", shutdown_grace_period=5)
    stop, ready = asyncio.Event(), asyncio.get_running_loop().create_future()
    settings = ProxySettings(accept_certificates=True)
    async with scripted() as server, CachingProxy(server.context, settings) as proxy:
        task = asyncio.create_task(serve_proxy(proxy, options, on_ready=ready.set_result, stop=stop))
        url = await ready

        async def ask(issued: Issued | None, **headers: str) -> int:
            """The status of an answer; 0 where the handshake fails."""
            trusted = options.ca_file
            context = ssl.create_default_context(cafile=trusted) if issued is None else client_context(trusted, issued, tmp_path)
            server.heads.clear()
            async with httpx.AsyncClient(verify=context, base_url=url) as client:
                with suppress(httpx.TransportError):
                    return (await client.get("/version", headers=headers)).status_code
            return 0

        def identity() -> list[str]:
            lines = [line for head in server.heads for line in head.splitlines()]
            return [line for line in lines if line.lower().startswith(("authorization", "impersonate", "x-remote"))]

        forged = {"X-Remote-User": "admin", "X-Remote-Group": "system:masters"}
        assert await ask(ca.issue("bob", "dev"), **forged) == 200
        assert identity() == ["Authorization: Bearer own", "impersonate-user: bob", "impersonate-group: dev"]
        assert await ask(None, **forged) == 200
        assert identity() == []
        assert await ask(strangers.issue("admin", "system:masters"), **forged) in {0, 200, 401}
        assert identity() == []
        assert await ask(ca.issue("bob"), **{"Impersonate-User": "admin"}) == 400
        assert await ask(ca.issue("bob"), **{"Impersonate-Group": "system:masters"}) == 400
        assert await ask(ca.issue("bob\r\nx: y")) == 401
        assert server.heads == []
        assert await ask(ca.issue("bob"), Authorization="Bearer mine") == 200
        assert identity() == ["authorization: Bearer mine"]
        stop.set()
        await task
