"""The labels that are cut from bytes are those of the decoded object, and selectors decide about them as about decoded ones."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.meta.selectors import parse_label_selector
from kcp_py.registry.rendering import Renderer, encode_stored
from kcp_py.registry.store.labels import LabelChoice, labels_of
from kcp_py.storage.contract import KeyValue
from kcp_py.storage.rangecache import Span

_TEXT = st.text(max_size=4) | st.sampled_from(['"', "\\", '\\"', "labels", '"labels":{"a":"b"}', "}", "{", "é"])
_STRINGS = st.dictionaries(_TEXT, _TEXT, max_size=3)
_CONTENT = st.sampled_from([{}, {"labels": {"a": "other"}}, {"metadata": {"labels": {"a": "other"}}}, {"text": '"labels":{"a":"b"}'}])
_NAMES = st.sampled_from("abc")
_LABELS = st.dictionaries(_NAMES, _NAMES, max_size=3)
_SELECTORS = ["a=a", "a!=a", "a in (a, b)", "a notin (a, b)", "a", "!a", "a=a,b=b", "a=a,b!=b", "b,!c", "a>1"]


def _object(annotations: dict[str, str], labels: dict[str, str], spec: Any) -> dict[str, Any]:
    metadata = {"name": "one", "annotations": annotations, "labels": labels, "finalizers": ["labels"]}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {name: value for name, value in metadata.items() if value}, "spec": spec}


@given(annotations=_STRINGS, labels=_STRINGS, spec=_CONTENT, flags=st.tuples(st.booleans(), st.booleans(), st.booleans()))
def test_labels_are_those_of_the_decoded_object(annotations, labels, spec, flags):
    """In the stored and in each answered form, at any place of a document, whatever annotations and contents look like."""
    in_list, annotated, typed = flags
    value = encode_stored(_object(annotations, labels, spec))
    renderer = Renderer(api_version="v1", stored_api_version="v1", kind="Pod", untyped_items=typed, same_form=True, annotated=annotated)
    for wildcard in (False, True):
        answered = renderer.splice(KeyValue("/a", value, 7, 7), "team", wildcard=wildcard, in_list=in_list)
        assert answered is not None
        for document in (value, answered):
            assert orjson.loads(labels_of(document)) == labels
            assert orjson.loads(labels_of(b"[" + document + b"]", 1, len(document) + 1)) == labels


@pytest.mark.parametrize("order", [("name", "labels"), ("labels", "name"), ("name", "annotations", "labels")])
def test_objects_in_another_order_are_decoded(order):
    """Objects that earlier versions or other programs have stored are not like those that are stored now."""
    metadata = {"name": "one", "labels": {"a": "b"}, "annotations": {"c": "d"}}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {name: metadata[name] for name in order}}
    assert orjson.loads(labels_of(orjson.dumps(document))) == {"a": "b"}
    assert orjson.loads(labels_of(orjson.dumps(document, option=orjson.OPT_INDENT_2))) == {"a": "b"}


@pytest.mark.parametrize("labels", [b'{"a":5}', b"[1]", b'"a"', b'{"a":{}}'])
def test_labels_of_wrong_types_count_as_none(labels):
    """As when the object is decoded, where such a field is dropped."""
    document = b'{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one","labels":%s}}' % labels
    assert not LabelChoice(parse_label_selector("a")).selects(labels_of(document))
    assert LabelChoice(parse_label_selector("!a")).selects(labels_of(document))


@given(st.lists(_LABELS, max_size=8), st.sampled_from(_SELECTORS))
def test_the_part_of_a_span_has_the_selected_elements(label_sets, text):
    """In order, with their keys, in the same bounds; and the whole span itself where all are selected."""
    selector = parse_label_selector(text)
    elements = [encode_stored(_object({}, labels, {"at": at})) for at, labels in enumerate(label_sets)]
    span = Span("/a", "/b", 5, [f"/a{at}" for at in range(len(elements))], elements)
    expected = [at for at, labels in enumerate(label_sets) if selector.matches(labels)]
    for _ in range(2):  # the labels are remembered
        part = LabelChoice(selector).part_of(span)
        assert (part.lower, part.upper, part.since) == ("/a", "/b", 5)
        assert list(part.keys) == [f"/a{at}" for at in expected]
        assert part.data == b"".join(b"," + elements[at] for at in expected)
        assert (part is span) == (len(expected) == len(elements))
