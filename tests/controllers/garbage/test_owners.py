"""Whether owners exist."""

from __future__ import annotations

from kcp_py.controllers.garbage.owners import AbsentOwners
from kcp_py.controllers.garbage.ownership import Reference
from kcp_py.logicalcluster import Name

TEAM, OTHER = Name("team-a"), Name("team-b")
OWNER = Reference("example.com/v1", "Widget", "w", "u1", blocks=True)


def test_an_absent_owner_is_known_where_it_would_be() -> None:
    """In its namespace, or everywhere if it has none; in any version of its kind; in no other cluster, and under no other name."""
    absent = AbsentOwners()
    absent.add(TEAM, OWNER, "default")
    assert absent.has(TEAM, OWNER, "default")
    assert absent.has(TEAM, OWNER._replace(api_version="example.com/v2", blocks=False), "default")
    assert not absent.has(TEAM, OWNER, "shop")
    assert not absent.has(OTHER, OWNER, "default")
    assert not absent.has(TEAM, OWNER._replace(name="x"), "default")
    assert not absent.has(TEAM, OWNER._replace(uid="u2"), "default")
    cluster_scoped = OWNER._replace(uid="u3")
    absent.add(TEAM, cluster_scoped, "")
    assert absent.has(TEAM, cluster_scoped, "shop")


def test_few_are_remembered() -> None:
    """The least recently used entry is forgotten and would be looked up again; used entries stay."""
    absent = AbsentOwners()
    absent.add(TEAM, OWNER, "")
    absent.add(TEAM, OWNER._replace(uid="forgotten"), "")
    for number in range(4_095):
        assert absent.has(TEAM, OWNER, "")
        absent.add(TEAM, OWNER._replace(uid=f"n{number}"), "")
    assert absent.has(TEAM, OWNER, "")
    assert not absent.has(TEAM, OWNER._replace(uid="forgotten"), "")
