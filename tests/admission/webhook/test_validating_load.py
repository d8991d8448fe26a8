"""Webhooks that call the server, many webhooks, and configurations that change while clients write."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from tests.admission.webhook.conftest import GROUP, MAPS, MERGE, Hooks, config_map, configure, json_patch
from tests.egress.https import Request, http
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio
SECRETS = "/clusters/a/api/v1/namespaces/default/secrets"
ALL = [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]
WRITERS = 4


def review(asked: dict[str, Any], **response: Any) -> bytes:
    document = {
        "apiVersion": "admission.k8s.io/v1",
        "kind": "AdmissionReview",
        "response": {"uid": asked["uid"], "allowed": True, **response},
    }
    return http(200, orjson.dumps(document))


async def test_a_webhook_that_calls_the_server(api: Api, hooks: Hooks) -> None:
    """It reads and writes while it answers: other objects, its own configuration, and the object of the write, which the write notices."""
    answers: list[int] = []

    async def respond(request: Request) -> bytes:
        asked = request.json()["request"]
        if asked["resource"]["resource"] == "configmaps" and asked["userInfo"]["username"] == "shard-admin" and not answers:
            answers.append(0)
            for method, path, body in (
                ("GET", MAPS, None),
                ("POST", SECRETS, {"metadata": {"name": "of-webhook"}}),
                ("POST", MAPS, config_map("of-webhook")),
                ("PATCH", f"{GROUP.format('a')}validatingwebhookconfigurations/c", {"metadata": {"labels": {"a": "b"}}}),
                ("PATCH", f"{MAPS}/x", {"data": {"of": "webhook"}}),
                ("POST", "/clusters/a/api/v1/namespaces", {"metadata": {"name": "of-webhook"}}),
                ("DELETE", f"{SECRETS}/of-webhook", None),
            ):
                headers = MERGE if method == "PATCH" else None
                answers.append((await api(method, path, body, headers=headers)).status_code)
        return review(asked)

    created = await api.ok("POST", MAPS, config_map())
    hooks.server.respond = respond
    for kind in ("mutating", "validating"):
        await configure(api, kind, hooks.webhook(f"/{kind}", rules=ALL))
    # The write was made for the object as it was before.
    replaced = config_map(a="replaced")
    replaced["metadata"]["resourceVersion"] = created["metadata"]["resourceVersion"]
    async with asyncio.timeout(60):
        refused = await api.fails(409, "PUT", f"{MAPS}/x", replaced)
    assert refused["reason"] == "Conflict"
    assert answers == [0, 200, 201, 201, 200, 200, 201, 200]
    answers.clear()
    async with asyncio.timeout(60):
        patched = await api.ok("PATCH", f"{MAPS}/x", {"data": {"a": "patched"}}, headers=MERGE)
    assert patched["data"] == {"a": "patched", "of": "webhook"}
    answers.clear()
    async with asyncio.timeout(60):
        # The webhook has made it first.
        await api.fails(409, "POST", MAPS, config_map("of-webhook"))


async def test_a_webhook_that_is_asked_about_its_own_writes(api: Api, hooks: Hooks) -> None:
    """Writes that call webhooks that write do not wait for each other."""
    names: list[str] = []

    async def respond(request: Request) -> bytes:
        asked = request.json()["request"]
        names.append(asked["name"])
        if len(names) < 10:
            await api.ok("POST", MAPS, config_map(f"m{len(names)}"))
        return review(asked)

    hooks.server.respond = respond
    await configure(api, "validating", hooks.webhook("/x"))
    async with asyncio.timeout(60):
        await api.ok("POST", MAPS, config_map("m0"))
    assert names == [f"m{number}" for number in range(10)]


async def test_a_hundred_webhooks(api: Api, hooks: Hooks) -> None:
    """Mutating ones change the object in their order; validating ones are all asked, and one of them decides."""
    names = [f"h{number:03}" for number in range(100)]
    for kind in ("mutating", "validating"):
        for start in range(0, 100, 50):
            webhooks = [hooks.webhook(f"/{kind}-{name}") for name in names[start : start + 50]]
            await configure(api, kind, *webhooks, name=f"c{start:02}")
    for name in names:
        hooks.answers[f"/mutating-{name}"] = json_patch({"op": "add", "path": f"/data/{name}", "value": "yes"})
    made = await api.ok("POST", MAPS, config_map())
    assert made["data"] == {"a": "b", **dict.fromkeys(names, "yes")}
    assert [one.target.partition("?")[0] for one in hooks.server.requests[:100]] == [f"/mutating-{name}" for name in names]
    assert {one.target.partition("?")[0] for one in hooks.server.requests[100:]} == {f"/validating-{name}" for name in names}
    hooks.answers["/validating-h042"] = {"allowed": False, "status": {"message": "no"}}
    refused = await api.fails(400, "POST", MAPS, config_map("y"))
    assert refused["message"] == 'admission webhook "validating-h042.example.com" denied the request: no'


async def test_configurations_that_change_under_load(api: Api, hooks: Hooks) -> None:
    """Each write obeys the configuration that was answered last before it began, or one that came while it ran."""
    path = f"{GROUP.format('a')}mutatingwebhookconfigurations/c"
    await configure(api, "mutating", hooks.webhook("/v0"))
    for version in range(30):
        hooks.answers[f"/v{version}"] = json_patch({"op": "add", "path": "/data/version", "value": str(version)})
    answered = begun = 0
    ended = asyncio.Event()
    written = [0] * WRITERS

    async def write(writer: int) -> None:
        while not ended.is_set():
            before = answered
            made = await api.ok("POST", MAPS, config_map(f"w{writer}-{written[writer]}"))
            assert before <= int(made["data"]["version"]) <= begun
            written[writer] += 1

    async with asyncio.TaskGroup() as tasks:
        for writer in range(WRITERS):
            tasks.create_task(write(writer))
        for version in range(1, 30):
            # Each version is in force for some writes of each writer.
            enough = [count + 1 for count in written]
            while any(count < least for count, least in zip(written, enough, strict=True)):
                await asyncio.sleep(0)
            begun = version
            await api.ok("PATCH", path, {"webhooks": [hooks.webhook(f"/v{version}")]}, headers=MERGE)
            answered = version
        ended.set()
    stored = {item["metadata"]["name"] for item in (await api.ok("GET", MAPS))["items"]}
    assert {f"w{writer}-{number}" for writer in range(WRITERS) for number in range(written[writer])} <= stored
