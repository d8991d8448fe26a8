"""A CRD with two versions between which a webhook converts, through the real kubectl."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from e2e.conftest import Kubectl, ServerProcess
from tests.egress.https import HttpsServer, Request, Respond, http, issue
from tests.server.handlers.converting import converting, webhook

TIMEOUT = 60


class HookThread:
    """The webhook, in a thread of its own."""

    def __init__(self, folder: Path, respond: Respond | None = None) -> None:
        """The webhook answers as `respond` says, and converts widgets without one."""
        self._loop = asyncio.new_event_loop()
        self.server = HttpsServer(issue(folder, "127.0.0.1"), respond or webhook())
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)

    def __enter__(self) -> HttpsServer:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self.server.__aenter__(), self._loop).result(TIMEOUT)
        return self.server

    def __exit__(self, *exc_info: object) -> None:
        asyncio.run_coroutine_threadsafe(self.server.__aexit__(), self._loop).result(TIMEOUT)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(TIMEOUT)
        self._loop.close()


@pytest.fixture
def hook(tmp_path: Path) -> Iterator[HttpsServer]:
    with HookThread(tmp_path) as server:
        yield server


@pytest.fixture
def client(new_server: Callable[..., ServerProcess], kubectl_binary: str, tmp_path: Path) -> Kubectl:
    server = new_server("--webhook-networks", "127.0.0.0/8").start()
    return Kubectl(kubectl_binary, server.kubeconfig, tmp_path / "cache", f"{server.url}/clusters/versions")


def manifest(version: str, **more: Any) -> str:
    return json.dumps({"apiVersion": f"example.com/{version}", "kind": "Widget", "metadata": {"name": "one"}, **more})


def test_versions_are_read_applied_and_watched(client: Kubectl, hook: HttpsServer) -> None:
    """Whatever version a person writes, and whatever version a person asks for."""
    crd = converting(hook)
    client.run("apply", "-f", "-", stdin=json.dumps(crd))
    client.run("wait", "--for=condition=Established", "crd/widgets.example.com", f"--timeout={TIMEOUT}s")
    assert "created" in client.run("apply", "-f", "-", stdin=manifest("v1", content={"key": "k"}))
    assert client.json("get", "widgets.v1.example.com", "one")["content"] == {"key": "k"}
    assert client.json("get", "widgets.v2.example.com", "one")["contentV2"] == {"key": "k"}
    watching = client.start("get", "widgets.v2.example.com", "--watch", "-o", "jsonpath={.contentV2.key}{'\\n'}")
    try:
        assert watching.stdout is not None
        assert watching.stdout.readline() == "k\n"
        assert "configured" in client.run("apply", "-f", "-", stdin=manifest("v2", contentV2={"key": "l"}))
        assert watching.stdout.readline() == "l\n"
    finally:
        watching.kill()
        watching.communicate()
    assert client.json("get", "widgets.v1.example.com", "one")["content"] == {"key": "l"}
    assert "one" in client.run("get", "widgets.v2.example.com")


def test_a_broken_webhook_is_told(client: Kubectl, hook: HttpsServer) -> None:
    """With upstream's words in the version that needs it, while the other goes on."""

    async def refuse(request: Request) -> bytes:
        del request
        return http(503)

    client.run("apply", "-f", "-", stdin=json.dumps(converting(hook)))
    client.run("wait", "--for=condition=Established", "crd/widgets.example.com", f"--timeout={TIMEOUT}s")
    client.run("apply", "-f", "-", stdin=manifest("v1", content={"key": "k"}))
    hook.respond = refuse
    told = client.run("get", "widgets.v2.example.com", "one", fails=True)
    assert told.strip() == (
        "Error from server (InternalError): Internal error occurred: conversion webhook for example.com/v1, Kind=Widget failed: "
        "the server is currently unable to handle the request"
    )
    assert client.json("get", "widgets.v1.example.com", "one")["content"] == {"key": "k"}
