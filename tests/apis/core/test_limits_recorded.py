"""ResourceQuotas are accepted and refused as by a real kube-apiserver."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.logicalcluster import Name
from kcp_py.storage.memory import MemoryStorage
from tests.client.registry import open_registry

pytestmark = pytest.mark.anyio

TEAM = Name("team-a")
QUOTAS = GroupVersionResource("", "v1", "resourcequotas")
RECORDED = json.loads((Path(__file__).parent / "recorded" / "resourcequotas.json").read_text())
"""Recorded from kube-apiserver 1.37.2: one request after the other; creates have the specification as their body."""


async def test_quotas_are_judged_as_by_kube_apiserver():
    """Code and text of each answer."""
    async with open_registry(MemoryStorage()) as registry:
        await registry.clusters.ensure(TEAM)
        for case in RECORDED:
            code, message = 201, ""
            try:
                if case["verb"] == "create":
                    metadata = {"name": case["name"], "namespace": "default"}
                    obj = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": metadata, "spec": case["body"]}
                    await registry.client.create(TEAM, QUOTAS, obj)
                else:
                    where = (TEAM, QUOTAS, "default", case["name"])
                    await registry.client.patch(*where, document=case["body"], subresource=case["subresource"])
            except StatusError as error:
                code, message = error.code, error.message
            assert (code, message) == (case["code"], case["message"]), case["name"]
