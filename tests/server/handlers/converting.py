"""A CRD whose versions a webhook converts between, and webhooks that do it well and badly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import orjson

from tests.egress.https import HttpsServer, Request, Respond, http
from tests.server.handlers.conftest import make_crd

Change = Callable[[dict[str, Any], dict[str, Any]], None]
"""(request, answer's `response`): makes an answer wrong."""

NUMBERS = {"type": "object", "properties": {"first": {"type": "integer"}, "second": {"type": "integer"}}}


def schema(content: str, default: str) -> dict[str, Any]:
    """A version's schema: a content whose name differs, numbers, and a default of the version's own."""
    defaults: dict[str, Any] = {name: {"type": "boolean"} for name in ("v1", "v1beta1", "v2")}
    defaults[default] = {"type": "boolean", "default": True}
    return {
        "type": "object",
        "properties": {
            content: {"type": "object", "properties": {"key": {"type": "string"}}},
            "numbers": NUMBERS,
            "spec": {"type": "object", "properties": {"replicas": {"type": "integer"}}},
            "defaults": {"type": "object", "properties": defaults},
            "status": {"type": "object", "properties": {"ready": {"type": "integer"}}},
        },
    }


def converting(server: HttpsServer | None, storage: str = "v1", **webhook: Any) -> dict[str, Any]:
    """Widgets in v1 and v1beta1, which have `content`, and v2, which has `contentV2`."""
    crd = make_crd(schema=schema("content", "v1"))
    (version,) = crd["spec"]["versions"]
    version["subresources"] = {
        "status": {},
        "scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.ready"},
    }
    versions = [
        {**version, "name": name, "schema": {"openAPIV3Schema": schema(content, name)}}
        for name, content in (("v1", "content"), ("v1beta1", "content"), ("v2", "contentV2"))
    ]
    for one in versions:
        one["storage"] = one["name"] == storage
    crd["spec"]["versions"] = versions
    if server is not None:
        crd["spec"]["conversion"] = conversion(server, **webhook)
    return crd


def conversion(server: HttpsServer, path: str = "/convert", reviews: tuple[str, ...] = ("v1", "v1beta1")) -> dict[str, Any]:
    """`spec.conversion` for a server."""
    client = {"url": f"{server.origin}{path}", "caBundle": server.certificate.bundle}
    return {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": list(reviews)}}


def converted(obj: Mapping[str, Any], api_version: str) -> dict[str, Any]:
    """What a good webhook makes of an object."""
    result = {**obj, "apiVersion": api_version}
    old, new = ("content", "contentV2") if api_version.endswith("/v2") else ("contentV2", "content")
    if old in result:
        result[new] = result.pop(old)
    return result


def webhook(change: Change | None = None) -> Respond:
    """A webhook that converts correctly, except for the changes that `change` makes to its answers."""

    async def respond(request: Request) -> bytes:
        review = request.json()
        asked = review["request"]
        response = {
            "uid": asked["uid"],
            "result": {"status": "Success"},
            "convertedObjects": [converted(obj, asked["desiredAPIVersion"]) for obj in asked["objects"]],
        }
        if change is not None:
            change(asked, response)
        return http(200, orjson.dumps({"apiVersion": review["apiVersion"], "kind": "ConversionReview", "response": response}))

    return respond


def sent(server: HttpsServer) -> list[int]:
    """How many objects each call so far was for; forgets them."""
    numbers = [len(request.json()["request"]["objects"]) for request in server.requests]
    server.requests.clear()
    return numbers
