"""Limits of clusters come from annotations, then from the options; 0 means none."""

from __future__ import annotations

import pytest

from kcp_py.logicalcluster import Name
from kcp_py.registry.clusterlimits import (
    BURST_ANNOTATION,
    BYTES_ANNOTATION,
    NO_LIMITS,
    OBJECTS_ANNOTATION,
    REQUESTS_ANNOTATION,
    WATCHES_ANNOTATION,
    Limits,
    Used,
    exceeded,
    limits_of,
    parse_limit,
)

TEAM = Name("team-a")


@pytest.mark.parametrize(
    ("annotation", "text", "limit"),
    [
        (OBJECTS_ANNOTATION, "500", 500),
        (OBJECTS_ANNOTATION, "0", 0),
        pytest.param(OBJECTS_ANNOTATION, "-1", 0, id="none, as in kcp"),
        (BYTES_ANNOTATION, "1000", 1000),
        (BYTES_ANNOTATION, "64Mi", 64 * 2**20),
        (BYTES_ANNOTATION, "2k", 2000),
        (BYTES_ANNOTATION, "1Ti", 2**40),
        (REQUESTS_ANNOTATION, "50", 50),
    ],
)
def test_limits_are_parsed(annotation, text, limit):
    """Numbers, and sizes with units."""
    assert parse_limit(annotation, text) == limit


@pytest.mark.parametrize("text", ["", " 1", "1.5", "1e3", "many", "\uff11", "1\n", "0x10", "9" * 19, "+1", "1Mi"])
def test_other_texts_are_no_limits(text):
    """The message tells the form."""
    with pytest.raises(ValueError, match="must be a whole number"):
        parse_limit(OBJECTS_ANNOTATION, text)


@pytest.mark.parametrize("text", ["", "-1", "1.5Mi", "1Pi", "1m", "999999999999999Ti", "1 Mi"])
def test_other_texts_are_no_sizes(text):
    """Without fractions; sizes that no store has are refused."""
    with pytest.raises(ValueError, match="must be a number of bytes"):
        parse_limit(BYTES_ANNOTATION, text)


def test_rates_are_bounded():
    """A rate beyond what a server can answer is a mistake."""
    with pytest.raises(ValueError, match="at most"):
        parse_limit(BURST_ANNOTATION, "1000001")


def test_annotations_have_precedence():
    """Each for itself; a limit that no annotation states is the default."""
    defaults = Limits(objects=10, watches=5, requests=3, burst=30)
    found = limits_of(TEAM, {OBJECTS_ANNOTATION: "20", WATCHES_ANNOTATION: "0", "other": "1"}, defaults)
    assert found == Limits(objects=20, requests=3, burst=30, stated=frozenset({"objects", "watches"}))
    assert limits_of(TEAM, None, defaults) is defaults
    assert limits_of(TEAM, {"other": "1"}, defaults) is defaults


def test_a_stated_rate_has_its_own_burst():
    """The default burst belongs to the default rate."""
    assert limits_of(TEAM, {REQUESTS_ANNOTATION: "100"}, Limits(requests=3, burst=4)).largest_burst == 200
    assert limits_of(TEAM, {BURST_ANNOTATION: "9"}, Limits(requests=3, burst=4)).largest_burst == 9


@pytest.mark.parametrize("cluster", ["root", "system:admin"])
def test_defaults_leave_clusters_of_the_server_alone(cluster):
    """As in kcp; their annotations count."""
    assert limits_of(Name(cluster), None, Limits(objects=1)) == NO_LIMITS
    assert limits_of(Name(cluster), {OBJECTS_ANNOTATION: "2"}, Limits(objects=1, watches=1)).shown == {"objects": 2}


def test_what_an_earlier_release_stored_has_no_effect():
    """Annotations were not checked then."""
    assert limits_of(TEAM, {OBJECTS_ANNOTATION: "many"}, Limits(objects=7)).objects == 7


def test_only_growth_exceeds():
    """A cluster beyond a limit may shrink, and grow in other respects."""
    limits = Limits(objects=2, size=100)
    assert exceeded(limits, Used(2, 50), Used(1, 1)) == "objects"
    assert exceeded(limits, Used(5, 500), Used(0, 1)) == "size"
    assert exceeded(limits, Used(5, 500, 9), Used(-1, -1, 1)) == ""
    assert exceeded(limits, Used(1, 99), Used(1, 1)) == ""


def test_texts_and_status():
    """The refusal names what sets the limit; the status has all that are in force."""
    limits = limits_of(TEAM, {BYTES_ANNOTATION: "1Ki"}, Limits(objects=3, requests=5))
    assert limits.reached(TEAM, "size") == 'logical cluster "team-a" has reached its limit of 1024 bytes (kcp-py.io/max-total-bytes)'
    assert limits.reached(TEAM, "objects").endswith("limit of 3 objects (--logical-cluster-total-object-limit)")
    assert limits.shown == {"objects": 3, "bytes": 1024, "requestsPerSecond": 5, "requestBurst": 10}
    assert Used(1, 2, 3).shown == {"objects": 1, "bytes": 2, "customResourceDefinitions": 3}
