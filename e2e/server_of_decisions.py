"""An authorization webhook in a process of its own: alice may list and watch config maps in team-a, and carol may do nothing anywhere.

python -m e2e.server_of_decisions FOLDER

It writes the kubeconfig that names it to `hook.kubeconfig` in the folder, and prints a line when it serves. Clients need a certificate.
"""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

from tests.egress.https import HttpsServer, Request, http, issue
from tests.egress.webhook import write_kubeconfig


def decide(spec: dict[str, Any]) -> dict[str, Any]:
    """The status for the spec of a review."""
    (cluster,) = spec["extra"]["authorization.kcp.io/cluster-name"]
    resource = spec.get("resourceAttributes") or {}
    if spec["user"] == "carol":
        return {"allowed": False, "denied": True, "reason": f"carol has left {cluster}"}
    maps = resource.get("resource") == "configmaps" and resource.get("verb") in {"list", "watch"}
    return {"allowed": spec["user"] == "alice" and cluster == "team-a" and maps}


async def serve(folder: Path) -> None:
    """Serve until the process ends."""

    async def respond(request: Request) -> bytes:
        review = request.json()
        return http(200, json.dumps({**review, "status": decide(review["spec"])}).encode())

    client = issue(folder, "kcp-py.test")
    async with HttpsServer(issue(folder, "127.0.0.1"), respond, client_authority=client.authority) as server:
        write_kubeconfig(folder / "hook.kubeconfig", server, client=client)
        print("serving", flush=True)
        await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(serve(Path(sys.argv[1])))
