"""Objects that are reduced to their metadata."""

from __future__ import annotations

from kcp_py.apimachinery.meta.partial import META_V1BETA1, partial_object_metadata


def test_the_metadata_is_all_that_remains() -> None:
    """It is that of the object itself; kind and version are those of the metadata group."""
    obj = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"b": "c"}}
    partial = partial_object_metadata(obj)
    assert partial == {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {"name": "a"}}
    assert partial["metadata"] is obj["metadata"]
    assert partial_object_metadata(obj, META_V1BETA1)["apiVersion"] == "meta.k8s.io/v1beta1"


def test_an_object_without_metadata_has_empty_ones() -> None:
    """Null is as good as missing."""
    assert partial_object_metadata({})["metadata"] == partial_object_metadata({"metadata": None})["metadata"] == {}
