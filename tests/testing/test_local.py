"""A control plane for tests: it keeps nothing, names clusters after tests, and passes settings and parts on."""

from __future__ import annotations

import pytest

from kcp_py import ControlPlane
from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.testing import API_SERVER_CONTROLLERS, control_plane
from kcp_py.testing.local import cluster_name

pytestmark = pytest.mark.anyio
CONFIGMAP = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}
CONFIGMAPS = GroupVersionResource("", "v1", "configmaps")


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("test_ships[Two-3]", "test-ships-two-3-r1"),
        ("", "test-r1"),
        ("¿…/?", "test-r1"),
        ("3 ships", "t-3-ships-r1"),
        ("x" * 300, "x" * 60 + "-r1"),
        ("9" * 300, "t-" + "9" * 58 + "-r1"),
        ("x" * 59 + "_y", "x" * 59 + "-r1"),
    ],
)
async def test_any_text_gives_the_name_of_a_cluster(text, name):
    """Lower case, at most 63 characters, with the part that makes it unique."""
    assert cluster_name(text, "r1") == name


async def test_clusters_share_nothing_and_the_server_leaves_nothing():
    """Two clusters of one name have their own objects; without HTTPS there is no directory and no URL."""
    async with control_plane() as server:
        first, second = await server.new_cluster("same"), await server.new_cluster("same")
        await first.apply(CONFIGMAP)
        assert [obj["metadata"]["name"] for obj in await first.list("configmaps", "default") if obj["metadata"]["name"] == "a"] == ["a"]
        with pytest.raises(StatusError) as refused:
            await second.get("configmaps", "a")
        assert refused.value.code == 404
        with pytest.raises(RuntimeError, match="serve=True"):
            _ = first.url
        root = server.control_plane.options.root_directory
        assert not root.exists()
        url = await server.serve()
        assert await server.serve() == url == server.url
        path = first.write_kubeconfig()
        assert path.is_relative_to(root)
    assert not root.exists()


async def test_a_store_on_disk_has_a_directory_that_ends_with_the_server():
    """Without HTTPS nothing else needs it."""
    async with control_plane(storage="sqlite") as server:
        root = server.control_plane.options.root_directory
        await (await server.new_cluster()).apply(CONFIGMAP)
        assert server.control_plane.options.database_file.is_relative_to(root)
        assert server.control_plane.options.database_file.exists()
    assert not root.exists()


async def test_settings_and_parts_reach_the_control_plane():
    """A control plane of the test's own, an own storage of settings, and a setting that does not exist."""
    made = []

    def create(options, **arguments):
        made.append(options)
        return ControlPlane(options, **arguments)

    async with control_plane(create, controllers=API_SERVER_CONTROLLERS, event_ttl=5.0) as server:
        assert server.control_plane.options is made[0]
        assert (made[0].storage, made[0].controllers, made[0].event_ttl) == ("memory", API_SERVER_CONTROLLERS, 5.0)
    with pytest.raises(TypeError, match="colour"):
        async with control_plane(colour="red"):
            pass


async def test_an_exception_of_the_test_ends_the_server():
    """It comes out as it is, and the files are gone."""
    roots = []

    async def fail():
        async with control_plane(serve=True) as server:
            roots.append(server.control_plane.options.root_directory)
            assert roots[0].exists()
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await fail()
    assert not roots[0].exists()
