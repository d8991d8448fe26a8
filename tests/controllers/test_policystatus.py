"""The status of ValidatingAdmissionPolicies."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.client import Client, ObjectChange
from kcp_py.controllers import start_controllers
from kcp_py.controllers.policystatus import POLICIES, PolicyStatusController
from kcp_py.controllers.runtime.queue import Key
from kcp_py.logicalcluster import Name
from tests.controllers.planes import OTHER, TEAM, WAYS, Plane, open_plane

pytestmark = pytest.mark.anyio

CRDS = GroupVersionResource("apiextensions.k8s.io", "v1", "customresourcedefinitions")


def policy(name: str, expression: str, *, group: str = "", resource: str = "configmaps", **spec: Any) -> dict[str, Any]:
    rules = [{"apiGroups": [group], "apiVersions": ["v1"], "operations": ["*"], "resources": [resource]}]
    validations = [{"expression": expression}]
    return {"metadata": {"name": name}, "spec": {"matchConstraints": {"resourceRules": rules}, "validations": validations, **spec}}


def definition(**properties: Any) -> dict[str, Any]:
    """A CRD of ships."""
    schema = {"type": "object", "properties": {"spec": {"type": "object", "properties": properties}}}
    return {
        "metadata": {"name": "ships.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Cluster",
            "names": {"plural": "ships", "kind": "Ship"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


async def status_of(plane: Plane, name: str, generation: int = 1, cluster: Name = TEAM) -> Any:
    """The status of a policy as soon as it is that of a generation."""
    found: dict[str, Any] = {}

    async def checked() -> bool:
        nonlocal found
        one = await plane.find(cluster, POLICIES, name, "")
        found = (one or {}).get("status") or {}
        return found.get("observedGeneration") == generation

    await plane.until(checked)
    return found


def warning(place: str, kind: str, column: int, text: str, line: str) -> dict[str, str]:
    return {"fieldRef": place, "warning": f"{kind}: ERROR: <input>:1:{column}: {text}\n | {line}\n | {'.' * (column - 1)}^\n"}


@pytest.mark.parametrize("way", WAYS)
async def test_policies_are_checked(way: str, tmp_path: Path) -> None:
    """Each generation once, against the kinds of the policy's own cluster."""
    async with open_plane(way, tmp_path) as plane:
        client = plane.control_plane.client
        start_controllers(plane.supervisor, plane.client, plane.tap, (PolicyStatusController.name, "customresourcedefinition-controller"))
        await client.create(TEAM, POLICIES, policy("good", "object.data.size() > 0"))
        assert await status_of(plane, "good") == {"observedGeneration": 1, "typeChecking": {}}

        await client.create(TEAM, POLICIES, policy("bad", "object.spec.x == 1", paramKind={"apiVersion": "v1", "kind": "Secret"}))
        unknown = warning("spec.validations[0].expression", "/v1, Kind=ConfigMap", 7, "undefined field 'spec'", "object.spec.x == 1")
        assert (await status_of(plane, "bad"))["typeChecking"] == {"expressionWarnings": [unknown]}

        changed = policy("bad", "params.data['x'] == 'a'", paramKind={"apiVersion": "v1", "kind": "Secret"})
        await client.patch(TEAM, POLICIES, "", "bad", document={"spec": {"validations": changed["spec"]["validations"]}})
        text = "found no matching overload for '_==_' applied to '(bytes, string)'"
        unfit = warning("spec.validations[0].expression", "/v1, Kind=ConfigMap", 18, text, "params.data['x'] == 'a'")
        assert (await status_of(plane, "bad", 2))["typeChecking"] == {"expressionWarnings": [unfit]}

        ships = policy("ships", "object.spec.mast == 1", group="example.com", resource="ships")
        await client.create(OTHER, POLICIES, ships)
        assert (await status_of(plane, "ships", cluster=OTHER))["typeChecking"] == {}, "there are no ships"
        await client.create(TEAM, CRDS, definition(masts={"type": "integer"}))

        async def served() -> bool:
            return await plane.client.find_kind(TEAM, "example.com/v1", "Ship") is not None

        await plane.until(served)
        await client.create(TEAM, POLICIES, ships)
        text = "undefined field 'mast'"
        unknown = warning("spec.validations[0].expression", "example.com/v1, Kind=Ship", 12, text, "object.spec.mast == 1")
        assert (await status_of(plane, "ships"))["typeChecking"] == {"expressionWarnings": [unknown]}
        managers = {entry["manager"]: entry for entry in (await client.get(TEAM, POLICIES, "", "ships"))["metadata"]["managedFields"]}
        entry = managers["validatingadmissionpolicy-status"]
        assert (entry["operation"], entry["subresource"]) == ("Apply", "status")


class Replacing:
    """A client with which a policy is replaced by another one of its name while it is checked."""

    def __init__(self, client: Client, other: dict[str, Any]) -> None:
        self._client = client
        self._other = other

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    async def resources(self, cluster: Name) -> Any:
        await self._client.delete(cluster, POLICIES, "", "p")
        await self._client.create(cluster, POLICIES, self._other)
        return await self._client.resources(cluster)


async def test_a_policy_that_is_replaced_meanwhile(tmp_path: Path) -> None:
    """The status of the old one does not go to the new one, which has the same generation."""
    async with open_plane(WAYS[0], tmp_path) as plane:
        await plane.client.create(TEAM, POLICIES, policy("p", "object.nope == 1"))
        controller = PolicyStatusController(Replacing(plane.client, policy("p", "true")))
        with pytest.raises(Exception, match="uid"):
            await controller.reconcile(Key(TEAM, "", "p"))
        found = await plane.find(TEAM, POLICIES, "p", "")
        assert found is not None
        assert not found.get("status")


async def test_policies_that_are_gone(tmp_path: Path) -> None:
    """Nothing happens about a policy that was deleted."""
    async with open_plane(WAYS[0], tmp_path) as plane:
        assert await PolicyStatusController(plane.client).reconcile(Key(TEAM, "", "p")) == 0
        assert await plane.find(TEAM, POLICIES, "p", "") is None


def test_what_is_looked_at() -> None:
    """Policies that have changed since they were last checked."""
    controller = PolicyStatusController(None)  # type: ignore[arg-type]  # it is not called

    def keys(value: bytes | None) -> list[Key]:
        return list(controller.keys(ObjectChange(TEAM, POLICIES.group_resource, "", "p", value, None)))

    assert keys(b'{"metadata":{"name":"p","generation":2},"status":{"observedGeneration":1}}') == [Key(TEAM, "", "p")]
    assert keys(b'{"metadata":{"name":"p","generation":2},"status":{"observedGeneration":2}}') == []
    assert keys(b'{"metadata":{"name":"p","generation":1}}') == [Key(TEAM, "", "p")]
    assert keys(b'{"metadata":{"name":"p","generation":1,"deletionTimestamp":"2026-01-01T00:00:00Z"}}') == []
    assert keys(None) == []
