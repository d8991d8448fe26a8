"""A real webhook of the operator over HTTPS, and the kubeconfig that names it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from tests.egress.https import Certificate, HttpsServer, Request


class Clock:
    """Time that tests move. Sleeping takes no time of theirs."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def __call__(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Hook:
    """The webhook. Set `answer` to the bytes of the response, or to a function from the review to them."""

    def __init__(self, folder: Path, certificate: Certificate, answer: bytes, *, client: Certificate | None = None) -> None:
        """Prepare. With a certificate of a client, clients must show it."""
        self.answer: bytes | Callable[[dict[str, Any]], bytes] = answer
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
        return write_kubeconfig(self._folder / "webhook.kubeconfig", self.server, client=self._client, **user)


def write_kubeconfig(file: Path, server: HttpsServer, *, client: Certificate | None = None, **user: str) -> Path:
    """Write a kubeconfig that names a webhook.

    Args:
        file: the kubeconfig.
        server: the running webhook.
        client: the certificate that the webhook requires.
        user: further fields of the user.
    """
    if client is not None:
        user |= {"client-certificate": str(client.chain_file), "client-key": str(client.chain_file)}
    cluster = {"server": f"{server.origin}/authorize", "certificate-authority-data": server.certificate.bundle}
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
