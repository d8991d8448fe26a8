"""A control plane with widgets that a webhook converts between versions."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import orjson
import pytest

from kcp_py.controlplane import ControlPlane
from tests.egress.https import Certificate, HttpsServer, issue
from tests.server.handlers.conftest import Api, Watch, options
from tests.server.handlers.converting import Change, webhook
from tests.server.handlers.widgets import MERGE

KEY = "/registry/example.com/widgets/customresources/a/default/"
V1 = "/clusters/a/apis/example.com/v1/namespaces/default/widgets"
BETA = V1.replace("/v1/", "/v1beta1/")
V2 = V1.replace("/v1/", "/v2/")
SCALE = {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": {"replicas": 42}}


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Certificate:
    return issue(tmp_path_factory.mktemp("pki"), "127.0.0.1")


@pytest.fixture
async def hook(certificate: Certificate) -> AsyncIterator[HttpsServer]:
    """A webhook that converts well until a test has it do otherwise."""
    async with HttpsServer(certificate, webhook()) as server:
        yield server


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    """The administrator of a control plane that may call webhooks of this machine."""
    async with AsyncExitStack() as stack:
        control_plane = await stack.enter_async_context(ControlPlane(options(tmp_path, webhook_networks=("127.0.0.0/8",))))
        client = await stack.enter_async_context(
            httpx.AsyncClient(transport=httpx.ASGITransport(control_plane.app), base_url="https://kcp.test")
        )
        yield Api(client, control_plane)


def widget(name: str, version: str = "v1", **more: Any) -> dict[str, Any]:
    return {"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": name}, **more}


async def stored(api: Api, name: str) -> dict[str, Any]:
    item = await api.control_plane.backend.access.storage.get(f"{KEY}{name}")
    assert item is not None
    obj: dict[str, Any] = orjson.loads(item.value)
    return obj


def field(name: str, value: Any) -> Change:
    def change(asked: dict[str, Any], response: dict[str, Any]) -> None:
        del asked
        response[name] = value

    return change


def metadata(**changes: Any) -> Change:
    def change(asked: dict[str, Any], response: dict[str, Any]) -> None:
        del asked
        for obj in response["convertedObjects"]:
            obj["metadata"] = {**obj["metadata"], **changes}

    return change


def every(**changes: Any) -> Change:
    def change(asked: dict[str, Any], response: dict[str, Any]) -> None:
        del asked
        for obj in response["convertedObjects"]:
            obj.update(changes)

    return change


async def failing(api: Api, text: str) -> None:
    """Every verb fails in the version that is not stored, and works in the one that is."""
    current = await api.ok("GET", f"{V1}/one")
    for method, path, body, headers in (
        ("GET", f"{V2}/one", None, None),
        ("GET", V2, None, None),
        ("POST", V2, widget("one", "v2"), None),
        ("PUT", f"{V2}/one", {**current, "apiVersion": "example.com/v2"}, None),
        ("PATCH", f"{V2}/one", {"contentV2": {"key": "x"}}, MERGE),
        ("GET", f"{V2}/one/status", None, None),
        ("PUT", f"{V2}/one/status", {**current, "apiVersion": "example.com/v2"}, None),
        ("PATCH", f"{V2}/one/status", {"status": {"ready": 1}}, MERGE),
        ("GET", f"{V2}/one/scale", None, None),
        ("PUT", f"{V2}/one/scale", SCALE, None),
        ("PATCH", f"{V2}/one/scale", {"spec": {"replicas": 42}}, MERGE),
        ("DELETE", f"{V2}/one", None, None),
        ("DELETE", V2, None, None),
    ):
        if method == "POST" and " one " in text:
            continue
        status = await api.fails(500, method, path, body, headers=headers)
        assert status["reason"] == "InternalError", (method, path)
        assert status["message"].startswith("Internal error occurred: conversion webhook for example.com/v"), status["message"]
        assert text in status["message"], (method, path, status["message"])
    assert await api.ok("GET", f"{V1}/one") == current
    async with Watch(api, V2, resourceVersion="0") as watch:
        event = await watch.next()
        assert event is not None
        assert (event["type"], event["object"]["code"], event["object"]["reason"]) == ("ERROR", 500, "InternalError")
        assert text in event["object"]["message"]
        assert await watch.next() is None
    await api.ok("PATCH", f"{V1}/one", {"metadata": {"labels": {"seen": "yes"}}}, headers=MERGE)
    await api.ok("DELETE", f"{V1}/one")
