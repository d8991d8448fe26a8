"""The splice says what decoding, changing and printing the object would say."""

from __future__ import annotations

import sys
import tracemalloc
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.registry.rendering import CLUSTER_ANNOTATION, Renderer, encode_stored, strip_server_fields
from kcp_py.storage.contract import KeyValue

_TEXT = st.text(max_size=6)
_LABELS = st.dictionaries(_TEXT, _TEXT, max_size=3)
_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | _TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(_TEXT, inner, max_size=3),
    max_leaves=6,
)
_MEMBERS = st.dictionaries(_TEXT.filter(lambda name: name not in {"apiVersion", "kind", "metadata"}), _JSON, max_size=3)


def renderer(**more: Any) -> Renderer:
    fields = {"api_version": "v1", "stored_api_version": "v1", "kind": "ConfigMap", "untyped_items": True, "same_form": True}
    return Renderer(**{**fields, **more})


def stored(value: bytes, mod_revision: int = 7) -> KeyValue:
    return KeyValue("/k", value, mod_revision, 1)


def config_map(**metadata: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "game", **metadata}, "data": {"a": "b"}}


@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, {"kcp.io/cluster": "team-a"}),
        ({"annotations": {}}, {"kcp.io/cluster": "team-a"}),
        ({"annotations": {"z": "1", "a": "2"}}, {"kcp.io/cluster": "team-a", "z": "1", "a": "2"}),
        ({"annotations": {'q"': "}{"}}, {"kcp.io/cluster": "team-a", 'q"': "}{"}),
    ],
    ids=["absent", "empty", "some", "that look like JSON"],
)
@pytest.mark.parametrize("wildcard", [False, True], ids=["in one cluster", "in all clusters"])
def test_every_object_says_its_revision_and_cluster(annotations: dict[str, Any], expected: dict[str, str], *, wildcard: bool) -> None:
    """In addition to its own annotations, and with the cluster's name in answers of all clusters."""
    value = encode_stored(undressed(config_map(**annotations)))
    spliced = renderer().splice(stored(value), "team-a", wildcard=wildcard)
    assert spliced is not None
    obj = orjson.loads(spliced)
    assert obj["metadata"].pop("annotations") == expected
    name = {"clusterName": "team-a"} if wildcard else {}
    assert obj == {**config_map(), "metadata": {"name": "game", "resourceVersion": "7", **name}}


@pytest.mark.parametrize("annotations", [{}, {"annotations": {"z": "1"}}], ids=["absent", "some"])
def test_the_cluster_may_be_said_to_wildcard_requests_only(annotations: dict[str, Any]) -> None:
    """Answers of one cluster then have the annotations that were stored, and none of the server's."""
    item = stored(encode_stored(config_map(**annotations)))
    quiet = renderer(annotated=False)
    alone = quiet.splice(item, "team-a")
    among = quiet.splice(item, "team-a", wildcard=True)
    assert alone is not None
    assert orjson.loads(alone)["metadata"] == {"name": "game", "resourceVersion": "7", **annotations}
    assert among == renderer().splice(item, "team-a", wildcard=True)


def undressed(obj: dict[str, Any]) -> dict[str, Any]:
    strip_server_fields(obj)
    return obj


@given(
    labels=_LABELS,
    annotations=st.dictionaries(_TEXT.filter(lambda name: name != CLUSTER_ANNOTATION), _TEXT, max_size=3),
    members=_MEMBERS,
    revision=st.integers(1, 2**62),
    wildcard=st.booleans(),
    in_list=st.booleans(),
    untyped_items=st.booleans(),
    annotated=st.booleans(),
)
def test_a_splice_is_the_decoded_object_dressed_and_printed(
    *,
    labels: dict[str, str],
    annotations: dict[str, str],
    members: dict[str, Any],
    revision: int,
    wildcard: bool,
    in_list: bool,
    untyped_items: bool,
    annotated: bool,
) -> None:
    """For whatever is stored, one by one and many at once."""
    metadata = {"name": "game", **({"labels": labels} if labels else {}), **({"annotations": annotations} if annotations else {})}
    value = encode_stored({**members, "apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata})
    rendering = renderer(untyped_items=untyped_items, annotated=annotated)
    item = stored(value, revision)
    spliced = rendering.splice(item, "team-a", wildcard=wildcard, in_list=in_list)
    dressed = rendering.add_server_fields(orjson.loads(value), revision, "team-a", wildcard=wildcard)
    assert spliced is not None
    assert orjson.loads(spliced) == orjson.loads(rendering.encode(dressed, in_list=in_list))
    assert rendering.splicer("team-a", wildcard=wildcard, in_list=in_list)(item) == spliced


@pytest.mark.parametrize("untyped_items", [True, False])
def test_only_items_of_typed_lists_lack_their_kind(*, untyped_items: bool) -> None:
    """As upstream: lists of built-in kinds carry it once, those of custom resources in every item."""
    rendering = renderer(untyped_items=untyped_items)
    item = stored(encode_stored(config_map()))
    in_list, alone = rendering.splice(item, "a", in_list=True), rendering.splice(item, "a")
    assert in_list is not None
    assert alone is not None
    assert ("kind" in orjson.loads(in_list)) is not untyped_items
    assert orjson.loads(alone)["kind"] == "ConfigMap"


def test_another_version_that_differs_in_name_alone_is_spliced() -> None:
    """The answered apiVersion is the one that was asked for."""
    rendering = renderer(api_version="example.com/v2", stored_api_version="v1", untyped_items=False)
    spliced = rendering.splice(stored(encode_stored(config_map())), "a")
    assert spliced is not None
    assert orjson.loads(spliced)["apiVersion"] == "example.com/v2"


@pytest.mark.parametrize(
    ("rendering", "value"),
    [
        (renderer(same_form=False), encode_stored(config_map())),
        (renderer(stored_api_version="v2"), encode_stored(config_map())),
        (renderer(), orjson.dumps({"kind": "ConfigMap", "apiVersion": "v1", "metadata": {}})),
    ],
    ids=["forms differ", "stored in another version", "members in another order"],
)
def test_what_has_to_be_decoded_is_not_spliced(rendering: Renderer, value: bytes) -> None:
    """The splice works on what begins as expected, and says so where it does not."""
    for in_list in (False, True):
        assert rendering.splice(stored(value), "a", in_list=in_list) is None
        assert rendering.splicer("a", in_list=in_list)(stored(value)) is None


def test_what_is_stored_begins_in_a_fixed_order() -> None:
    """Whatever order the members came in: the splice relies on it."""
    obj = {"data": {"x": "y"}, "metadata": {"name": "n", "annotations": {"a": "b"}}, "kind": "ConfigMap", "apiVersion": "v1"}
    assert encode_stored(obj) == (
        b'{"apiVersion":"v1","kind":"ConfigMap","metadata":{"annotations":{"a":"b"},"name":"n"},"data":{"x":"y"}}'
    )


def test_clients_cannot_store_what_the_server_says() -> None:
    """Revision, cluster and self link go; annotations that are left empty go with them, others stay."""
    said = {"resourceVersion": "7", "clusterName": "other", "selfLink": "/x"}
    obj = config_map(annotations={CLUSTER_ANNOTATION: "other", "a": "b"}, **said)
    strip_server_fields(obj)
    assert obj == config_map(annotations={"a": "b"})
    obj = config_map(annotations={CLUSTER_ANNOTATION: "other"}, **said)
    strip_server_fields(obj)
    assert obj == config_map()


def test_an_object_without_a_revision_is_dressed_without_one() -> None:
    """As the answer to a dry run of a create."""
    assert "resourceVersion" not in renderer().add_server_fields(config_map(), 0, "a")["metadata"]


def test_stored_forms_take_no_more_memory_than_their_bytes() -> None:
    """A stored form that is kept, as by watches and caches, holds no larger buffer."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = [encode_stored(config_map(uid=str(number))) for number in range(100)]
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < sum(map(sys.getsizeof, kept)) + 20_000
