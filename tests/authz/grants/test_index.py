"""When the index of grants reads the store, and that it does not miss changes."""

from __future__ import annotations

import pytest

from kcp_py.authz.grants.authorizer import GrantAuthorizer
from kcp_py.authz.grants.grant import subjects_of
from kcp_py.authz.grants.index import GrantIndex
from kcp_py.logicalcluster import WILDCARD, Name
from kcp_py.request.requestinfo import UNPARSED
from kcp_py.request.sight import is_current
from kcp_py.request.user import UserInfo
from kcp_py.storage.contract import Delete, Put
from tests.authz.grants.conftest import GRANTS, config_maps, fill, grant
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio

ALICE = UserInfo("alice")
TEAM = Name("team-a")
LIST = UNPARSED._replace(is_resource=True, verb="list", version="v1", resource="configmaps", path="/api/v1/configmaps")


def index_of(api: Api) -> GrantIndex:
    """An index of its own over the store of a control plane."""
    backend = api.control_plane.backend
    return GrantIndex(backend.access, backend.fanout, "/registry")


async def test_without_grants_no_labels_are_read(api: Api) -> None:
    """The labels of clusters are read with the first grant."""
    await fill(api, TEAM)
    index = index_of(api)
    await index.refresh()
    assert index.empty
    assert not index.names()
    assert not index.exists(TEAM)
    await api.ok("POST", GRANTS, grant("maps", {"names": [TEAM]}))
    await index.refresh()
    assert [one.name for one in index.grants_of([*subjects_of(ALICE, TEAM)])] == ["maps"]
    assert set(index.names()) == {"root", TEAM}
    assert index.exists(TEAM)


async def test_a_cluster_that_another_write_creates_is_found(api: Api) -> None:
    """The first object of a cluster creates it, and a decision about it follows at once."""
    await api.ok("POST", GRANTS, grant("maps", {"names": [TEAM]}))
    index = index_of(api)
    await index.refresh()
    await api.ok("POST", config_maps(TEAM), {"metadata": {"name": "one"}})
    await index.refresh_clusters(TEAM)
    assert index.exists(TEAM)


async def test_everything_is_read_again_after_a_gap(api: Api) -> None:
    """Changes that the feed has missed count, and sights from before are not used again."""
    await api.ok("POST", GRANTS, grant("maps", {"names": [TEAM]}))
    index = index_of(api)
    await index.refresh()
    await index.refresh_clusters()
    decision = await GrantAuthorizer(index).authorize(ALICE, WILDCARD, LIST)
    assert decision is not None
    assert is_current(decision.sight, decision.sight)
    index._forget()
    assert index.empty
    assert decision.sight.outdated
    again = await GrantAuthorizer(index).authorize(ALICE, WILDCARD, LIST)
    assert not index.empty
    assert again is not None
    assert again.sight.scope == decision.sight.scope
    assert not is_current(decision.sight, again.sight)


async def test_an_object_that_is_not_a_grant_has_no_effect(api: Api) -> None:
    """Other software may store what it likes, also in the place of a grant."""
    backend = api.control_plane.backend
    await api.ok("POST", GRANTS, grant("maps", {"names": [TEAM]}))
    index = index_of(api)
    await index.refresh()
    key = "/registry/access.kcp-py.dev/clusteraccessgrants/root/maps"
    for operation in (Put(key, b'{"metadata": {"name": "maps"}}'), Delete(key)):
        await backend.fanout.reached(await backend.access.storage.transact([], [operation]))
        assert index.empty
