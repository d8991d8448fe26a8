"""Bad responses of conversion webhooks fail requests; of good ones, only what may change is taken."""

from __future__ import annotations

import pytest

from tests.egress.https import HttpsServer, Request, http
from tests.server.handlers.conftest import Api
from tests.server.handlers.convertedwidgets import (
    BETA,
    V1,
    V2,
    api,
    certificate,
    every,
    failing,
    field,
    hook,
    metadata,
    stored,
    widget,
)
from tests.server.handlers.converting import Change, converting, webhook
from tests.server.handlers.widgets import install

__all__ = ["api", "certificate", "hook"]

pytestmark = pytest.mark.anyio


BAD_ANSWERS: dict[str, tuple[Change, str]] = {
    "wrong uid": (field("uid", "other"), ' failed: expected response.uid="'),
    "failure": (field("result", {"status": "Failure", "message": "custom words"}), " failed: custom words"),
    "no result": (field("result", None), " failed: response.result.status was '', not 'Success'"),
    "no objects": (field("convertedObjects", []), " returned 0 objects, expected 1"),
    "too many objects": (field("convertedObjects", [{}, {}]), " returned 2 objects, expected 1"),
    "objects that are none": (field("convertedObjects", [1]), " returned invalid object: json: cannot unmarshal number"),
    "wrong version": (every(apiVersion="example.com/v9"), " returned invalid object at index 0: invalid groupVersion (expected "),
    "wrong kind": (every(kind="Other"), " returned invalid object at index 0: invalid kind (expected Widget, received Other)"),
    "another name": (metadata(name="other"), " returned invalid object: must have the same name: one != other"),
    "another namespace": (metadata(namespace="x"), " returned invalid object: must have the same namespace: default != x"),
    "another uid": (metadata(uid="1"), " returned invalid object: must have the same UID: "),
    "bad labels": (metadata(labels={"a": "x y"}), ' returned invalid metadata: metadata.labels: Invalid value: "x y"'),
    "labels of numbers": (metadata(labels={"a": 1}), " returned invalid metadata: metadata.labels[a] must be a string, but is int64"),
    "no metadata": (every(metadata=None), " returned invalid object: must have the same name: one != "),
}


@pytest.mark.parametrize("name", BAD_ANSWERS)
async def test_bad_answers_fail_every_verb(api: Api, hook: HttpsServer, name: str) -> None:
    """With upstream's words, as an internal error, while the storage version goes on."""
    change, text = BAD_ANSWERS[name]
    await install(api, converting(hook))
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    hook.respond = webhook(change)
    await failing(api, text)


async def hang_up(request: Request) -> bytes:
    del request
    return b""


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (http(500, b"secret"), 'failed: an error on the server ("unknown") has prevented the request from succeeding'),
        (http(400), "failed: the server rejected our request for an unknown reason"),
        (http(307, b"", "Location: https://127.0.0.1/"), "failed: the server responded with the status code 307 but did not return"),
        (http(200), "failed: 0-length response with status code: 200"),
        (http(200, b"rubbish"), "failed: couldn't get version/kind; json parse error"),
        (http(200, b"{}"), "failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got /, Kind="),
        (http(200, b'"' + b"x" * 4_000_000 + b'"'), "http: response body too large"),
        (b"", ": EOF"),
    ],
    ids=["500", "400", "redirect", "empty", "rubbish", "other document", "too large", "hangs up"],
)
async def test_what_is_no_review_fails_every_verb(api: Api, hook: HttpsServer, answer: bytes, text: str) -> None:
    """As a bad answer does, and without a word of its content."""

    async def respond(request: Request) -> bytes:
        del request
        return answer

    await install(api, converting(hook))
    await api.ok("POST", V1, widget("one", content={"key": "k"}))
    hook.respond = respond
    await failing(api, text)


async def test_only_labels_and_annotations_may_be_changed(api: Api, hook: HttpsServer) -> None:
    """Everything else of the metadata stays, whatever the webhook says, and the cluster is not for it to say."""
    hook.respond = webhook(
        metadata(
            labels={"l": "1"},
            annotations={"a": "1", "kcp.io/cluster": "other"},
            generation=77,
            finalizers=["x.example.com/y"],
            ownerReferences=[{"a": "b"}],
            resourceVersion="1",
            deletionTimestamp="2020-01-01T00:00:00Z",
            garbage=1,
        )
    )
    await install(api, converting(hook))
    created = await api.ok("POST", V1, widget("one", content={"key": "k"}))
    expected = {**created["metadata"], "labels": {"l": "1"}, "annotations": {"kcp.io/cluster": "a", "a": "1"}}
    assert (await api.ok("GET", f"{V2}/one"))["metadata"] == expected
    assert (await api.ok("GET", V2))["items"][0]["metadata"] == expected
    two = await api.ok("POST", V2, widget("two", "v2"))
    assert two["metadata"]["generation"] == 1
    assert (await stored(api, "two"))["metadata"]["annotations"] == {"a": "1"}


async def test_what_a_webhook_adds_is_pruned(api: Api, hook: HttpsServer) -> None:
    """In the version that it converts to, also where the schemas of both are equal."""
    crd = converting(hook)
    for version in crd["spec"]["versions"]:
        version["schema"] = crd["spec"]["versions"][0]["schema"]
    hook.respond = webhook(every(unknown=1, numbers={"first": 1, "third": 3}))
    await install(api, crd)
    await api.ok("POST", V1, widget("one"))
    for path in (f"{V2}/one", f"{BETA}/one"):
        got = await api.ok("GET", path)
        assert got["numbers"] == {"first": 1}
        assert "unknown" not in got
    await api.ok("POST", V2, widget("two", "v2"))
    assert (await stored(api, "two"))["numbers"] == {"first": 1}
