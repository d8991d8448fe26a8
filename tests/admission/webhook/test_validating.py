"""Validating webhooks: what they refuse, that they are asked at once, selectors, conditions, and when configurations take effect."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admission.webhook.conftest import GROUP, MAPS, MERGE, Hooks, config_map, configure, json_patch
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio
CONFIGURATION = f"{GROUP.format('a')}validatingwebhookconfigurations/c"
DENIED = {"allowed": False, "status": {"message": "no", "code": 403, "reason": "Forbidden"}}


async def test_configurations_take_effect_at_once(api: Api, hooks: Hooks) -> None:
    """The first write after a configuration was created, changed or deleted obeys it."""
    hooks.answers["/x"] = DENIED
    await api.ok("POST", MAPS, config_map("before"))
    await configure(api, "validating", hooks.webhook("/x"))
    for count in range(5):
        refused = await api.fails(403, "POST", MAPS, config_map(f"y{count}"))
        assert refused["message"] == 'admission webhook "x.example.com" denied the request: no'
        rules = [{"operations": ["UPDATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}]
        await api.ok("PATCH", CONFIGURATION, {"webhooks": [hooks.webhook("/x", rules=rules)]}, headers=MERGE)
        await api.ok("POST", MAPS, config_map(f"x{count}"))
        await api.fails(403, "PUT", f"{MAPS}/x{count}", config_map(f"x{count}", a="c"))
        await api.ok("PATCH", CONFIGURATION, {"webhooks": [hooks.webhook("/x")]}, headers=MERGE)
    await api.ok("DELETE", CONFIGURATION)
    await api.ok("POST", MAPS, config_map("after"))


async def test_webhooks_are_asked_at_once(api: Api, hooks: Hooks) -> None:
    """All webhooks have been asked before any has answered; the object is the one that mutating webhooks made."""
    await configure(api, "mutating", hooks.webhook("/m"))
    hooks.answers["/m"] = json_patch({"op": "add", "path": "/data/m", "value": "1"})
    await configure(api, "validating", hooks.webhook("/x"), hooks.webhook("/y"))
    hooks.blocked = {"/x": asyncio.Event(), "/y": asyncio.Event()}
    write = asyncio.ensure_future(api.ok("POST", MAPS, config_map()))
    while len(hooks.asked()) < 3:
        await asyncio.sleep(0)
    for event in hooks.blocked.values():
        event.set()
    await write
    assert [asked["object"]["data"] for asked in hooks.asked()[1:]] == [{"a": "b", "m": "1"}] * 2
    assert hooks.asked("/x")[0]["object"]["metadata"]["uid"]


async def test_a_cluster_with_a_hanging_webhook_holds_up_no_other(api: Api, hooks: Hooks) -> None:
    """Writes of other clusters go on while writes of a cluster wait. Writes over a bound are refused, in that cluster alone."""
    await configure(api, "validating", hooks.webhook("/x"))
    await configure(api, "validating", hooks.webhook("/y"), cluster="b")
    hooks.blocked["/x"] = asyncio.Event()
    waiting = [asyncio.ensure_future(api("POST", MAPS, config_map(f"x{count}"))) for count in range(128)]
    while len(hooks.asked("/x")) < 16:
        await asyncio.sleep(0)
    refused = await api.fails(429, "POST", MAPS, config_map("more"))
    assert refused["details"] == {"retryAfterSeconds": 1}
    other = MAPS.replace("/a/", "/b/")
    for count in range(20):
        await api.ok("POST", other, config_map(f"x{count}"))
    await api.ok("GET", MAPS)
    await api.ok("POST", MAPS.replace("configmaps", "secrets"), {"metadata": {"name": "s"}})
    hooks.blocked["/x"].set()
    assert {answer.status_code for answer in await asyncio.gather(*waiting)} == {201}


async def test_each_cluster_has_its_own_webhooks(api: Api, hooks: Hooks) -> None:
    """A configuration is in force in its cluster alone, whatever its name."""
    await configure(api, "validating", hooks.webhook("/x"))
    hooks.answers["/x"] = DENIED
    await api.ok("POST", MAPS.replace("/a/", "/b/"), config_map())
    await configure(api, "validating", hooks.webhook("/y"), cluster="b")
    await api.ok("POST", MAPS.replace("/a/", "/b/"), config_map("y"))
    await api.fails(403, "POST", MAPS, config_map())
    assert [asked["object"]["metadata"]["annotations"] for asked in hooks.asked()] == [{"kcp.io/cluster": "b"}, {"kcp.io/cluster": "a"}]


@pytest.mark.parametrize(
    ("webhook", "expected"),
    [
        ({"namespaceSelector": {"matchLabels": {"team": "red"}}}, ["red"]),
        ({"namespaceSelector": {"matchExpressions": [{"key": "team", "operator": "DoesNotExist"}]}}, ["default"]),
        ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, ["default"]),
        ({"objectSelector": {"matchLabels": {"a": "b"}}}, ["red"]),
        ({"matchConditions": [{"name": "c", "expression": "object.metadata.namespace == 'red'"}]}, ["red"]),
        ({"matchConditions": [{"name": "c", "expression": "request.userInfo.username == 'jane'"}]}, []),
        (
            {"matchConditions": [{"name": "c", "expression": "authorizer.group('').resource('pods').check('get').allowed()"}]},
            ["default", "red"],
        ),
        ({"rules": [{"operations": ["CREATE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["*"], "scope": "Cluster"}]}, []),
        ({"rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*"]}]}, ["default", "red"]),
        ({"rules": []}, []),
    ],
)
async def test_which_writes_are_sent(api: Api, hooks: Hooks, webhook: dict[str, Any], expected: list[str]) -> None:
    """Rules, selectors and conditions decide, with the labels of namespaces that are not stored, too."""
    await api.ok("POST", "/clusters/a/api/v1/namespaces", {"metadata": {"name": "red", "labels": {"team": "red"}}})
    await configure(api, "validating", hooks.webhook("/x", **webhook))
    await api.ok("POST", MAPS, config_map())
    labelled = {**config_map(), "metadata": {"name": "x", "labels": {"a": "b"}}}
    await api.ok("POST", MAPS.replace("/default/", "/red/"), labelled)
    assert [asked["namespace"] for asked in hooks.asked()] == expected


async def test_conditions_that_cannot_tell(api: Api, hooks: Hooks) -> None:
    """A condition without a value refuses the write with upstream's text, unless another is false or failures are ignored."""
    broken = {"name": "a", "expression": "object.spec.x == 'x'"}
    await configure(api, "validating", hooks.webhook("/x", matchConditions=[broken]))
    refused = await api.fails(403, "POST", MAPS, config_map())
    assert refused["message"] == "configmaps \"x\" is forbidden: expression 'object.spec.x == 'x'' resulted in error: no such key: spec"
    false = {"name": "b", "expression": "false"}
    for webhook in ({"matchConditions": [broken, false]}, {"matchConditions": [broken], "failurePolicy": "Ignore"}):
        await api.ok("PATCH", CONFIGURATION, {"webhooks": [hooks.webhook("/x", **webhook)]}, headers=MERGE)
        await api.ok("POST", f"{MAPS}?dryRun=All", config_map())
    assert hooks.asked() == []


async def test_deletions(api: Api, hooks: Hooks) -> None:
    """Deletions of objects and of collections are reviewed one by one; one that is refused stays."""
    for name in ("x", "y"):
        await api.ok("POST", MAPS, config_map(name))
    await configure(api, "validating", hooks.webhook("/x"))
    hooks.answers["/x"] = DENIED
    await api.fails(403, "DELETE", f"{MAPS}/x")
    await api.fails(403, "DELETE", MAPS)
    assert len((await api.ok("GET", MAPS))["items"]) >= 2
    hooks.answers.clear()
    await api.ok("DELETE", MAPS)
    last = hooks.asked()[-1]
    assert (last["operation"], last["object"], last["options"]["kind"]) == ("DELETE", None, "DeleteOptions")
    assert "name" not in last
    assert last["oldObject"]["metadata"]["name"]


async def test_warnings(api: Api, hooks: Hooks) -> None:
    """Warnings of webhooks reach the client, of webhooks that refuse the write, too."""
    await configure(api, "validating", hooks.webhook("/x"))
    hooks.answers["/x"] = {"warnings": ["careful"]}
    answer = await api("POST", MAPS, config_map())
    assert answer.headers["Warning"] == '299 - "careful"'
    hooks.answers["/x"] = {**DENIED, "warnings": ["careful"]}
    answer = await api("POST", MAPS, config_map("y"))
    assert (answer.status_code, answer.headers["Warning"]) == (403, '299 - "careful"')


async def test_failures_that_are_ignored(api: Api, hooks: Hooks) -> None:
    """A webhook that fails refuses the write or does not, as it says; one that denies always does."""
    hooks.raw["/x"] = (500, "broken")
    await configure(api, "validating", hooks.webhook("/x"), hooks.webhook("/y", failurePolicy="Ignore"))
    refused = await api.fails(500, "POST", MAPS, config_map())
    assert refused["reason"] == "InternalError"
    assert 'failed calling webhook "x.example.com": failed to call webhook: an error on the server' in refused["message"]
    hooks.raw["/y"] = hooks.raw.pop("/x")
    await api.ok("POST", MAPS, config_map())
