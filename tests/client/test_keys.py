"""Where an object is."""

from __future__ import annotations

import pytest

from kcp_py.client.keys import Key, key_of
from kcp_py.logicalcluster import WILDCARD, Name
from tests.client.scripted import item


def test_the_annotation_says_where_an_object_of_all_clusters_is() -> None:
    """Of one cluster it does not count; without it there is no key."""
    assert key_of(item("a", 1), WILDCARD) == Key(Name("team-a"), "default", "a")
    assert key_of(item("a", 1), Name("team-b")) == Key(Name("team-b"), "default", "a")
    with pytest.raises(KeyError):
        key_of({"metadata": {"name": "a"}}, WILDCARD)
    with pytest.raises(ValueError, match=r"a/b"):
        key_of(item("a", 1, cluster="a/b"), WILDCARD)
