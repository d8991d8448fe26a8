"""Cascades in a server that is killed in the middle of them."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable

import pytest

from e2e.conftest import START_SECONDS, ServerProcess
from e2e.informer import Session, configmap

PATH = "/clusters/team/api/v1/namespaces/default/configmaps"
DEPENDENTS = 120


def left(session: Session) -> int:
    """How many config maps there are."""
    _, found = session.request("GET", f"{PATH}?limit=1")
    return len(found["items"]) + int(found["metadata"].get("remainingItemCount", 0))


def wait(session: Session, holds: Callable[[int], bool]) -> None:
    """Ask until so many are left."""
    end = time.monotonic() + START_SECONDS
    while not holds(count := left(session)):
        assert time.monotonic() < end, count


@pytest.mark.slow
@pytest.mark.parametrize("propagation", ["Background", "Foreground"])
def test_a_cascade_goes_on_after_a_kill(new_server: Callable[..., ServerProcess], propagation: str) -> None:
    """What the server had not got to when it was killed goes after its next start; what has another owner stays."""
    server = new_server().start()
    with Session(server) as session:
        made = {}
        for name in ("owner", "other"):
            code, made[name] = session.request("POST", PATH, configmap(name, {}))
            assert code == 201
        references = {
            name: {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": obj["metadata"]["uid"], "blockOwnerDeletion": True}
            for name, obj in made.items()
        }
        session.request("POST", PATH, configmap("shared", {}, ownerReferences=list(references.values())))
        for number in range(DEPENDENTS):
            session.request("POST", PATH, configmap(f"z{number}", {}, ownerReferences=[references["owner"]]))
        assert left(session) == DEPENDENTS + 3
        session.request("DELETE", f"{PATH}/owner", {"kind": "DeleteOptions", "apiVersion": "v1", "propagationPolicy": propagation})
        wait(session, lambda count: count < DEPENDENTS)
    server.stop(signal.SIGKILL)
    server.start()
    with Session(server) as session:
        wait(session, lambda count: count <= 2)
        _, found = session.request("GET", PATH)
        assert sorted(item["metadata"]["name"] for item in found["items"]) == ["other", "shared"]
        (shared,) = [item for item in found["items"] if item["metadata"]["name"] == "shared"]
        uids = [reference["uid"] for reference in shared["metadata"]["ownerReferences"]]
        assert references["other"]["uid"] in uids
