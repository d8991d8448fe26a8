"""Faults that a test adds, over HTTP and in the process."""

import pytest

from kcp_py import GroupVersionResource, errors
from kcp_py.client.remote import RemoteClient
from kcp_py.testing import Faults, control_plane

pytestmark = pytest.mark.anyio

MAPS = GroupVersionResource("", "v1", "configmaps")
SECRETS = GroupVersionResource("", "v1", "secrets")


def config_map(name: str) -> dict[str, object]:
    """A ConfigMap."""
    return {"metadata": {"name": name, "namespace": "default"}}


async def test_writes_conflict_as_often_as_the_rule_says() -> None:
    """Other resources and other clusters are not affected."""
    faults = Faults()
    async with control_plane(parts=faults.parts, controllers=()) as server:
        one, other = (await server.new_cluster()).name, (await server.new_cluster()).name
        rule = faults.conflict(cluster=one, resource="configmaps", times=2)
        for _ in range(2):
            with pytest.raises(errors.StatusError, match="the object has been modified") as raised:
                await server.client.create(one, MAPS, config_map("a"))
            assert (raised.value.code, raised.value.reason) == (409, "Conflict")
            await server.client.create(one, SECRETS, {"metadata": {"generateName": "s-", "namespace": "default"}})
        assert (rule.remaining, rule.happened) == (0, 2)
        await server.client.create(one, MAPS, config_map("a"))
        await server.client.create(other, MAPS, config_map("a"))


async def test_each_fault_has_its_code() -> None:
    """The order of rules is that of their creation, and `clear` removes them."""
    faults = Faults()
    async with control_plane(parts=faults.parts, controllers=()) as server:
        cluster = (await server.new_cluster()).name
        faults.too_many_requests(7, verb="create", times=1)
        faults.internal_error(name="a", times=1)
        faults.unavailable(user="system:apiserver", times=1)
        faults.timeout(times=1)
        faults.internal_error(user="nina")
        codes = []
        for _ in range(4):
            with pytest.raises(errors.StatusError) as raised:
                await server.client.create(cluster, MAPS, config_map("a"))
            codes.append(raised.value.code)
        assert codes == [429, 500, 503, 504]
        faults.internal_error()
        faults.clear()
        await server.client.create(cluster, MAPS, config_map("a"))


async def test_reads_fail_over_http() -> None:
    """A list is answered with 410, and the next one is not."""
    faults = Faults()
    async with control_plane(serve=True, parts=faults.parts, controllers=()) as server:
        cluster = await server.new_cluster()
        faults.expired(resource="configmaps", verb="list", times=1)
        async with RemoteClient.of_kubeconfig(str(cluster.write_kubeconfig())) as client:
            with pytest.raises(errors.StatusError) as raised:
                await client.list(cluster.name, MAPS)
            assert raised.value.reason == "Expired"
            assert (await client.list(cluster.name, MAPS)).items is not None


async def test_a_fault_that_never_happens_is_refused() -> None:
    """`times` is at least 1."""
    with pytest.raises(ValueError, match="at least once"):
        Faults().conflict(times=0)
