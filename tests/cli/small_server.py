"""The program with a control plane of a few lines, to test the process around it: `python small_server.py start …`.

It answers `/clusters/NAME/…/logicalclusters` from memory, `/watch` with a stream that ends at shutdown, `/drain` when told to stop,
`/slow` never, and anything else with who the client's certificate says it is. What happens to it is printed.
"""

from __future__ import annotations

import asyncio
import json
import sys
import types
from pathlib import Path

from cryptography import x509

import kcp_py
from kcp_py.telemetry.gauges import Gauges

PREFIX = "/clusters/"
RESOURCE = "/apis/core.kcp.io/v1alpha1/logicalclusters"


class ControlPlane:
    def __init__(self, options):
        self.stopping = asyncio.Event()
        self.clusters: dict[str, int] = {}
        self.options = options
        self.gauges = Gauges()

    async def __aenter__(self):
        print("opened", flush=True)
        return self

    async def __aexit__(self, *_):
        print("closed", flush=True)

    async def root_cluster_uid(self):
        return "uid-root"

    def begin_shutdown(self):
        print("begin_shutdown", flush=True)
        self.stopping.set()

    async def app(self, scope, receive, send):
        if scope["type"] != "http":
            return
        path, method = scope["path"], scope["method"]
        if path.startswith(PREFIX) and RESOURCE in path:
            body = b""
            while True:
                message = await receive()
                body += message["body"]
                if not message["more_body"]:
                    break
            await _answer(send, *self.logical_clusters(method, path, scope["query_string"]))
        elif path == "/watch":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"started\n", "more_body": True})
            take_back = scope["state"]["on_disconnect"](lambda: print("disconnected", flush=True))
            await self.stopping.wait()
            take_back()
            await send({"type": "http.response.body", "body": b"ended\n"})
        elif path == "/drain":
            print("draining request", flush=True)
            await self.stopping.wait()
            for _ in range(100):
                await asyncio.sleep(0)
            await _answer(send, 200, {"drained": True})
        elif path == "/slow":
            print("slow request", flush=True)
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                print("slow request cancelled", flush=True)
                raise
        else:
            certificate = scope["state"]["peer_certificate"]
            name = None if certificate is None else x509.load_der_x509_certificate(certificate).subject.rfc4514_string()
            await _answer(send, 200, {"subject": name})

    def logical_clusters(self, method, path, query):
        cluster = path.removeprefix(PREFIX).partition("/")[0]
        if cluster == "*":
            names = sorted(self.clusters)
            start = int(dict(part.split("=") for part in query.decode().split("&")).get("continue", "0"))
            more = str(start + 2) if start + 2 < len(names) else ""
            return 200, {"items": [self.item(name) for name in names[start : start + 2]], "metadata": {"continue": more}}
        if method == "POST":
            if cluster in self.clusters:
                return 409, {"message": "exists"}
            self.clusters[cluster] = 0
            return 201, self.item(cluster)
        if cluster not in self.clusters:
            return 403, {"kind": "Status", "message": "forbidden"}
        if method == "DELETE":
            self.clusters[cluster] = 2
        elif self.clusters[cluster]:
            # A deletion takes two looks.
            self.clusters[cluster] -= 1
            if not self.clusters[cluster]:
                del self.clusters[cluster]
                return 403, {"message": "forbidden"}
        return 200, self.item(cluster)

    def item(self, name):
        metadata = {
            "name": "cluster",
            "uid": f"uid-{name}",
            "annotations": {"kcp.io/cluster": name},
            "creationTimestamp": "2020-01-01T00:00:00Z",
        }
        return {"metadata": metadata, "status": {"phase": "Ready"}}


async def _answer(send, status, body):
    content = json.dumps(body).encode()
    await send({"type": "http.response.start", "status": status, "headers": [(b"content-length", str(len(content)).encode())]})
    await send({"type": "http.response.body", "body": content})


def main() -> None:
    module = types.ModuleType("kcp_py.controlplane")
    module.ControlPlane = ControlPlane  # type: ignore[attr-defined]
    # The other modules of the package are the real ones.
    module.__path__ = [str(Path(kcp_py.__file__).with_name("controlplane"))]
    sys.modules["kcp_py.controlplane"] = module
    from kcp_py.__main__ import main as program

    program()


if __name__ == "__main__":
    main()
