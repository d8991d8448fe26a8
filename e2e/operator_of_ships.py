"""A kopf operator in a process of its own, for the logical clusters at the URLs given: it paints ships, and docks them before they go.

python -m e2e.operator_of_ships CA_FILE TOKEN URL …

Operators of one cluster know each other by the peering `ships`. What it is told is written to standard output, one JSON document a line.
"""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from typing import Any

import kopf

GROUP = "kopf.example.com"


def say(cluster: str, what: str, name: str | None, **more: Any) -> None:
    # One write: the operators of several clusters have a thread each.
    sys.stdout.write(f"{json.dumps({'cluster': cluster, 'what': what, 'name': name, **more})}\n")
    sys.stdout.flush()


def registry_of(url: str, ca_file: str, token: str) -> kopf.OperatorRegistry:
    """Handlers for one cluster."""
    registry = kopf.OperatorRegistry()
    cluster = url.rpartition("/")[2]

    @kopf.on.login(registry=registry)
    def login(**_: Any) -> kopf.ConnectionInfo:
        return kopf.ConnectionInfo(server=url, ca_path=ca_file, scheme="Bearer", token=token)

    @kopf.on.startup(registry=registry)
    def configure(settings: kopf.OperatorSettings, **_: Any) -> None:
        settings.persistence.finalizer = f"{GROUP}/dock"
        # A busy machine may report a change late; kopf continues without it after a while.
        settings.persistence.consistency_timeout = 60
        settings.peering.name = "ships"
        settings.peering.mandatory = True

    @kopf.on.resume(GROUP, "v1", "ships", registry=registry, id="resume")
    def resume(name: str, **_: Any) -> None:
        say(cluster, "resume", name)

    @kopf.on.create(GROUP, "v1", "ships", registry=registry, id="create")
    def create(name: str, body: kopf.Body, spec: kopf.Spec, retry: int, patch: kopf.Patch, **_: Any) -> dict[str, Any]:
        say(cluster, "create", name, retry=retry)
        if retry == 0:
            raise kopf.TemporaryError("no paint yet", delay=0.1)
        patch.status["painted"] = spec.get("color")
        kopf.info(body, reason="Painted", message=f"painted {spec.get('color')}")
        return {"tries": retry + 1}

    @kopf.on.update(GROUP, "v1", "ships", registry=registry, id="update", field="spec.color")
    def update(name: str, old: str, new: str, patch: kopf.Patch, **_: Any) -> None:
        say(cluster, "update", name, old=old, new=new)
        patch.status["painted"] = new

    @kopf.on.delete(GROUP, "v1", "ships", registry=registry, id="delete")
    def delete(name: str, **_: Any) -> None:
        say(cluster, "delete", name)

    return registry


def main() -> None:
    """An operator for each cluster, in a thread and a loop of its own, until SIGTERM."""
    ca_file, token, *urls = sys.argv[1:]
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())

    def run(url: str) -> None:
        asyncio.run(kopf.operator(registry=registry_of(url, ca_file, token), clusterwide=True, stop_flag=stop))

    threads = [threading.Thread(target=run, args=(url,)) for url in urls]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


if __name__ == "__main__":
    main()
