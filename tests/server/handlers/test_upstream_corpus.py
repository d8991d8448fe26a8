"""Real objects of Kubernetes' kinds, as clients send them."""

from __future__ import annotations

from typing import Any

import httpx
import pytest

from kcp_py.bootstrap.upstream_kinds import upstream_kinds
from kcp_py.controllers.names import PROTECTED_BY
from kcp_py.controlplane import ControlPlane
from tests.corpus import needs_corpus, read, rows
from tests.server.handlers.answers import refused_manifests
from tests.server.handlers.conftest import Api, options
from tests.server.handlers.upstreamkinds import STRATEGIC

pytestmark = pytest.mark.anyio

REFUSED = {
    # What upstream's decoder takes and its validation refuses, besides owners without a uid.
    "APIService/kyverno-v1beta1.external.metrics.k8s.io-c1fec448.yaml": 422,
}


def expected_code(row: dict[str, Any], obj: dict[str, Any]) -> int:
    """What a real server answers to a strict create."""
    if not row["valid"]:
        return 400
    owners = obj["metadata"].get("ownerReferences") or ()
    if any(owner.get("uid") == "" for owner in owners):
        return 422
    path = row["path"].removeprefix("manifests/")
    return 422 if path in refused_manifests() else REFUSED.get(path, 201)


@needs_corpus
async def test_objects_of_the_corpus(tmp_path):
    """Real objects of every kind pass strict validation as the index says, and reads return the written object."""
    # Finalizers of claims and volumes would keep a name beyond the deletion, until their controllers have run. The garbage collector would
    # delete objects whose owners do not exist.
    selection = ("*", "-garbage-collector-controller", *(f"-{name}" for name in PROTECTED_BY.values()))
    async with ControlPlane(options(tmp_path, builtin_kinds=("all",), controllers=selection)) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            created = 0
            for row in rows("manifests-index.jsonl"):
                group, _, version = row["api_version"].rpartition("/")
                if (kind := upstream_kinds().get((group, version, row["kind"]))) is None:
                    continue
                obj = read(row["path"])
                for name in ("resourceVersion", "namespace"):
                    obj.setdefault("metadata", {}).pop(name, None)
                root = f"/clusters/a/{f'apis/{group}' if group else 'api'}/{version}/"
                path = f"{root}{'namespaces/default/' if kind.namespaced else ''}{kind.plural}"
                answer = await api("POST", f"{path}?fieldValidation=Strict", obj)
                assert answer.status_code == expected_code(row, obj), f"{row['path']}: {answer.text}"
                if answer.status_code == 201:
                    created += 1
                    stored = answer.json()
                    assert await api.ok("GET", f"{path}/{stored['metadata']['name']}") == stored
                    patched = await api.ok("PATCH", f"{path}/{stored['metadata']['name']}", {}, headers=STRATEGIC)
                    assert patched["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
                    await api.ok("DELETE", f"{path}/{stored['metadata']['name']}?propagationPolicy=Background")
            assert created > 540
