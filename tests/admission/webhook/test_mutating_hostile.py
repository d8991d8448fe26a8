"""Patches of mutating webhooks that are to harm the server, or the object."""

from __future__ import annotations

import base64
import threading
from typing import Any

import pytest

from kcp_py.apimachinery.patches import json_patch as patches
from tests.admission.webhook.conftest import MAPS, MERGE, Hooks, config_map, configure, json_patch
from tests.server.handlers.conftest import Api, make_crd
from tests.server.handlers.widgets import install

pytestmark = pytest.mark.anyio
WIDGETS = "/clusters/a/apis/example.com/v1/namespaces/default/widgets"
ANY = [{"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets", "widgets/*"]}]
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def add(path: str, value: Any) -> dict[str, Any]:
    return {"op": "add", "path": path, "value": value}


def nested(depth: int) -> Any:
    value: Any = "x"
    for _ in range(depth):
        value = {"a": value}
    return value


async def install_open(api: Api) -> None:
    """Widgets with any fields, and with the subresource status."""
    crd = make_crd(schema=OPEN)
    crd["spec"]["versions"][0]["subresources"] = {"status": {}}
    await install(api, crd)


@pytest.mark.parametrize(
    ("operations", "code", "text"),
    [
        pytest.param(
            [add("/spec", {"a": "x" * 100}), *[{"op": "copy", "from": "/spec", "path": f"/spec/b{number}"} for number in range(64)]],
            500,
            "accumulated size increase of copy is",
            id="copies that double the object",
        ),
        pytest.param([add("/spec", [0]), *[add("/spec/0", 0)] * 10_000], 500, "maximum operations in a JSON patch", id="many operations"),
        pytest.param([add("/spec", "x" * (3 * 1024 * 1024))], 413, "Request entity too large: limit is 3145728", id="a large object"),
        pytest.param(
            [add("/spec", nested(100)), {"op": "copy", "from": "/spec", "path": f"/spec{'/a' * 100}"}],
            500,
            "the result exceeds the max depth of 128",
            id="copies that nest the object",
        ),
        pytest.param([add("/metadata", [])], 500, "made something else of the object", id="a list for the metadata"),
        pytest.param([{"op": "remove", "path": "/metadata"}], 500, "made something else of the object", id="no metadata"),
        pytest.param([add("/kind", "Gadget")], 500, "changed the kind of the object", id="another kind"),
        pytest.param([add("/apiVersion", "example.com/v2")], 500, "changed the kind of the object", id="another version"),
        pytest.param([add("/metadata/name", "other")], 500, "changed the name or the namespace", id="another name"),
        pytest.param([{"op": "remove", "path": "/metadata/name"}], 500, "changed the name or the namespace", id="no name"),
        pytest.param([add("/metadata/namespace", "kube-system")], 500, "changed the name or the namespace", id="another namespace"),
        pytest.param([add("/metadata/labels", {"a": 1})], 500, "cannot unmarshal number", id="a number for a label"),
        pytest.param([add("/metadata/labels", {"-": "x"})], 422, "metadata.labels: Invalid value", id="an invalid label"),
        pytest.param([add("/metadata/finalizers", ["x y"])], 422, "metadata.finalizers", id="an invalid finalizer"),
    ],
)
async def test_refused(api: Api, hooks: Hooks, operations: list[dict[str, Any]], code: int, text: str) -> None:
    """The write fails, even if failures of the webhook are ignored, and nothing is stored."""
    await install_open(api)
    await configure(api, "mutating", hooks.webhook("/x", rules=ANY, failurePolicy="Ignore"))
    hooks.answers["/x"] = json_patch(*operations)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    assert text in (await api.fails(code, "POST", WIDGETS, widget))["message"]
    assert (await api.ok("GET", WIDGETS))["items"] == []
    # The server goes on.
    hooks.answers.clear()
    await api.ok("POST", WIDGETS, widget)


async def test_what_only_the_server_sets(api: Api, hooks: Hooks) -> None:
    """A patch neither sets nor removes it, when an object is created and when it is changed."""
    await install_open(api)
    await configure(api, "mutating", hooks.webhook("/x", rules=ANY))
    forged = {
        "uid": "forged",
        "resourceVersion": "1",
        "generation": 77,
        "creationTimestamp": "2001-01-01T00:00:00Z",
        "deletionTimestamp": "2001-01-01T00:00:00Z",
        "deletionGracePeriodSeconds": 1,
        "selfLink": "/x",
        "unknown": "x",
    }
    operations = [add(f"/metadata/{field}", value) for field, value in forged.items()]
    operations += [add("/metadata/annotations/kcp.io~1cluster", "b"), add("/status", {"forged": True})]
    hooks.answers["/x"] = json_patch(*operations)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    made = await api.ok("POST", WIDGETS, widget)
    times = [one for one in operations if "deletion" in one["path"]]
    hooks.answers["/x"] = json_patch(*times)
    refused = await api.fails(422, "PATCH", f"{WIDGETS}/w", {"spec": {"a": 1}}, headers=MERGE)
    assert "metadata.deletionTimestamp: Invalid value" in refused["message"]
    hooks.answers["/x"] = json_patch(*(one for one in operations if one not in times), {"op": "remove", "path": "/metadata/uid"})
    changed = await api.ok("PATCH", f"{WIDGETS}/w", {"spec": {"a": 1}}, headers=MERGE)
    for obj in (made, changed):
        assert {field for field, value in forged.items() if obj["metadata"].get(field) == value} == set()
        assert obj["metadata"]["annotations"] == {"kcp.io/cluster": "a"}
        assert "status" not in obj
        assert "deletionTimestamp" not in obj["metadata"]
        assert obj["metadata"]["uid"] == made["metadata"]["uid"]
    assert changed["metadata"]["generation"] == 2


@pytest.mark.parametrize(
    "patch",
    [
        pytest.param(b'[{"op": "add", "path": "/spec", "value": "\\ud800"}]', id="half a character"),
        pytest.param(b'[{"op": "add", "path": "/spec", "value": "\xff"}]', id="not UTF-8"),
        pytest.param(b'[{"op": "add", "path": "/spec", "value": NaN}]', id="not a number"),
        pytest.param(b'[{"op": "add", "path": "/spec", "value": ' + b"[" * 100_000 + b"]" * 100_000 + b"}]", id="nested without end"),
        pytest.param(b'[{"op": "add", "path": "/spec", "value": 1', id="half of a patch"),
        pytest.param(b"[null]", id="an operation that is none"),
        pytest.param(b"7", id="a number"),
    ],
)
async def test_unreadable(api: Api, hooks: Hooks, patch: bytes) -> None:
    """A patch that cannot be read is a failure of the webhook, which its policy may ignore."""
    await install_open(api)
    await configure(api, "mutating", hooks.webhook("/x", rules=ANY))
    hooks.answers["/x"] = json_patch() | {"patch": base64.b64encode(patch).decode()}
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "w"}}
    refused = await api.fails(500, "POST", WIDGETS, widget)
    assert refused["message"].startswith(
        'Internal error occurred: failed calling webhook "x.example.com": received undecodable patch in webhook response: '
    )


async def test_heavy_patches_run_in_a_thread(api: Api, hooks: Hooks, monkeypatch: pytest.MonkeyPatch) -> None:
    """A patch whose work is out of proportion to its size, and one that makes a large object, do not hold up the event loop."""
    threads: list[bool] = []
    apply = patches.apply

    def watched(document: Any, operations: Any) -> Any:
        threads.append(threading.current_thread() is threading.main_thread())
        return apply(document, operations)

    monkeypatch.setattr(patches, "apply", watched)
    await configure(api, "mutating", hooks.webhook("/x"))
    for name, operations in (
        ("heavy", [add("/data/a", str(number)) for number in range(1000)]),
        ("large", [add("/data/a", "x" * 1_000_000)]),
        ("light", [add("/data/a", "x")]),
    ):
        hooks.answers["/x"] = json_patch(*operations)
        created = await api.ok("POST", MAPS, config_map(name))
        assert created["data"]["a"] == operations[-1]["value"]
        hooks.answers.clear()
    assert threads == [False, False, True]
