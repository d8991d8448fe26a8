"""What a tap sends over HTTP."""

from __future__ import annotations

import orjson
import pytest

from kcp_py.apimachinery import errors
from kcp_py.apimachinery.kinds import GroupResource, GroupVersionResource
from kcp_py.client.tap import EVERYTHING, Holder, ObjectChange, ObjectFilter, StoredResource
from kcp_py.client.tapwire import (
    Deletion,
    FinalizerRemoval,
    Recount,
    change_line,
    deletion_body,
    error_line,
    filter_text,
    finalizer_body,
    merged,
    parse_deletion,
    parse_filter,
    parse_finalizer,
    parse_recount,
    read_change,
    recount_body,
    revision_line,
)
from kcp_py.logicalcluster import Name

MAPS, EVENTS, CRDS = GroupResource("", "configmaps"), GroupResource("", "events"), GroupResource("x", "crds")
FILTER = ObjectFilter(((b'"a":', b"\xc3\xbc"), (b"c",)), (b"!",), frozenset((EVENTS,)), frozenset((CRDS,)))
OBJECT = orjson.dumps(
    {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "uid": "u", "labels": {"a": "b"}}, "data": {"secret": "x"}}
)


@pytest.mark.parametrize("given", [FILTER, EVERYTHING])
def test_a_filter_is_read_as_it_was_written(given: ObjectFilter) -> None:
    """With every part."""
    assert parse_filter(filter_text(given)) == given


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"contains":[[1]],"lacks":[],"ignored":[],"always":[]}'])
def test_another_text_is_no_filter(text: str) -> None:
    """It is a ValueError, which is the fault of the request."""
    with pytest.raises(ValueError, match=r".+"):
        parse_filter(text)


@pytest.mark.parametrize("holder", [None, Holder(GroupVersionResource("", "v1", "namespaces"), "one", "u")])
def test_a_deletion_is_read_as_it_was_written(holder: Holder | None) -> None:
    """With and without a holder; and so are the removal of a finalizer and the count of a quota."""
    deletion = Deletion(Name("team-a"), StoredResource(MAPS, custom=False, namespaced=None), "default", ["a.b/c"], holder)
    assert parse_deletion(deletion_body(deletion)) == deletion
    removal = FinalizerRemoval(Name("team-a"), GroupVersionResource("", "v1", "configmaps"), "default", "one", "a.b/c", "u")
    assert parse_finalizer(finalizer_body(removal)) == removal
    recount = Recount(Name("team-a"), "default", "q")
    assert parse_recount(recount_body(recount)) == recount


def test_merged_filters_show_what_one_of_them_shows() -> None:
    """What all of them ignore is ignored; no filter at all shows removals alone."""
    other = ObjectFilter(contains=((b"z",),))
    assert merged([FILTER, other]) == ObjectFilter((*FILTER.contains, (b"z",)), FILTER.lacks, frozenset(), FILTER.always)
    assert merged([FILTER, EVERYTHING]).matches(b"whatever")
    assert not merged([]).shows(MAPS, b"a", b"b")
    assert merged([]).shows(MAPS, None, b"b")


def test_a_change_is_read_as_it_was_written() -> None:
    """Whole, or as far as owners and the life of the object go: no data leaves the server then."""
    change = ObjectChange(Name("team-a"), MAPS, "default", "one", OBJECT, OBJECT)
    whole = read_change(orjson.loads(change_line(change, whole=True)))
    assert whole == change._replace(previous=None)
    indented = orjson.dumps(orjson.loads(OBJECT), option=orjson.OPT_INDENT_2) + b"\n"
    assert read_change(orjson.loads(change_line(change._replace(value=indented), whole=True).splitlines()[0])) == whole
    line = change_line(change._replace(previous=None), whole=False)
    assert b"secret" not in line
    shown = orjson.loads(read_change(orjson.loads(line)).value or b"")
    assert shown == {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "uid": "u"}}
    gone = ObjectChange(Name("team-a"), MAPS, "", "one", None, None)
    assert read_change(orjson.loads(change_line(gone, whole=True))) == gone


def test_other_lines() -> None:
    """A revision, and a failure with its Status."""
    assert orjson.loads(revision_line(7)) == {"revision": 7}
    assert orjson.loads(error_line(errors.bad_request("x")))["error"]["message"] == "x"
