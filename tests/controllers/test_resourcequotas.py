"""Each quota is counted from time to time, and not with each of its charges."""

from __future__ import annotations

from typing import Any, cast

import pytest

from kcp_py.client import ObjectChange
from kcp_py.controllers.resourcequotas import RESOURCE_QUOTAS, ResourceQuotaController
from kcp_py.controllers.runtime.controller import Later
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name

pytestmark = pytest.mark.anyio

KEY = Key(Name("a"), "default", "q")


def change(value: bytes | None, previous: bytes | None = None) -> ObjectChange:
    return ObjectChange(KEY.cluster, RESOURCE_QUOTAS.group_resource, KEY.namespace, KEY.name, value, previous)


async def test_quotas_are_counted_in_turns():
    """First within one period, then after each; until they are gone."""
    counted: list[tuple[str, str, str]] = []

    class Tap:
        async def recount_quota(self, cluster: Name, namespace: str, name: str) -> None:
            counted.append((cluster, namespace, name))

    controller = ResourceQuotaController(cast("Any", Tap()), period=60, spread=lambda: 0.25)
    assert list(controller.keys(change(b"{}"))) == [KEY]
    assert await controller.reconcile(KEY) == Later(15)
    assert counted == []
    assert list(controller.keys(change(b"{1}", b"{}"))) == []
    assert await controller.reconcile(KEY) == Later(60)
    assert counted == [("a", "default", "q")]
    assert list(controller.keys(change(None, b"{1}"))) == []
    assert await controller.reconcile(KEY) == 0
    assert list(controller.keys(change(b"{}"))) == [KEY]
