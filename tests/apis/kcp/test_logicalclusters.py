"""The LogicalCluster object."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.apis.kcp.logicalclusters import LogicalClusterStrategy, is_inactive

STRATEGY = LogicalClusterStrategy()


def cluster(**members: Any) -> dict[str, Any]:
    return {"metadata": {"name": "cluster"}, **members}


def test_creation():
    """A new cluster without initializers is ready, cannot vanish unseen, and shows its phase as a label."""
    obj = cluster()
    STRATEGY.prepare_for_create(obj)
    assert obj["spec"] == {"directlyDeletable": False}
    assert obj["status"] == {"phase": "Ready"}
    assert obj["metadata"]["finalizers"] == ["core.kcp.io/logicalcluster-deletion"]
    assert obj["metadata"]["labels"] == {"tenancy.kcp.io/phase": "Ready"}


def test_initializers_come_first():
    """A cluster with initializers begins with them pending."""
    obj = cluster(spec={"initializers": ["root:universal"]})
    STRATEGY.prepare_for_create(obj)
    assert obj["status"] == {"phase": "Initializing", "initializers": ["root:universal"]}


def test_name():
    """There is one object, of a fixed name."""
    assert [str(problem) for problem in STRATEGY.validate({"metadata": {"name": "other"}})] == [
        'metadata.name: Unsupported value: "other": supported values: "cluster"'
    ]


@pytest.mark.parametrize(("was", "phase", "allowed"), [
    ("Scheduling", "Initializing", True),
    ("Initializing", "Ready", True),
    ("Ready", "Initializing", False),
    ("Inactive", "Ready", True),
    ("Deleting", "Ready", False),
])  # fmt: skip
def test_phase_goes_forward(was, phase, allowed):
    """A phase does not come back, but for a cluster that was switched off."""
    problems = STRATEGY.validate_update(cluster(status={"phase": phase}), cluster(status={"phase": was}))
    assert [str(problem) for problem in problems] == (
        [] if allowed else [f'status.phase: Invalid value: "{phase}": cannot transition from "{was}" to "{phase}"']
    )


@pytest.mark.parametrize("annotation", ["core.kcp.io/inactive", "internal.kcp.io/inactive"])
def test_switching_off_and_on_is_a_phase(annotation):
    """The annotation makes a ready cluster inactive, taking it away makes it ready again; other phases stay."""
    ready = cluster(status={"phase": "Ready"})
    off: dict[str, Any] = {"metadata": {"name": "cluster", "annotations": {annotation: "true"}}, "status": {"phase": "Ready", "URL": "u"}}
    STRATEGY.prepare_for_update(off, ready)
    assert off["status"] == {"phase": "Inactive", "URL": "u"}
    assert off["metadata"]["labels"] == {"tenancy.kcp.io/phase": "Inactive"}
    on = cluster(status=off["status"])
    STRATEGY.prepare_for_update(on, off)
    assert on["status"]["phase"] == "Ready"
    deleting = {**off, "status": {"phase": "Deleting"}}
    STRATEGY.prepare_for_update(deleting, off)
    assert deleting["status"]["phase"] == "Deleting"


def test_initializers_are_fixed():
    """What initializes a cluster is said when it is made."""
    problems = STRATEGY.validate_update(cluster(spec={"initializers": ["system:x"]}), cluster())
    assert [problem.field for problem in problems] == ["spec.initializers"]


@pytest.mark.parametrize(("spec", "phase"), [({}, "Deleting"), ({"terminators": ["system:x"]}, "Terminating")])
def test_deletion(spec, phase):
    """A deleted cluster says so; terminators have their turn before its content goes."""
    obj = cluster(spec=spec, status={"phase": "Ready"})
    assert STRATEGY.prepare_for_delete(obj)
    assert obj["status"]["phase"] == phase
    assert obj["metadata"]["labels"] == {"tenancy.kcp.io/phase": phase}


@pytest.mark.parametrize("junk", ["x", 1, [], None, True], ids=repr)
def test_untyped_members_are_left_for_the_schema(junk):
    """The strategy runs before the schema and does not stumble over values of the wrong type."""
    obj = cluster(spec=junk, status=junk)
    STRATEGY.prepare_for_update(obj, cluster())
    STRATEGY.prepare_for_status_update(obj, cluster())
    STRATEGY.validate_update(obj, cluster())
    STRATEGY.prepare_for_create(obj)


@pytest.mark.parametrize(
    ("annotations", "inactive"),
    [
        (None, False),
        ({}, False),
        ({"core.kcp.io/inactive": "true"}, True),
        ({"internal.kcp.io/inactive": "true"}, True),
        ({"core.kcp.io/inactive": "false", "internal.kcp.io/inactive": "true"}, True),
        ({"core.kcp.io/inactive": "yes"}, False),
        ({"other.io/inactive": "true"}, False),
    ],
)
def test_switched_off(annotations, *, inactive):
    """Either annotation does it, with the text `true` alone."""
    assert is_inactive({"metadata": {"annotations": annotations}}) is inactive
    assert is_inactive({"metadata": {}}) is False


AFTER = "kcp-py.io/delete-after"


@pytest.mark.parametrize(
    ("annotations", "refused"),
    [
        pytest.param({}, False, id="none"),
        pytest.param({"kcp-py.io/deletion-protection": "true"}, True, id="true"),
        pytest.param({"kcp-py.io/deletion-protection": "yes"}, True, id="any word"),
        pytest.param({"kcp-py.io/deletion-protection": ""}, True, id="empty"),
        pytest.param({"kcp-py.io/deletion-protection": "false"}, False, id="false"),
    ],
)
def test_protection(annotations, refused):
    """Any value but false protects, and only from a deletion that has not begun."""
    obj = {"metadata": {"name": "cluster", "annotations": annotations}}
    assert bool(STRATEGY.check_delete(obj)) is refused
    obj["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    assert STRATEGY.check_delete(obj) == ""


@pytest.mark.parametrize(
    ("option", "grace", "until"),
    [
        pytest.param(0, None, None, id="no grace"),
        pytest.param(60, None, "1970-01-01T00:01:00Z", id="the option's"),
        pytest.param(60, 0, None, id="at once"),
        pytest.param(0, 30, "1970-01-01T00:00:30Z", id="the deletion's"),
        pytest.param(60, 2**63 - 1, "1979-12-30T00:00:00Z", id="the longest"),
    ],
)
def test_grace(option, grace, until):
    """The deletion's own grace period wins over the option; without one the object is deleted at once."""
    strategy = LogicalClusterStrategy(deletion_grace=option, clock=lambda: 0.0)
    obj = cluster()
    strategy.prepare_for_create(obj)
    kept = strategy.postpone_delete(obj, grace)
    assert (kept and kept["metadata"]["annotations"][AFTER]) == until
    assert obj["status"]["phase"] == "Ready"
    if kept is not None:
        assert (kept["status"]["phase"], kept["metadata"]["labels"]["tenancy.kcp.io/phase"]) == ("Inactive", "Inactive")
        assert strategy.postpone_delete(kept, None) is kept
