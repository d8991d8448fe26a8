"""A server that idles, and then meets its first CRD with rules and its first token. It prints the imported modules and their threads.

Runs in a process of its own: `python -m tests.controlplane.idle_server DIRECTORY`.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from importlib.machinery import ModuleSpec
from pathlib import Path

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.logicalcluster import Name
from kcp_py.options import Options

CLUSTER = Name("a")
CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")
ACCOUNTS = GroupVersionResource("", "v1", "serviceaccounts")
SCHEMA = {"type": "object", "x-kubernetes-validations": [{"rule": "has(self.metadata)"}]}
CRD = {
    "metadata": {"name": "things.example.com"},
    "spec": {
        "group": "example.com",
        "names": {"plural": "things", "kind": "Thing"},
        "scope": "Namespaced",
        "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": SCHEMA}}],
    },
}
TOKEN = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "metadata": {"namespace": "default"}, "spec": {"audiences": []}}


class Finder:
    """Finds no module, and notes in which thread each one was looked for."""

    def __init__(self) -> None:
        self.threads: dict[str, str] = {}

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        del path, target
        self.threads.setdefault(name, threading.current_thread().name)
        return None


async def main(root: Path) -> None:
    finder = Finder()
    sys.meta_path.insert(0, finder)
    from kcp_py.cli.structlogimport import import_structlog

    import_structlog()
    import kcp_py.cli.process
    from kcp_py.controlplane import ControlPlane

    del kcp_py
    async with ControlPlane(Options(root_directory=root, storage="sqlite")) as control_plane:
        client = control_plane.client
        await client.list(CLUSTER, CRDS)
        idle = sorted(sys.modules)
        await client.create(CLUSTER, CRDS, CRD)
        await client.create(CLUSTER, ACCOUNTS, TOKEN, name="default", subresource="token")
    print(json.dumps({"idle": idle, "threads": finder.threads}))


if __name__ == "__main__":
    asyncio.run(main(Path(sys.argv[1])))
