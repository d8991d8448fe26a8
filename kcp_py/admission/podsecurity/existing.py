"""`existing_violations`: what a new level of a namespace would forbid about its pods, as warnings.

As upstream, at most 3000 pods are checked, for at most a second: first the pods without a controller and one of each controller, then the
others. The event loop is not held up meanwhile.

Source: k8s.io/pod-security-admission `admission/admission.go` (`EvaluatePodsInNamespace`).
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, Final

import orjson

from kcp_py.admission.podsecurity.levels import Standard
from kcp_py.admission.podsecurity.offloading import evaluate_pod
from kcp_py.admission.podsecurity.standards import reasons
from kcp_py.aio.cooperative import TimeSlice
from kcp_py.golang.quoting import go_quote
from kcp_py.storage.contract import Storage
from kcp_py.storage.paging import read_pages

MOST_PODS: Final = 3000
MOST_SECONDS: Final = 1.0
_MOST_WAITING_BYTES: Final = 32 * 1024 * 1024
"""Of pods that are checked last. Those beyond are not checked."""
_PAGE: Final = 250


async def existing_violations(
    storage: Storage,
    prefix: str,
    namespace: str,
    enforce: Standard,
    *,
    exempt_classes: frozenset[str] = frozenset(),
    clock: Callable[[], float] = time.monotonic,
) -> list[str]:
    """The warnings for a namespace.

    Args:
        storage: the store.
        prefix: of the keys of the pods of the namespace.
        namespace: its name.
        enforce: the new standard.
        exempt_classes: RuntimeClasses whose pods are left out.
        clock: returns seconds.

    Raises:
        StorageError: the store cannot be read.
    """
    search = _Search(enforce, clock)
    waiting: list[bytes] = []
    waiting_bytes = exempt = total = 0
    controllers: set[str] = set()
    turns = TimeSlice()
    async for page in read_pages(storage, prefix, limit=_PAGE):
        for item in page.items:
            await turns.yield_if_due()
            # Other software may have stored something else.
            with suppress(AttributeError, KeyError, TypeError, ValueError):
                pod = orjson.loads(item.value)
                if (pod["spec"].get("runtimeClassName") or "") in exempt_classes:
                    exempt += 1
                    continue
                controller = _controller_of(pod)
                if controller in controllers:
                    total += 1
                    if waiting_bytes < _MOST_WAITING_BYTES:
                        waiting.append(item.value)
                        waiting_bytes += len(item.value)
                    continue
                if controller:
                    controllers.add(controller)
                await search.check(pod)
                total += 1
        if search.is_over:
            # The others are only counted.
            total = (await storage.range(prefix, limit=1, count=True, keys_only=True)).total - exempt
            break
    for value in waiting:
        if search.is_over:
            break
        await turns.yield_if_due()
        with suppress(AttributeError, KeyError, TypeError, ValueError):
            await search.check(orjson.loads(value))
    return search.warnings(namespace, total)


class _Search:
    """The pods that were checked."""

    def __init__(self, enforce: Standard, clock: Callable[[], float]) -> None:
        self._enforce = enforce
        self._clock = clock
        self._deadline = clock() + MOST_SECONDS
        self._checked = 0
        self._found: dict[str, tuple[str, int]] = {}
        """By violations: the first name of the pods, and how many they are."""
        self.is_over = False

    async def check(self, pod: Mapping[str, Any]) -> None:
        if self.is_over:
            return
        name = pod["metadata"]["name"]
        violations = await evaluate_pod([self._enforce], pod["metadata"], pod["spec"])
        self._checked += 1
        if violations[self._enforce]:
            text = reasons(violations[self._enforce])
            first, number = self._found.get(text, (name, 0))
            self._found[text] = min(first, name), number + 1
        self.is_over = self._checked >= MOST_PODS or self._clock() > self._deadline

    def warnings(self, namespace: str, total: int) -> list[str]:
        found = []
        if self._checked < total:
            found.append(f"new PodSecurity enforce level only checked against the first {self._checked} of {total} existing pods")
        if self._found:
            level = go_quote(str(self._enforce))
            found.append(f"existing pods in namespace {go_quote(namespace)} violate the new PodSecurity enforce level {level}")
        lines = []
        for text, (name, number) in self._found.items():
            others = number - 1
            more = f" (and {others} other pod{'s' if others > 1 else ''})" if others else ""
            lines.append(f"{name}{more}: {text}")
        return [*found, *sorted(lines)]


def _controller_of(pod: Mapping[str, Any]) -> str:
    """The uid of the controller of a pod; empty where it has none."""
    for owner in pod["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return str(owner["uid"])
    return ""
