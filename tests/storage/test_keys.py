"""No input makes a key outside of its cluster and resource, and every key can be read back."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from kcp_py.logicalcluster import Name
from kcp_py.storage.keys import (
    CUSTOM_RESOURCES,
    InvalidSegmentError,
    ObjectKey,
    ResourceKeys,
    internal_key,
    resource_keys,
)

_nasty = st.sampled_from(
    [
        "",
        ".",
        "..",
        "/",
        "a/b",
        "../x",
        "a/../b",
        "%2f",
        "a%2Fb",
        "a\x00b",
        "*",
        "root:org",
        "-",
        "a-",
        "A",
        "é",
        "\uff41",
        "a" * 300,
        "\ud800",
    ]
)
_anything = st.text(max_size=20) | _nasty | st.from_regex(r"[a-z0-9./%:*-]{0,12}", fullmatch=True)
_clusters = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True).map(Name)
_words = st.from_regex(r"[a-z0-9]([a-z0-9.-]{0,8}[a-z0-9])?", fullmatch=True)
_identities = st.sampled_from(["", CUSTOM_RESOURCES])


@given(
    group=_anything,
    resource=_anything,
    cluster=_anything,
    namespace=_anything,
    name=_anything,
    namespaced=st.booleans(),
    identity=_identities,
)
def test_no_key_leaves_its_place(
    group: str, resource: str, cluster: str, namespace: str, name: str, *, namespaced: bool, identity: str
) -> None:
    """Whatever is passed: a key is refused, or it has exactly the segments that it was asked for, each where it belongs."""
    try:
        keys = resource_keys("/registry", group, resource, namespaced=namespaced, identity=identity)
        key = keys.object_key(Name(cluster), namespace, name)
    except InvalidSegmentError:
        return
    expected = ["", "registry", group or "core", resource, *([identity] if identity else []), cluster]
    expected += [namespace, name] if namespaced else [name]
    assert key.split("/") == expected
    assert all(expected[1:])
    assert not {".", "..", "*"} & set(expected)
    assert "\0" not in key
    assert "%" not in key
    key.encode()
    assert keys.parse(key) == ObjectKey(Name(cluster), namespace if namespaced else "", name)
    assert key.startswith(keys.cluster_prefix(Name(cluster)))
    if namespaced:
        assert key.startswith(keys.namespace_prefix(Name(cluster), namespace))


@given(cluster=_clusters, other=_clusters, namespace=_anything, name=_anything, namespaced=st.booleans())
def test_no_key_is_in_another_cluster(cluster: Name, other: Name, namespace: str, name: str, *, namespaced: bool) -> None:
    """No namespace and no name puts an object under another cluster's prefix."""
    assume(cluster != other)
    keys = resource_keys("/registry", "", "configmaps", namespaced=namespaced)
    try:
        key = keys.object_key(cluster, namespace, name)
    except InvalidSegmentError:
        return
    assert not key.startswith(keys.cluster_prefix(other))


@given(group=_words, resource=_words, other_group=_words, other_resource=_words, cluster=_clusters, name=_anything, identity=_identities)
def test_no_key_is_in_another_resource(
    *, group: str, resource: str, other_group: str, other_resource: str, cluster: Name, name: str, identity: str
) -> None:
    """No name puts an object under the prefix of another group or resource."""
    assume((group, resource) != (other_group, other_resource))
    keys = resource_keys("/registry", group, resource, namespaced=False, identity=identity)
    other = resource_keys("/registry", other_group, other_resource, namespaced=False)
    try:
        key = keys.object_key(cluster, "", name)
    except InvalidSegmentError:
        return
    assert not key.startswith(other.prefix)


@pytest.mark.parametrize(
    ("namespaced", "namespace"),
    [(True, ""), (False, "default")],
    ids=["a namespace is missing", "a namespace is too much"],
)
def test_scope(namespace: str, *, namespaced: bool) -> None:
    """A key has a namespace exactly where the resource has."""
    keys = resource_keys("/registry", "", "configmaps", namespaced=namespaced)
    with pytest.raises(InvalidSegmentError):
        keys.object_key(Name("a"), namespace, "x")


def test_namespace_prefix_of_a_cluster_scoped_resource() -> None:
    """A cluster-scoped resource has no namespace prefix."""
    with pytest.raises(InvalidSegmentError):
        resource_keys("/registry", "", "namespaces", namespaced=False).namespace_prefix(Name("a"), "default")


@pytest.mark.parametrize(
    "key", ["/registry/core/configmapsx/a/b/c", "/registry/core/configmaps/a/b", "/registry/core/configmaps/a/b/c/d", ""]
)
def test_foreign_keys_are_not_parsed(key: str) -> None:
    """A key of another shape is refused."""
    with pytest.raises(InvalidSegmentError):
        ResourceKeys("/registry/core/configmaps/", namespaced=True).parse(key)


def test_examples() -> None:
    """The keys are those that the documentation shows."""
    config_maps = resource_keys("/registry", "", "configmaps", namespaced=True)
    assert config_maps.object_key(Name("team-a"), "default", "game") == "/registry/core/configmaps/team-a/default/game"
    widgets = resource_keys("/registry", "example.com", "widgets", namespaced=True, identity=CUSTOM_RESOURCES)
    assert widgets.object_key(Name("team-a"), "default", "one") == "/registry/example.com/widgets/customresources/team-a/default/one"
    assert internal_key("/registry", "signing") == "/registry/.kcp-py/signing"
