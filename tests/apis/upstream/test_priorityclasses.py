"""The PriorityClasses of the system, as clients meet them in clusters that serve the kind."""

from __future__ import annotations

import pytest

from tests.server.handlers.conftest import Api, Watch
from tests.server.handlers.test_kubernetes_service import installed, names_of, uninstalled

pytestmark = pytest.mark.anyio

PATH = "/clusters/{}/apis/scheduling.k8s.io/v1/priorityclasses"
KIND = "priorityclasses.scheduling.k8s.io"
NAMES = ("system-cluster-critical", "system-node-critical")


async def seen(watch: Watch) -> list[tuple[str, str]]:
    """The next two events: type, cluster and name."""
    events = [await watch.next(), await watch.next()]
    return [(event["type"], *names_of({"items": [event["object"]]})) for event in events if event]


async def test_the_wildcard_sees_them_come_and_go(api: Api) -> None:
    """A watch over all clusters gets both classes when the kind is installed in a cluster, and loses them with the kind."""
    await installed(api, "a", KIND)
    listed = await api.ok("GET", PATH.format("*"))
    assert names_of(listed) == [f"a/{name}" for name in NAMES]
    async with Watch(api, PATH.format("*"), resourceVersion=listed["metadata"]["resourceVersion"]) as watch:
        await installed(api, "b", KIND)
        assert await seen(watch) == [("ADDED", f"b/{name}") for name in NAMES]
        await uninstalled(api, "b", KIND)
        assert await seen(watch) == [("DELETED", f"b/{name}") for name in NAMES]


async def test_they_come_back_when_they_are_deleted(api: Api) -> None:
    """A deletion by name is refused. Those that a deletion of the collection takes exist again at once, with another uid."""
    await installed(api, "a", KIND)
    path = f"{PATH.format('a')}/{NAMES[0]}"
    before = await api.ok("GET", path)
    assert (await api("DELETE", path)).status_code == 403
    async with Watch(api, PATH.format("a"), resourceVersion=before["metadata"]["resourceVersion"]) as watch:
        await api.ok("DELETE", PATH.format("a"), params={"fieldSelector": f"metadata.name={NAMES[0]}"})
        assert await seen(watch) == [("DELETED", f"a/{NAMES[0]}"), ("ADDED", f"a/{NAMES[0]}")]
    assert (await api.ok("GET", path))["metadata"]["uid"] != before["metadata"]["uid"]
