"""What a create fills in for upstream kinds."""

from __future__ import annotations

import pytest

from kcp_py.apis.upstream.creation import PREPARATIONS, fill_profiles, quality_of_service
from kcp_py.apis.upstream.strategy import UpstreamStrategy
from kcp_py.bootstrap.upstream_kinds import upstream_kinds
from kcp_py.request.user import LOOPBACK


def prepared(kind, obj, user=LOOPBACK):
    row = next(row for row in upstream_kinds().values() if row.kind == kind)
    strategy = UpstreamStrategy(row, {})
    strategy.prepare_for_create(obj)
    strategy.fill_new(obj, user)
    return obj


def container(requests=None, limits=None):
    return {"resources": {**({"requests": requests} if requests else {}), **({"limits": limits} if limits else {})}}


BOTH = {"cpu": "1", "memory": "1Gi"}


@pytest.mark.parametrize(
    ("containers", "quality"),
    [
        ([{}], "BestEffort"),
        ([container(requests={"example.com/gpu": "1"})], "BestEffort"),
        ([container(requests={"cpu": "1"})], "Burstable"),
        ([container(requests=BOTH, limits=BOTH)], "Guaranteed"),
        ([container(limits=BOTH)], "Guaranteed"),
        ([container(requests={**BOTH, "cpu": "500m"}, limits=BOTH)], "Burstable"),
        ([container(requests=BOTH, limits=BOTH), {}], "Burstable"),
        ([], "BestEffort"),
    ],
)
def test_quality_of_service(containers, quality):
    """The class follows from all containers together."""
    assert quality_of_service({"spec": {"containers": containers}}) == quality


def test_pods_are_pending():
    """A new pod waits for a node, or for what holds it back."""
    assert prepared("Pod", {"spec": {"containers": [{}]}})["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    held = prepared("Pod", {"spec": {"containers": [{}], "schedulingGates": [{"name": "x"}]}})
    assert held["status"]["conditions"][0]["reason"] == "SchedulingGated"


APPARMOR = "container.apparmor.security.beta.kubernetes.io/"
LOCAL = {"type": "Localhost", "localhostProfile": "p"}


@pytest.mark.parametrize(
    ("annotation", "profile"),
    [
        ("unconfined", {"type": "Unconfined"}),
        ("runtime/default", {"type": "RuntimeDefault"}),
        ("localhost/p", LOCAL),
        ("localhost/", None),
        ("localhost/ p", None),
        ("localhost/" + "p" * 4096, None),
        ("other", None),
        ("", None),
    ],
)
@pytest.mark.parametrize("member", ["containers", "initContainers", "ephemeralContainers"])
def test_deprecated_annotations_become_profiles(annotation, profile, member):
    """Of the container that they name, unless it has a profile of its own or the pod has the same one."""

    def filled(*containers, annotations=annotation, **spec):
        pod = {"metadata": {"annotations": {f"{APPARMOR}c": annotations}}, "spec": {member: [*containers], **spec}}
        fill_profiles(pod)
        return [one.get("securityContext") for one in pod["spec"][member]]

    expected = None if profile is None else {"appArmorProfile": profile}
    assert filled({"name": "c"}, {"name": "d"}) == [expected, None]
    assert filled({"name": "c", "securityContext": {"privileged": True}}) == [{"privileged": True, **(expected or {})}]
    own = {"appArmorProfile": {"type": "RuntimeDefault"}}
    assert filled({"name": "c", "securityContext": own}) == [own]
    assert filled({"name": "c"}, os={"name": "windows"}) == [None]
    if profile is not None:
        assert filled({"name": "c"}, securityContext={"appArmorProfile": profile}) == [None]


def test_jobs_select_their_own_pods():
    """Unless a selector is given by hand, it is the job's uid, with which its pods are labelled."""
    job = prepared("Job", {"metadata": {"name": "one", "uid": "u"}, "spec": {"template": {"spec": {}}}})
    assert job["spec"]["selector"] == {"matchLabels": {"batch.kubernetes.io/controller-uid": "u"}}
    assert job["spec"]["template"]["metadata"]["labels"] == {
        "job-name": "one",
        "batch.kubernetes.io/job-name": "one",
        "controller-uid": "u",
        "batch.kubernetes.io/controller-uid": "u",
    }
    by_hand = {"metadata": {"name": "one", "uid": "u"}, "spec": {"manualSelector": True, "template": {"spec": {}}}}
    assert "selector" not in prepared("Job", by_hand)["spec"]


def test_first_statuses():
    """They are there, as a struct is, and not shared."""
    one, other = prepared("Service", {}), prepared("Service", {})
    assert one["status"] == {"loadBalancer": {}}
    assert one["status"]["loadBalancer"] is not other["status"]["loadBalancer"]
    assert prepared("Node", {"status": {"phase": "x"}}) == {"status": {"phase": "x"}}


def test_every_preparation_is_of_an_upstream_kind():
    """No rule is written for a kind that is not there."""
    assert {(kind.group, kind.plural) for kind in upstream_kinds().values()} >= PREPARATIONS.keys()
