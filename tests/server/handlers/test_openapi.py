"""OpenAPI over HTTP: in which form, and when it is sent at all."""

from __future__ import annotations

from email.utils import formatdate, parsedate_to_datetime
from typing import Any

import pytest

from tests.server.handlers.conftest import Api, established, make_crd

pytestmark = pytest.mark.anyio
V2 = "/clusters/a/openapi/v2"
V3 = "/clusters/a/openapi/v3/apis/coordination.k8s.io/v1"
JSON = "application/json"
ASKED_2, ASKED_3 = (f"application/com.github.proto-openapi.spec.v{version}@v1.0+protobuf" for version in (2, 3))
PROTO_2, PROTO_3 = (f"application/com.github.proto-openapi.spec.v{version}.v1.0+protobuf" for version in (2, 3))


@pytest.mark.parametrize(
    ("path", "accept", "answered"),
    [
        (V2, "", JSON),
        (V2, "*/*", JSON),
        (V2, JSON, JSON),
        (V2, ASKED_2, PROTO_2),
        (V2, PROTO_2, PROTO_2),
        (V2, f"{ASKED_2},{JSON}", PROTO_2),
        (V2, f"{JSON},{ASKED_2}", JSON),
        (V2, f"{JSON};q=0.5,{ASKED_2}", PROTO_2),
        (V2, f"text/plain,{ASKED_2};q=0.1", PROTO_2),
        (V2, "application/*", JSON),
        (V3, "", JSON),
        (V3, ASKED_3, PROTO_3),
        (V3, PROTO_3, PROTO_3),
        (V3, f"{JSON};q=0.1,{PROTO_3}", PROTO_3),
    ],
)
async def test_media_types(api: Api, path: str, accept: str, answered: str) -> None:
    """JSON unless protobuf is preferred, whose name when asked for is not the one that is answered."""
    response = await api("GET", path, headers={"Accept": accept})
    assert (response.status_code, response.headers["content-type"]) == (200, answered)
    assert "Accept" in response.headers.get_list("vary", split_commas=True)
    first = b"{" if answered == JSON else b"\x0a\x03" if path == V2 else b"\x0a\x05"
    assert response.content.startswith(first)


@pytest.mark.parametrize(("path", "accept"), [(V2, "text/html"), (V2, ASKED_3), (V3, ASKED_2), (V3, "application/yaml"), (V2, "nonsense")])
async def test_what_is_not_acceptable(api: Api, path: str, accept: str) -> None:
    """The answer says so and nothing else, as upstream's does."""
    response = await api("GET", path, headers={"Accept": accept})
    assert (response.status_code, response.content, response.headers["vary"]) == (406, b"", "Accept")


async def test_the_index_is_json_whatever_is_accepted(api: Api) -> None:
    """Upstream does not read the Accept header there."""
    response = await api("GET", "/clusters/a/openapi/v3", headers={"Accept": ASKED_3})
    assert (response.status_code, response.headers["content-type"]) == (200, JSON)
    assert "apis/coordination.k8s.io/v1" in response.json()["paths"]


@pytest.mark.parametrize("path", [V2, V3, "/clusters/a/openapi/v3"])
@pytest.mark.parametrize("accept", [JSON, f"{ASKED_2},{ASKED_3},{JSON}"])
async def test_what_the_client_has_is_not_sent_again(api: Api, path: str, accept: str) -> None:
    """By ETag, which both forms share, or by time where no ETag is given."""
    headers = {"Accept": accept}
    first = await api("GET", path, headers=headers)
    etag, modified = first.headers["etag"], first.headers["last-modified"]
    assert (await api("GET", path)).headers["etag"] == etag
    later = formatdate(parsedate_to_datetime(modified).timestamp() + 60, usegmt=True)
    for known in ({"If-None-Match": etag}, {"If-None-Match": f'"x", W/{etag}'}, {"If-None-Match": "*"}, {"If-Modified-Since": later}):
        response = await api("GET", path, headers={**headers, **known})
        assert (response.status_code, response.content, response.headers["etag"]) == (304, b"", etag), known
    earlier = formatdate(parsedate_to_datetime(modified).timestamp() - 60, usegmt=True)
    for stale in (
        {"If-None-Match": '"x"'},
        {"If-None-Match": '"x"', "If-Modified-Since": later},
        {"If-Modified-Since": earlier},
        {"If-Modified-Since": "yesterday"},
    ):
        response = await api("GET", path, headers={**headers, **stale})
        assert (response.status_code, response.content) == (200, first.content), stale


async def test_documents_with_their_hash_may_be_kept(api: Api) -> None:
    """The hash of the index names one content in either form; another hash leads to it."""
    url = (await api.ok("GET", "/clusters/a/openapi/v3"))["paths"]["apis/coordination.k8s.io/v1"]["serverRelativeURL"]
    response = await api("GET", url, headers={"Accept": ASKED_3})
    assert (response.status_code, response.headers["content-type"]) == (200, PROTO_3)
    assert response.headers["cache-control"] == "public, immutable"
    assert "expires" in response.headers
    other = await api("GET", f"{V3}?hash=ABC", headers={"Accept": ASKED_3})
    assert (other.status_code, other.headers["location"]) == (301, url)
    assert (await api("GET", V3)).headers["cache-control"] == "no-cache, private"
    assert (await api("GET", V3.replace("coordination", "absent"), headers={"Accept": ASKED_3})).status_code == 404


async def test_protobuf_is_compressed_like_json(api: Api) -> None:
    """The document of everything is large, and gzip is what clients ask for."""
    plain = await api("GET", V2, headers={"Accept": ASKED_2, "Accept-Encoding": "identity"})
    packed = await api("GET", V2, headers={"Accept": ASKED_2, "Accept-Encoding": "gzip"})
    assert packed.headers["content-encoding"] == "gzip"
    assert packed.content == plain.content


METHODS = {
    "get": "get",
    "list": "get",
    "create": "post",
    "update": "put",
    "patch": "patch",
    "delete": "delete",
    "deletecollection": "delete",
}
SUBRESOURCES: dict[str, Any] = {"status": {}, "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}


async def test_everything_in_discovery_is_published(api: Api) -> None:
    """Each verb of each resource and subresource has its operation in both documents, with the kind that discovery names.

    Watches are lists with a parameter, and the Scale of a custom resource is marked with the kind of the resource, as upstream has them.
    """
    await api.ok("POST", "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions", make_crd(subresources=SUBRESOURCES))
    await established(api, "a")
    v2 = (await api.ok("GET", V2))["paths"]
    groups = (await api.ok("GET", "/clusters/a/apis"))["groups"]
    seen = set()
    for root in ["api/v1", *(f"apis/{version['groupVersion']}" for group in groups for version in group["versions"])]:
        v3 = (await api.ok("GET", f"/clusters/a/openapi/v3/{root}"))["paths"]
        for entry in (await api.ok("GET", f"/clusters/a/{root}"))["resources"]:
            plural, _, subresource = entry["name"].partition("/")
            collection = f"/{root}{'/namespaces/{namespace}' if entry['namespaced'] else ''}/{plural}"
            for verb in set(entry["verbs"]) - {"watch"}:
                on_collection = verb in {"list", "create", "deletecollection"} and not subresource
                path = collection if on_collection else "/".join(filter(None, (collection, "{name}", subresource)))
                for document in (v2, v3):
                    operation = document.get(path, {}).get(METHODS[verb])
                    assert operation is not None, (path, verb)
                    kind = "Widget" if entry["name"] == "widgets/scale" else entry["kind"]
                    assert operation["x-kubernetes-group-version-kind"]["kind"] == kind, (path, verb)
            seen.add(entry["name"])
    assert seen >= {"serviceaccounts/token", "certificatesigningrequests/approval", "namespaces/finalize", "widgets/scale", "tokenreviews"}
