"""Whole requests to a whole control plane in memory: verbs, paths, queries, headers and bodies, valid ones changed a little.

An input is a session: requests to two clusters, one after the other, beginning with an empty store. What must hold for each of them:

- there is one complete answer; a failure is a Status, and 500 only where upstream gives one;
- a failed request has changed nothing;
- nothing of a cluster comes out of another: one of the two holds a word that the other must never say.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import tempfile
from collections.abc import Mapping
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import orjson

from kcp_py.apimachinery.serializer.yaml.codec import encode_yaml
from kcp_py.controlplane import ControlPlane
from kcp_py.options import Options
from kcp_py.storage.contract import Storage
from kcp_py.storage.memory import MemoryStorage
from tests.fuzz import crds, documents, heads, messages, patches
from tests.fuzz.mutation import mutated_bytes, mutated_json, mutated_text, written
from tests.fuzz.target import Target

MARKER = "zq7-only-in-b"
"""In names, labels and values of cluster b."""
SESSION = 25
"""Requests of a session, at the most."""
SETTLING_SECONDS = 60
"""Within which the definition of the start is served."""
FIVE_HUNDREDS = (
    "failed to create typed patch object",
    "failed to create manager for existing fields",
    "resourceVersion should not be set on objects to be created",
)
"""How upstream's own answers with 500 begin."""

WIDGET: Mapping[str, Any] = crds.OBJECTS[0]
VALID_WIDGET: Mapping[str, Any] = {**WIDGET, "spec": {"name": "a", "list": [{"k": "x", "v": 1}]}}
WIDGETS = "/apis/example.com/v1/namespaces/default/widgets"
COLLECTIONS: Mapping[str, Mapping[str, Any]] = {
    "/api/v1/namespaces/default/configmaps": documents.CONFIG_MAP,
    "/api/v1/namespaces/default/secrets": documents.SECRET,
    "/api/v1/namespaces/default/resourcequotas": documents.QUOTA,
    "/apis/coordination.k8s.io/v1/namespaces/default/leases": documents.LEASE,
    "/apis/rbac.authorization.k8s.io/v1/clusterroles": documents.ROLE,
    "/api/v1/namespaces": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "n"}},
    "/apis/apiextensions.k8s.io/v1/customresourcedefinitions": crds.DEFINITION,
    WIDGETS: VALID_WIDGET,
}
OTHERS = (
    *("/", "/api", "/apis", "/api/v1", "/apis/example.com", "/apis/example.com/v1", "/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"),
    *("/version", "/healthz", "/readyz/etcd", "/metrics", "/apis/core.kcp.io/v1alpha1/logicalclusters/cluster", "/logs", "/clusters/b/api"),
)
CLUSTERS = (*["/clusters/a"] * 9, "/clusters/b", "/clusters/*", "")
SUBRESOURCES = (*[""] * 7, "/status", "/scale", "/finalize", "/x")
METHODS = (*["GET", "POST", "PUT", "PATCH", "PATCH"] * 3, "DELETE", "HEAD", "OPTIONS", "BREW")
QUERIES = (
    "dryRun=All",
    "fieldManager=m",
    "fieldManager=m&force=true",
    "limit=1",
    "watch=1",
    "fieldValidation=Strict",
    "fieldValidation=Warn&pretty=1",
)
MEDIA = ("application/json", "application/json", "application/yaml", "application/vnd.kubernetes.protobuf", "text/plain", "")
PATCHES: Mapping[str, tuple[Any, ...]] = {
    "application/json-patch+json": (patches.OPERATIONS, [{"op": "add", "path": "/metadata/labels", "value": {"x": "y"}}]),
    "application/merge-patch+json": (*patches.MERGES, {"metadata": {"labels": {"x": "y"}, "annotations": None}}),
    "application/strategic-merge-patch+json": (
        *patches.DIRECTIVES,
        {"metadata": {"finalizers": ["a/b"], "$deleteFromPrimitiveList/finalizers": []}},
    ),
    "application/apply-patch+yaml": (),
}
"""Patches by media type, in addition to the object itself."""
TOKENS = (*["secret"] * 12, "user", "", "wrong")


class Request(NamedTuple):
    """One request; texts are Latin-1, so that any bytes are."""

    method: str
    target: str
    headers: list[tuple[str, str]]
    body: str


class Answer(NamedTuple):
    """What came back."""

    status: int
    content_type: str
    body: bytes
    complete: bool


def targets() -> list[Target]:
    seeds = [_written([Request(method, target, [("authorization", "Bearer secret")], body) for method, target, body in STARTS])]
    return [Target(name="requests", make=_session, run=_run, seeds=seeds, calls_per_byte=20_000)]


STARTS = (
    ("GET", f"/clusters/a{WIDGETS}", ""),
    ("POST", f"/clusters/a{WIDGETS}", json.dumps(VALID_WIDGET)),
    ("GET", f"/clusters/a{WIDGETS}/a", ""),
    ("GET", "/clusters/a/api/v1/configmaps?limit=1", ""),
    ("DELETE", f"/clusters/a{WIDGETS}/a", "{}"),
    ("GET", "/clusters/a/api/v1/configmaps?watch=1", ""),
)


def _session(random: Random) -> bytes:
    return _written([_request(random) for _ in range(random.randint(1, SESSION))])


def _written(session: list[Request]) -> bytes:
    return json.dumps(session).encode()


def _request(random: Random) -> Request:
    method = random.choice(METHODS)
    collection = random.choice(list(COLLECTIONS))
    obj = COLLECTIONS[collection]
    path = collection if random.randint(0, 9) else random.choice(OTHERS)
    own = obj["metadata"]["name"]
    name = random.choice((*[own] * 8, "b", MARKER[:3], "", "%2e", "a%20b"))
    if method != "POST" and (method != "GET" or random.randint(0, 1)):
        path += f"/{name}{random.choice(SUBRESOURCES)}"
    target = random.choice(CLUSTERS) + path
    if random.randint(0, 19) == 0:
        target = mutated_text(random, [target], heads.PATH_WORDS).decode("latin-1")
    if random.randint(0, 2) == 0:
        target += "?" + _query(random)
    headers = [("authorization", f"Bearer {random.choice(TOKENS)}")]
    if random.randint(0, 2) == 0:
        accept = random.choice(heads.ACCEPTS)
        if random.randint(0, 4) == 0:
            accept = mutated_text(random, [accept], heads.ACCEPT_WORDS).decode("latin-1")
        headers.append(("accept", accept))
    content_type, body = _body(random, method, obj)
    if content_type:
        headers.append(("content-type", content_type))
    target = _clean(target).replace(" ", "%20").replace("#", "%23")
    return Request(method, target, [(header, _clean(value)) for header, value in headers], body.decode("latin-1"))


def _query(random: Random) -> str:
    query = random.choice(QUERIES if random.randint(0, 2) else heads.QUERIES)
    if random.randint(0, 4) == 0:
        query = mutated_text(random, [query], heads.QUERY_WORDS).decode("latin-1")
    return query


def _body(random: Random, method: str, obj: Mapping[str, Any]) -> tuple[str, bytes]:
    if method == "PATCH":
        content_type = random.choice(list(PATCHES))
        change = random.choice((obj, *PATCHES[content_type]))
        return content_type, written(change).encode() if random.randint(0, 3) == 0 else mutated_json(random, [change])
    if method == "DELETE":
        return "application/json", random.choice((b"", mutated_json(random, [heads.DELETE_OPTIONS])))
    if method not in {"POST", "PUT"}:
        return "", b""
    media = random.choice(MEDIA)
    own = {**obj, "metadata": {name: value for name, value in obj["metadata"].items() if name not in {"resourceVersion", "uid"}}}
    body = written(own).encode() if random.randint(0, 2) == 0 else mutated_json(random, [own])
    if media == "application/yaml":
        with contextlib.suppress(ValueError, RecursionError):
            body = mutated_bytes(random, [encode_yaml(json.loads(body))])
    elif media == "application/vnd.kubernetes.protobuf":
        body = messages.enveloped(random, str(obj["apiVersion"]), str(obj["kind"]))
    return media, body


def _clean(text: str) -> str:
    """Without what no parser of HTTP lets through."""
    return "".join(character for character in text if character >= " " and character != "\x7f")


async def _ask(control_plane: ControlPlane, request: Request) -> Answer:
    path, _, query = request.target.encode("latin-1").partition(b"?")
    body = [request.body.encode("latin-1")]
    sent: list[Any] = []

    async def receive() -> dict[str, Any]:
        if body:
            return {"type": "http.request", "body": body.pop(), "more_body": False}
        await asyncio.sleep(0)
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": request.method, "scheme": "https",
        "path": path.decode("latin-1"), "raw_path": path, "query_string": query, "root_path": "", "state": {},
        "headers": [(name.encode(), value.encode("latin-1")) for name, value in request.headers],
        "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 6443),
    }  # fmt: skip
    async with asyncio.timeout(60):
        await control_plane.app(scope, receive, send)
    starts = [message for message in sent if message["type"] == "http.response.start"]
    parts = [message for message in sent if message["type"] == "http.response.body"]
    assert len(starts) == 1, f"{len(starts)} answers"
    headers = dict(starts[0]["headers"])
    for name, value in starts[0]["headers"]:
        # Nothing that was sent ends a header and begins another.
        assert not set(name + value) & set(b"\r\n\0"), (name, value)
    content = b"".join(part.get("body", b"") for part in parts)
    complete = bool(parts) and not parts[-1].get("more_body", False)
    return Answer(starts[0]["status"], headers.get(b"content-type", b"").decode(), content, complete)


def _run(data: bytes) -> None:
    try:
        session = [
            Request(method, target, [(name, value) for name, value in headers], body)
            for method, target, headers, body in orjson.loads(data)
        ]
    except (ValueError, TypeError):
        return  # a failing input that was cut
    asyncio.run(_hold(session))


async def _hold(session: list[Request]) -> None:
    with tempfile.TemporaryDirectory(prefix="kcp-py-fuzz-") as directory:
        root = Path(directory)
        (root / "admin-tokens.csv").write_text('secret,shard-admin,1,"system:masters"\nuser,jane,2,"team"\n')
        storage = MemoryStorage()
        # Only the controller of definitions runs, because others would change the store during the requests.
        options = Options(root_directory=root, storage="memory", controllers=("definitions",))
        async with ControlPlane(options, storage=storage) as control_plane:
            await _prepare(control_plane)
            for request in session:
                # Work on definitions continues during later requests.
                left_out = "widgets" if any("customresourcedefinitions" in earlier.target for earlier in session) else "customresourcedef"
                before = await _content(storage, left_out)
                answer = await _ask(control_plane, request)
                _judge(request, answer)
                # Upstream, too, detects only after the write that one object is not a list.
                if answer.status >= 400 and not any("PartialObjectMetadataList" in value for _, value in request.headers):
                    assert await _content(storage, left_out) == before, f"{request} failed and has changed something"


async def _prepare(control_plane: ControlPlane) -> None:
    bearer = [("authorization", "Bearer secret"), ("content-type", "application/json")]
    for cluster, word in (("a", "plain"), ("b", MARKER)):
        for collection, obj in COLLECTIONS.items():
            if collection in {WIDGETS, "/api/v1/namespaces"}:
                continue
            metadata = {"name": obj["metadata"]["name"], "labels": {word: word}, "annotations": {word: word}}
            made = await _ask(
                control_plane, Request("POST", f"/clusters/{cluster}{collection}", bearer, json.dumps({**obj, "metadata": metadata}))
            )
            assert made.status == 201, made
    widget = {**VALID_WIDGET, "metadata": {"name": MARKER}, "spec": {"name": "a", "any": MARKER}}
    for method, cluster, body, wanted in (("POST", "b", json.dumps(widget), 201), ("GET", "a", "", 200)):
        async with asyncio.timeout(SETTLING_SECONDS):
            while (await _ask(control_plane, Request(method, f"/clusters/{cluster}{WIDGETS}", bearer, body))).status != wanted:
                await asyncio.sleep(0)


async def _content(storage: Storage, left_out: str) -> list[tuple[str, int]]:
    """Every key and the revision that it was written at, but for what the controller writes."""
    found = await storage.range("/", keys_only=True)
    return [(item.key, item.mod_revision) for item in found.items if "customresourcedef" not in item.key and left_out not in item.key]


def _judge(request: Request, answer: Answer) -> None:
    shown = f"{request}: {answer.status} {answer.body[:500]!r}"
    if not request.target.startswith(("/clusters/b", "/clusters/*", "/clusters/%2")):
        assert MARKER.encode() not in answer.body, shown
    if "watch" not in request.target:
        assert answer.complete, shown
    if answer.status < 400:
        return
    assert answer.status != 500 or _message(answer).startswith(FIVE_HUNDREDS), shown
    if answer.content_type == "application/json" and request.method != "HEAD":
        status = orjson.loads(answer.body)
        assert (status["kind"], status["apiVersion"], status["status"], status["code"]) == ("Status", "v1", "Failure", answer.status), shown
        assert status["message"], shown


def _message(answer: Answer) -> str:
    try:
        return str(orjson.loads(answer.body)["message"])
    except (ValueError, KeyError):
        return ""
