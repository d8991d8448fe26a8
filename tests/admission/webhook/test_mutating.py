"""Mutating webhooks: order, patches, the form of the result, reinvocation, dry runs."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.webhook.conftest import GROUP, MAPS, MERGE, Hooks, config_map, configure, json_patch
from tests.server.handlers.conftest import Api, make_crd
from tests.server.handlers.widgets import install

pytestmark = pytest.mark.anyio
WIDGETS = "/clusters/a/apis/example.com/v1/namespaces/default/widgets"
WIDGET_RULES = [{"operations": ["*"], "apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets", "widgets/*"]}]
PART = {"type": "object", "properties": {"b": {"type": "integer", "default": 7}}}
ADD = {"op": "add", "path": "/data/mutated", "value": "yes"}


def data(key: str, value: str) -> dict[str, Any]:
    return json_patch({"op": "add", "path": f"/data/{key}", "value": value})


async def test_configurations_are_called_by_name(api: Api, hooks: Hooks) -> None:
    """Configurations are called in the order of their names, the webhooks of each in its order, each with what the last one made."""
    await configure(api, "mutating", hooks.webhook("/b1"), hooks.webhook("/b2"), name="b")
    await configure(api, "mutating", hooks.webhook("/a"), name="a")
    for path in ("/a", "/b1", "/b2"):
        hooks.answers[path] = data(path.strip("/"), "1")
    created = await api.ok("POST", MAPS, config_map())
    assert created["data"] == {"a": "1", "b1": "1", "b2": "1"}
    assert [list(asked["object"]["data"]) for asked in hooks.asked()] == [["a"], ["a"], ["a", "b1"]]


async def test_every_write_is_sent(api: Api, hooks: Hooks) -> None:
    """Creates, updates, patches and deletions are reviewed; a deletion has the old object alone, and cannot be changed."""
    await configure(api, "mutating", hooks.webhook("/x"))
    created = await api.ok("POST", MAPS, config_map())
    await api.ok("PUT", f"{MAPS}/x", config_map(a="c"))
    await api.ok("PATCH", f"{MAPS}/x", {"data": {"a": "d"}}, headers=MERGE)
    hooks.answers["/x"] = json_patch(ADD)
    refused = await api.fails(500, "DELETE", f"{MAPS}/x")
    text = 'admission webhook "x.example.com" attempted to modify the object, which is not supported for this operation'
    assert refused["message"] == f"Internal error occurred: {text}"
    create, update, patch, delete = hooks.asked()
    assert (create["oldObject"], create["object"]["data"]) == (None, {"a": "b"})
    assert create["object"]["metadata"]["annotations"] == {"kcp.io/cluster": "a"}
    assert create["options"] == {"apiVersion": "meta.k8s.io/v1", "kind": "CreateOptions"}
    assert "uid" not in create["object"]["metadata"]
    assert (update["oldObject"]["data"], update["object"]["data"]) == ({"a": "b"}, {"a": "c"})
    assert update["oldObject"]["metadata"]["resourceVersion"] == created["metadata"]["resourceVersion"]
    assert (patch["operation"], patch["options"]["kind"], patch["object"]["data"]) == ("UPDATE", "UpdateOptions", {"a": "d"})
    assert (delete["operation"], delete["object"], delete["oldObject"]["data"]) == ("DELETE", None, {"a": "d"})
    assert create["userInfo"]["username"] == "shard-admin"
    assert "system:masters" in create["userInfo"]["groups"]


async def test_custom_resources_keep_their_schema(api: Api, hooks: Hooks) -> None:
    """What a webhook adds is pruned and filled with defaults; what does not fit the schema is refused as if the client had sent it."""
    schema = {
        "type": "object",
        "properties": {
            "spec": {
                "type": "object",
                "properties": {
                    "size": {"type": "integer"},
                    "part": PART,
                },
            }
        },
    }
    await install(api, make_crd(schema=schema))
    await configure(api, "mutating", hooks.webhook("/x", rules=WIDGET_RULES))
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {}}
    hooks.answers["/x"] = json_patch(
        {"op": "add", "path": "/spec/unknown", "value": 1}, {"op": "add", "path": "/spec/part", "value": {"c": 1}}
    )
    created = await api.ok("POST", WIDGETS, widget)
    assert created["spec"] == {"part": {"b": 7}}
    assert created["metadata"]["uid"]
    assert created["metadata"]["generation"] == 1
    hooks.answers["/x"] = json_patch({"op": "add", "path": "/spec/size", "value": "large"})
    refused = await api.fails(422, "PUT", f"{WIDGETS}/one", created)
    assert "spec.size: Invalid value" in refused["message"]


async def test_equivalent_versions(api: Api, hooks: Hooks) -> None:
    """A webhook for one version sees writes in another one, converted, unless it asks for exact matches; so do groups of Events."""
    crd = make_crd()
    (version,) = crd["spec"]["versions"]
    crd["spec"]["versions"] = [version, {**version, "name": "v2", "storage": False}]
    await install(api, crd)
    await configure(api, "mutating", hooks.webhook("/same", rules=WIDGET_RULES), name="a")
    await configure(api, "mutating", hooks.webhook("/exact", rules=WIDGET_RULES, matchPolicy="Exact"), name="b")
    hooks.answers["/same"] = json_patch({"op": "add", "path": "/spec/seen", "value": "v1"})
    widget = {"apiVersion": "example.com/v2", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"a": 1}}
    created = await api.ok("POST", WIDGETS.replace("/v1/", "/v2/"), widget)
    assert (created["apiVersion"], created["spec"]) == ("example.com/v2", {"a": 1, "seen": "v1"})
    (asked,) = hooks.asked()
    assert asked["object"]["apiVersion"] == "example.com/v1"
    assert (asked["kind"]["version"], asked["requestKind"]["version"]) == ("v1", "v2")
    assert (asked["resource"]["version"], asked["requestResource"]["version"]) == ("v1", "v2")
    events = [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["events"]}]
    await configure(api, "mutating", hooks.webhook("/events", rules=events), name="c")
    event = {
        "metadata": {"name": "e"},
        "eventTime": "2026-01-01T00:00:00.000000Z",
        "action": "a",
        "reason": "r",
        "regarding": {"namespace": "default"},
        "reportingController": "a.b/c",
        "reportingInstance": "i",
        "type": "Normal",
    }
    await api.ok("POST", "/clusters/a/apis/events.k8s.io/v1/namespaces/default/events", event)
    (asked,) = hooks.asked("/events")
    assert (asked["object"]["apiVersion"], asked["requestResource"]["group"]) == ("v1", "events.k8s.io")


async def test_scale(api: Api, hooks: Hooks) -> None:
    """Webhooks of `/scale` see and change the Scale of an object."""
    crd = make_crd()
    crd["spec"]["versions"][0]["subresources"] = {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}
    await install(api, crd)
    widget = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"replicas": 1}}
    await api.ok("POST", WIDGETS, widget)
    rules = [{**WIDGET_RULES[0], "resources": ["*/scale"]}]
    await configure(api, "mutating", hooks.webhook("/x", rules=rules))
    hooks.answers["/x"] = json_patch({"op": "replace", "path": "/spec/replicas", "value": 9})
    scaled = await api.ok("PATCH", f"{WIDGETS}/one/scale", {"spec": {"replicas": 5}}, headers=MERGE)
    assert scaled["spec"]["replicas"] == 9
    (asked,) = hooks.asked()
    assert (asked["kind"], asked["subResource"]) == ({"group": "autoscaling", "version": "v1", "kind": "Scale"}, "scale")
    assert (asked["oldObject"]["spec"], asked["object"]["spec"]) == ({"replicas": 1}, {"replicas": 5})


async def test_reinvocation(api: Api, hooks: Hooks) -> None:
    """A webhook that asks for it is called once more where a later one changed the object; others are not, nor a second time."""
    await configure(
        api,
        "mutating",
        hooks.webhook("/again", reinvocationPolicy="IfNeeded"),
        hooks.webhook("/never"),
        hooks.webhook("/last", reinvocationPolicy="IfNeeded"),
    )
    hooks.answers["/last"] = data("last", "1")
    created = await api.ok("POST", MAPS, config_map())
    assert created["data"] == {"a": "b", "last": "1"}
    assert (len(hooks.asked("/again")), len(hooks.asked("/never")), len(hooks.asked("/last"))) == (2, 1, 1)
    assert hooks.asked("/again")[1]["object"]["data"] == {"a": "b", "last": "1"}


async def test_dry_runs(api: Api, hooks: Hooks) -> None:
    """Reviews say that a write is a dry run, and the changes of webhooks are in the answer."""
    await configure(api, "mutating", hooks.webhook("/x", sideEffects="NoneOnDryRun"))
    hooks.answers["/x"] = json_patch(ADD)
    created = await api.ok("POST", f"{MAPS}?dryRun=All", config_map())
    assert created["data"]["mutated"] == "yes"
    (asked,) = hooks.asked()
    assert (asked["dryRun"], asked["options"]["dryRun"]) == (True, ["All"])
    await api.fails(404, "GET", f"{MAPS}/x")


async def test_fields_of_the_server_stay(api: Api, hooks: Hooks) -> None:
    """Neither the name nor what only the server sets can be changed."""
    await configure(api, "mutating", hooks.webhook("/x"))
    hooks.answers["/x"] = json_patch(
        {"op": "add", "path": "/metadata/uid", "value": "forged"}, {"op": "add", "path": "/metadata/annotations/k", "value": "v"}
    )
    created = await api.ok("POST", MAPS, config_map())
    assert created["metadata"]["uid"] != "forged"
    assert created["metadata"]["annotations"] == {"k": "v", "kcp.io/cluster": "a"}
    hooks.answers["/x"] = json_patch({"op": "replace", "path": "/metadata/name", "value": "other"})
    refused = await api.fails(500, "POST", MAPS, config_map("y"))
    assert "changed the name or the namespace of the object" in refused["message"]
    hooks.answers["/x"] = json_patch({"op": "replace", "path": "", "value": []})
    assert "made something else of the object" in (await api.fails(500, "POST", MAPS, config_map("y")))["message"]


async def test_configurations_are_exempt(api: Api, hooks: Hooks) -> None:
    """No webhook sees configurations, policies or reviews, so that a broken one can be removed."""
    rules = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
    for kind in ("mutating", "validating"):
        await configure(api, kind, hooks.webhook("/x", rules=rules))
    hooks.answers["/x"] = {"allowed": False}
    await api.ok("POST", "/clusters/a/apis/authentication.k8s.io/v1/tokenreviews", {"spec": {"token": "x"}})
    await api.fails(400, "POST", MAPS, config_map())
    await api.ok("DELETE", f"{GROUP.format('a')}mutatingwebhookconfigurations/c")
    await api.ok("DELETE", f"{GROUP.format('a')}validatingwebhookconfigurations/c")
    await api.ok("POST", MAPS, config_map())
    assert len(hooks.asked()) == 1
