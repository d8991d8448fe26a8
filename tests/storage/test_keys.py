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
    Route,
    custom_resource_keys,
    internal_key,
    prefix_in_cluster,
    resource_keys,
    resource_of,
    route_of,
    unambiguous_key,
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
_roots = st.sampled_from(["/registry", "/kcp/prod", "/core", "/customresources"])
_hash = "5ad6f0e1c1d6d3b9" * 4
_mixed = st.sampled_from([CUSTOM_RESOURCES, "core", "a", "team-a", "x" * 63, "kcp-py", "default"])
"""Texts that are valid in every place of a key."""
_any_cluster = (_mixed | st.sampled_from(["system:admin", "system:customresources", "system:" + "x" * 63]) | _clusters).map(Name)
_any_word = _mixed | st.sampled_from([_hash, "a.b", "customresources.example.com", "x" * 253]) | _words
_any_name = _any_word | st.sampled_from([f"{CUSTOM_RESOURCES}.", "system:admin", ".kcp-py", "a b", "é", "..."])
_any_identity = st.sampled_from(["", CUSTOM_RESOURCES, _hash, "root.compute"])


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
    segment = "customresources." if cluster == CUSTOM_RESOURCES else cluster
    expected = ["", "registry", group or "core", resource, *([identity] if identity else []), segment]
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


@given(
    root=_roots,
    group=_any_word | st.just(""),
    resource=_any_word,
    identity=_any_identity,
    cluster=_any_cluster,
    namespace=_any_name | st.just(""),
    name=_any_name,
)
def test_a_key_says_by_itself_what_it_is_for(
    *, root: str, group: str, resource: str, identity: str, cluster: Name, namespace: str, name: str
) -> None:
    """Reading a key gives back what it was built from, without knowing the resource."""
    keys = resource_keys(root, group, resource, namespaced=bool(namespace), identity=identity)
    key = keys.object_key(cluster, namespace, name)
    route = route_of(key, root)
    assert route == Route(keys.prefix, cluster, namespace, name)
    assert route.key == key
    assert resource_of(route.prefix, root) == ("" if group == "core" else group, resource)
    assert keys.parse(key) == keys.locate(key) == ObjectKey(cluster, namespace, name)
    assert keys.first_cluster(key) == keys.first_cluster(f"{key}\0") == cluster
    assert prefix_in_cluster(keys.prefix, cluster) == keys.cluster_prefix(cluster)
    assert keys._replace(namespaced=not keys.namespaced).locate(key) == keys.parse(key)


_Parts = tuple[str, str, str, Name, str, str]
_parts = st.tuples(_any_word | st.just(""), _any_word, _any_identity, _any_cluster, _any_name | st.just(""), _any_name)


@given(one=_parts, other=_parts)
def test_no_two_objects_share_a_key(one: _Parts, other: _Parts) -> None:
    """Objects that differ in anything have different keys, and no key is below a prefix of another cluster, resource or identity."""
    built = []
    for group, resource, identity, cluster, namespace, name in (one, other):
        keys = resource_keys("/registry", group, resource, namespaced=bool(namespace), identity=identity)
        place = ("" if group == "core" else group, resource, identity, cluster)
        built.append((place, (namespace, name), keys.object_key(cluster, namespace, name), keys.cluster_prefix(cluster)))
    (place, within, key, prefix), (other_place, other_within, other_key, _) = built
    assert (key == other_key) is ((place, within) == (other_place, other_within))
    assert other_key.startswith(prefix) is (place == other_place)


@pytest.mark.parametrize("identity", ["root", "a" * 63, "team-a"])
def test_an_identity_is_no_cluster(identity: str) -> None:
    """A text that could be a cluster name is refused as an identity, because keys would be ambiguous."""
    with pytest.raises(InvalidSegmentError):
        resource_keys("/registry", "example.com", "widgets", namespaced=True, identity=identity)


def test_order_of_clusters() -> None:
    """The cluster named like an identity has its place in the order of keys."""
    keys = resource_keys("/registry", "", "namespaces", namespaced=False)
    names = [Name(name) for name in ("customresource", "customresources", "customresources-a", "customresources0", "customresourcesa")]
    assert sorted(f"{name}/" for name in names) == [
        f"{keys.locate(key).cluster}/" for key in sorted(keys.object_key(name, "", "x") for name in names)
    ]


@pytest.mark.parametrize(
    ("key", "namespace", "expected"),
    [
        ("core/namespaces/customresources/default", "", "core/namespaces/customresources./default"),
        ("core/configmaps/customresources/default/game", "default", "core/configmaps/customresources./default/game"),
        ("apps/deployments/customresources/team-a/web", "", None),
        ("apps/deployments/customresources/team-a/default/web", "default", None),
        ("apps/deployments/customresources./default/web", "default", None),
        ("apps/deployments/team-a/default/web", "default", None),
        (".kcp-py/continue-token-key", "", None),
    ],
)
def test_keys_of_earlier_releases(key: str, namespace: str, expected: str | None) -> None:
    """Only the keys of built-in kinds in the cluster `customresources` are others than they were."""
    assert unambiguous_key(f"/registry/{key}", "/registry", namespace) == f"/registry/{expected or key}"


@pytest.mark.parametrize(
    ("name", "prefix"), [("widgets.example.com", "example.com/widgets"), ("pods.core", "core/pods"), ("core.core", "core/core")]
)
def test_keys_of_a_definition(name: str, prefix: str) -> None:
    """The name of a CRD names the keys of its resource."""
    assert custom_resource_keys("/registry", name, namespaced=True).prefix == f"/registry/{prefix}/customresources/"


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
        resource_keys("/registry", "", "configmaps", namespaced=True).parse(key)


def test_examples() -> None:
    """The keys are those that the documentation shows."""
    config_maps = resource_keys("/registry", "", "configmaps", namespaced=True)
    assert config_maps.object_key(Name("team-a"), "default", "game") == "/registry/core/configmaps/team-a/default/game"
    widgets = resource_keys("/registry", "example.com", "widgets", namespaced=True, identity=CUSTOM_RESOURCES)
    assert widgets.object_key(Name("team-a"), "default", "one") == "/registry/example.com/widgets/customresources/team-a/default/one"
    assert internal_key("/registry", "signing") == "/registry/.kcp-py/signing"


@pytest.mark.parametrize("identity", ["", "customresources"])
def test_keys_are_located_together_as_one_by_one(identity: str) -> None:
    """Whatever the order, the scope and the cluster, of keys of other shapes as well."""
    keys = resource_keys("/registry", "example.com", "widgets", namespaced=True, identity=identity)
    clusters = ["a", "a-b", "root", "customresources.", "team:a", "team:b:c", "x" * 63, "x" * 64, "Upper"]
    places = ["one", "default/one", "default/two.x", "kube-system/é", "a/one"]
    known = [f"{keys.prefix}{cluster}/{place}" for cluster in clusters for place in places]
    orders = [known, known[::-1], known[::7] + known[::3], [f"{keys.prefix}a/one", f"{keys.prefix}a-b/one", f"{keys.prefix}a/default/one"]]
    for ordered in orders:
        valid = [key for key in ordered if _located(keys, key) is not None]
        assert [*keys.locate_each(valid)] == [keys.locate(key) for key in valid]
    for other in ("a", "a/b/c/d", "/registry/example.com/others/a/one", ""):
        key = other if other.startswith("/registry") else f"{keys.prefix}{other}"
        with pytest.raises(InvalidSegmentError):
            [*keys.locate_each([f"{keys.prefix}a/default/one", key])]


def _located(keys: ResourceKeys, key: str) -> ObjectKey | None:
    try:
        return keys.locate(key)
    except InvalidSegmentError:
        return None
