"""A real webhook over HTTPS, and the kubeconfig that names it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import orjson
import pytest
import yaml

from tests.egress.https import Certificate, HttpsServer, Request, http, issue


def reviewed(*, allowed: bool = False, denied: bool = False, reason: str = "", version: str = "v1") -> bytes:
    """The bytes of a response with a review."""
    status = {"allowed": allowed, "denied": denied, "reason": reason}
    return http(200, orjson.dumps({"kind": "SubjectAccessReview", "apiVersion": f"authorization.k8s.io/{version}", "status": status}))


ALLOW = reviewed(allowed=True, reason="by the hook")
DENY = reviewed(denied=True, reason="not by the hook")
NO_OPINION = reviewed(reason="never heard of it")


class Hook:
    """The webhook. Set `answer` to the bytes of the response, or to a function from the review to them."""

    def __init__(self, folder: Path, certificate: Certificate, *, client: Certificate | None = None) -> None:
        self.answer: bytes | Callable[[dict[str, Any]], bytes] = ALLOW
        self.blocked: asyncio.Event | None = None
        self.server = HttpsServer(certificate, self._respond, client_authority=None if client is None else client.authority)
        self._folder = folder
        self._client = client

    async def _respond(self, request: Request) -> bytes:
        if self.blocked is not None:
            await self.blocked.wait()
        return self.answer if isinstance(self.answer, bytes) else self.answer(request.json())

    @property
    def asked(self) -> list[dict[str, Any]]:
        """The specs of the reviews that came."""
        return [request.json()["spec"] for request in self.server.requests]

    def kubeconfig(self, **user: str) -> Path:
        """Write the kubeconfig."""
        if self._client is not None:
            user |= {"client-certificate": str(self._client.chain_file), "client-key": str(self._client.chain_file)}
        cluster = {"server": f"{self.server.origin}/authorize", "certificate-authority-data": self.server.certificate.bundle}
        file = self._folder / "webhook.kubeconfig"
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [{"name": "hook", "cluster": cluster}],
            "users": [{"name": "server", "user": user}],
            "contexts": [{"name": "hook", "context": {"cluster": "hook", "user": "server"}}],
            "current-context": "hook",
        }
        file.write_text(yaml.safe_dump(document))
        return file


@pytest.fixture
async def hook(tmp_path: Path) -> AsyncIterator[Hook]:
    """A webhook that needs a client certificate."""
    client = issue(tmp_path, "kcp-py.test")
    found = Hook(tmp_path, issue(tmp_path, "127.0.0.1"), client=client)
    async with found.server:
        yield found
