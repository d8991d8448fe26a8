"""Large pods are checked in the thread for heavy work, with the same result."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from kcp_py.admission.podsecurity import offloading
from kcp_py.admission.podsecurity.levels import Policy, Standard
from kcp_py.admission.podsecurity.offloading import evaluate_pod
from kcp_py.admission.podsecurity.standards import evaluate

pytestmark = pytest.mark.anyio

MANY = 20_000


@pytest.mark.parametrize(
    ("spec", "threaded"),
    [
        ({"containers": [{"name": "c"}]}, False),
        ({"containers": [{"name": f"c{index}"} for index in range(MANY)]}, True),
        ({"volumes": [{"name": f"v{index}", "hostPath": {}} for index in range(MANY)]}, True),
        ({"containers": [{"name": "c", "ports": [{"hostPort": index + 1} for index in range(MANY)]}]}, True),
        ({"containers": [{"name": "c", "securityContext": {"capabilities": {"add": [f"C{index}" for index in range(MANY)]}}}]}, True),
        ({"securityContext": {"sysctls": [{"name": f"s{index}"} for index in range(MANY)]}}, True),
    ],
    ids=["small", "containers", "volumes", "ports", "capabilities", "sysctls"],
)
async def test_large_pods_do_not_block_the_event_loop(monkeypatch: pytest.MonkeyPatch, spec: dict[str, Any], threaded: bool) -> None:  # noqa: FBT001 - a column of the table
    """Each standard is evaluated once, whichever part of the pod is large."""
    seen: list[tuple[Standard, bool]] = []

    def evaluating(standard: Standard, metadata: Any, given: Any) -> Any:
        seen.append((standard, threading.current_thread() is not threading.main_thread()))
        return evaluate(standard, metadata, given)

    monkeypatch.setattr(offloading, "evaluate", evaluating)
    restricted, privileged = Standard("restricted"), Standard()
    found = await evaluate_pod(Policy(restricted, privileged, restricted), {}, spec)
    assert seen == [(restricted, threaded), (privileged, threaded)]
    assert found == {restricted: evaluate(restricted, {}, spec), privileged: ()}
