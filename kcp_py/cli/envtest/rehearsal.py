"""`rehearse`: a control plane that is served, used and ended once, so that what all environments have in common is made before they are.

The modules that requests load are loaded then, and the memory that a fork shares with its parent until either writes to it is copied.
"""

from __future__ import annotations

import asyncio
import functools
import json
import secrets
import socket
import ssl
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

_COLUMNS: Final = [{"name": "Size", "type": "integer", "jsonPath": ".spec.size"}]
_SCHEMA: Final = {
    "type": "object",
    "properties": {
        "spec": {
            "type": "object",
            "properties": {"size": {"type": "integer", "default": 1}},
            "x-kubernetes-validations": [{"rule": "self.size > 0"}],
        },
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    },
}
_VERSION: Final = {
    "name": "v1",
    "served": True,
    "storage": True,
    "subresources": {"status": {}},
    "additionalPrinterColumns": _COLUMNS,
    "schema": {"openAPIV3Schema": _SCHEMA},
}
_DEFINITION: Final = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "widgets.rehearsal.test"},
    "spec": {
        "group": "rehearsal.test",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "versions": [_VERSION],
    },
}
_WIDGET: Final = {"apiVersion": "rehearsal.test/v1", "kind": "Widget", "metadata": {"name": "one", "namespace": "default"}, "spec": {}}
_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
_WIDGETS: Final = "/apis/rehearsal.test/v1/namespaces/default/widgets"
_TIMEOUT_SECONDS: Final = 30.0


class _Call(NamedTuple):
    method: str
    path: str
    body: Any = None
    kind: str = "application/json"


HEALTH: Final = (_Call("GET", "/healthz"),)
"""What an environment is asked first."""
CALLS: Final = (
    *HEALTH,
    _Call("GET", "/api"),
    _Call("GET", "/apis"),
    _Call("POST", _DEFINITIONS, _DEFINITION),
    _Call("GET", f"{_DEFINITIONS}/widgets.rehearsal.test"),
    _Call("GET", "/apis/rehearsal.test/v1"),
    _Call("GET", "/openapi/v3"),
    _Call("POST", _WIDGETS, _WIDGET),
    _Call("PUT", f"{_WIDGETS}/one/status", {**_WIDGET, "metadata": {"name": "one", "resourceVersion": "1"}, "status": {}}),
    _Call("PATCH", f"{_WIDGETS}/one", {"spec": {"size": 2}}, "application/merge-patch+json"),
    _Call("PATCH", f"{_WIDGETS}/one?fieldManager=test", {**_WIDGET, "spec": {"size": 2}}, "application/apply-patch+yaml"),
    _Call("GET", _WIDGETS),
    _Call("GET", f"{_WIDGETS}?watch=true"),
    _Call("DELETE", f"{_WIDGETS}/one"),
    _Call("POST", "/api/v1/namespaces", {"metadata": {"name": "rehearsal"}}),
    _Call("GET", "/api/v1/namespaces/none/pods/none"),
    _Call("POST", "/api/v1/namespaces/rehearsal/configmaps", {"metadata": {"generateName": "one-"}, "data": {"a": "b"}}),
)
"""What most tests do."""


def rehearse(calls: Sequence[_Call]) -> Sequence[int]:
    """Serve a control plane with the flags of envtest, answer some requests, and end it.

    Returns:
        The statuses of the answers.
    """
    from kcp_py.serving.server import event_loop_factory

    with tempfile.TemporaryDirectory(prefix="kcp-py-rehearsal-") as directory, asyncio.Runner(loop_factory=event_loop_factory()) as runner:
        return runner.run(asyncio.wait_for(_rehearse(Path(directory), calls), _TIMEOUT_SECONDS))


async def _rehearse(directory: Path, calls: Sequence[_Call]) -> Sequence[int]:
    from kcp_py.cli.envtest.flags import read
    from kcp_py.cli.envtest.translation import options_of
    from kcp_py.controlplane import ControlPlane
    from kcp_py.serving.server import serve
    from kcp_py.serving.tls import ReloadingContext

    token = secrets.token_hex()
    for name, content in _files().items():
        (directory / name).write_bytes(content)
    (directory / "tokens.csv").write_text(f'{token},admin,1,"system:masters"\n')
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.setblocking(False)
        port = listener.getsockname()[1]
        line = read(
            (
                *("--bind-address=127.0.0.1", f"--secure-port={port}", "--authorization-mode=RBAC"),
                *("--disable-admission-plugins=ServiceAccount", f"--client-ca-file={directory}/tls.crt"),
                *(f"--token-auth-file={directory}/tokens.csv", f"--service-account-issuer=https://127.0.0.1:{port}/"),
                *(f"--service-account-{use}-file={directory}/sa.key" for use in ("key", "signing-key")),
            )
        )
        options = options_of(line, {}, certificate=(directory / "tls.crt", directory / "tls.key"))
        tls = ReloadingContext(options)
        stop = asyncio.Event()
        async with ControlPlane(options) as control_plane:
            serving = asyncio.create_task(
                serve(
                    control_plane.app,
                    listener,
                    options,
                    tls=tls.context,
                    on_shutdown=control_plane.begin_shutdown,
                    on_ready=_nothing,
                    stop=stop,
                )
            )
            try:
                return await _call_all(calls, port, token)
            finally:
                stop.set()
                await serving


async def _call_all(calls: Sequence[_Call], port: int, token: str) -> Sequence[int]:
    statuses = []
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    for call in calls:
        reader, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
        body = b"" if call.body is None else json.dumps(call.body).encode()
        head = (
            f"{call.method} {call.path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\nConnection: close\r\n"
            f"Accept: application/json\r\nContent-Type: {call.kind}\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        writer.write(head.encode() + body)
        # A watch does not end by itself.
        answer = await (reader.read(12) if "watch=" in call.path else reader.read())
        statuses.append(int(answer[9:12] or b"0"))
        writer.transport.abort()
    return statuses


@functools.cache
def _files() -> dict[str, bytes]:
    import datetime as dt

    from cryptography.hazmat.primitives import serialization
    from cryptography.hazmat.primitives.asymmetric import rsa

    from kcp_py.serving.certificates import temporary_serving_pair

    chain, private = temporary_serving_pair(("127.0.0.1",), now=dt.datetime.now(dt.UTC))
    encoding = serialization.Encoding.PEM
    key = rsa.generate_private_key(65537, 2048).private_bytes(encoding, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    return {"tls.crt": chain, "tls.key": private, "sa.key": key}


def _nothing() -> None:
    """Nothing waits for the start."""
