"""Events of both groups are the same objects; the newer group is checked more strictly."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apis.core.events import CORE_V1, EVENTS_V1, FROM_CORE, TO_CORE, EventStrategy, StrictEventStrategy, convert_events

NEW = {
    "apiVersion": EVENTS_V1,
    "kind": "Event",
    "metadata": {"name": "a", "namespace": "team"},
    "regarding": {"kind": "Widget", "name": "w", "namespace": "team"},
    "note": "hello",
    "reason": "Made",
    "action": "Make",
    "type": "Normal",
    "eventTime": "2026-01-01T00:00:00.000000Z",
    "reportingController": "example.com/maker",
    "reportingInstance": "maker-0",
}

NAME_RULE = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric character "
    "(e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is '([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)


def texts(problems: Any) -> list[str]:
    return [str(problem) for problem in problems]


@pytest.mark.anyio
async def test_every_field_is_renamed_there_and_back():
    """Each field of one group has its name in the other, and comes back unchanged."""
    new = {**NEW, "deprecatedCount": 3, "deprecatedSource": {"component": "x"}, "series": {"count": 2}, "related": {"kind": "Pod"}}
    (core,) = await convert_events([dict(new)], CORE_V1)
    assert core["apiVersion"] == CORE_V1
    assert (core["message"], core["involvedObject"]["name"], core["count"], core["reportingComponent"]) == (
        "hello",
        "w",
        3,
        "example.com/maker",
    )
    assert not TO_CORE.keys() & core.keys()
    assert await convert_events([core], EVENTS_V1) == [new]


@pytest.mark.anyio
@given(st.dictionaries(st.sampled_from([*FROM_CORE, "action", "eventTime", "series", "type"]), st.integers()))
async def test_conversion_is_lossless(members):
    """No field is lost or merged by a conversion, whatever is set."""
    stored = {"apiVersion": CORE_V1, "kind": "Event", "metadata": {}, **members}
    (shown,) = await convert_events([stored], EVENTS_V1)
    assert (await convert_events([shown], CORE_V1)) == [{**stored, "apiVersion": CORE_V1}]


def test_new_event():
    """A complete new event has no problems, in either group."""
    assert StrictEventStrategy().validate(dict(NEW)) == []


@pytest.mark.parametrize(("change", "wanted"), [
    ({"eventTime": None}, ["eventTime: Required value"]),
    ({"type": "Odd"}, ['type: Invalid value: "": has invalid value: Odd']),
    ({"reportingController": "", "reportingInstance": "", "action": "", "reason": ""}, [
        "reportingController: Required value",
        'reportingController: Invalid value: "": name part must be non-empty',
        f'reportingController: Invalid value: "": {NAME_RULE}',
        "reportingInstance: Required value",
        "action: Required value",
        "reason: Required value",
    ]),
    ({"note": "x" * 1025}, ['message: Invalid value: "": can have at most 1024 characters']),
    ({"deprecatedCount": 1, "deprecatedSource": {"host": "h"}}, [
        'count: Invalid value: "": needs to be unset',
        'source: Invalid value: "": needs to be unset',
    ]),
    ({"series": {"count": 1}}, ['series.count: Invalid value: "": should be at least 2', "series.lastObservedTime: Required value"]),
], ids=["time", "type", "reporter", "note", "old fields", "series"])  # fmt: skip
def test_strict_rules(change, wanted):
    """Each rule of events.k8s.io answers in upstream's words."""
    assert texts(StrictEventStrategy().validate({**NEW, **change})) == wanted


def test_only_the_series_changes():
    """An update through events.k8s.io may change the series and nothing that was said."""
    changed = {**NEW, "note": "other", "series": {"count": 2, "lastObservedTime": "2026-01-01T00:00:01.000000Z"}}
    assert texts(StrictEventStrategy().validate_update(changed, NEW)) == ['message: Invalid value: "other": field is immutable']


@pytest.mark.parametrize(("namespace", "about", "fits"), [
    ("default", "", True),
    ("team", "team", True),
    ("team", "", False),
    ("team", "other", False),
])  # fmt: skip
def test_old_events_live_where_their_object_lives(namespace, about, fits):
    """An event without eventTime is in its object's namespace, or in `default` where the object has none."""
    event = {"metadata": {"name": "a", "namespace": namespace}, "involvedObject": {"namespace": about} if about else {}}
    problems = texts(EventStrategy().validate(event))
    assert problems == ([] if fits else [f'involvedObject.namespace: Invalid value: "{about}": does not match event.namespace'])
