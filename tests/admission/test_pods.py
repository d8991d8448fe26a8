"""Pods and nodes are filled and refused by the plugins that ask for them, as recorded from kube-apiserver 1.37.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcp_py.admission.runtimeclass import merge_tolerations
from tests.admission.serving import CLUSTER, CORE, pod, recorded, serving

pytestmark = pytest.mark.anyio

CLASSES = f"{CLUSTER}/apis/scheduling.k8s.io/v1/priorityclasses"
PODS = f"{CORE}/namespaces/default/pods"
KINDS = ("pods", "nodes", "priorityclasses", "runtimeclasses")
THIRD = 'priorityclasses.scheduling.k8s.io "third" is forbidden'
FIELDS = (
    "serviceAccountName",
    "serviceAccount",
    "imagePullSecrets",
    "priority",
    "priorityClassName",
    "preemptionPolicy",
    "tolerations",
    "overhead",
    "nodeSelector",
    "runtimeClassName",
)


async def test_pods_are_answered_as_by_kube_apiserver(tmp_path: Path) -> None:
    """Accounts, priorities, tolerations and runtime classes: the fields that are filled in, and every refusal."""
    data = recorded("pods")
    async with serving(tmp_path, *KINDS) as api:
        for path, obj in data["setup"]:
            made = await api("POST", CLUSTER + path, obj)
            if made.status_code == 409:  # every namespace has the account `default`
                found = await api.ok("GET", f"{CLUSTER}{path}/{obj['metadata']['name']}")
                await api.ok("PUT", f"{CLUSTER}{path}/{obj['metadata']['name']}", {**found, **obj, "metadata": found["metadata"]})
        for case in data["cases"]:
            answer = await api("POST", f"{CORE}/namespaces/t/pods", case["object"], params={"dryRun": "All"})
            got = answer.json()
            assert (answer.status_code, got.get("message")) == (case["code"], case.get("message"))
            if answer.status_code == 201:
                assert {field: got["spec"][field] for field in FIELDS if field in got["spec"]} == case["spec"]


async def test_accounts_that_cannot_exist(tmp_path: Path) -> None:
    """A pod whose account has an impossible name is refused like one whose account is missing."""
    async with serving(tmp_path, "pods") as api:
        for name in ("a/b", "../default/default", "..", "%2e", "A B", "x\x00", "n" * 300):
            refused = await api("POST", PODS, pod(serviceAccountName=name))
            quoted = name.replace("\x00", "\\x00")
            missing = f'error looking up service account default/{name}: serviceaccount "{quoted}" not found'
            assert (refused.status_code, refused.json()["message"]) == (403, f'pods "p" is forbidden: {missing}')


async def test_a_cluster_without_classes_gives_priorities_all_the_same(tmp_path: Path) -> None:
    """The classes of the system are known without their kind."""
    async with serving(tmp_path, "pods") as api:
        made = await api.ok("POST", PODS, pod(priorityClassName="system-cluster-critical"))
        assert made["spec"]["priority"] == 2_000_000_000
        refused = await api("POST", PODS, pod(priorityClassName="own"))
        assert refused.json()["message"] == 'pods "p" is forbidden: no PriorityClass with name own was found'


async def test_the_classes_of_the_system_are_there_and_one_class_is_the_default(tmp_path: Path) -> None:
    """A second default is refused; the default may be updated."""
    async with serving(tmp_path, *KINDS) as api:
        listed = await api.ok("GET", CLASSES)
        assert [(one["metadata"]["name"], one["value"]) for one in listed["items"]] == [
            ("system-cluster-critical", 2_000_000_000),
            ("system-node-critical", 2_000_001_000),
        ]
        default = await api.ok("POST", CLASSES, {"metadata": {"name": "second"}, "value": 5, "globalDefault": True})
        refused = await api("POST", CLASSES, {"metadata": {"name": "third"}, "value": 5, "globalDefault": True})
        assert (refused.status_code, refused.json()["message"]) == (
            403,
            f"{THIRD}: PriorityClass second is already marked as default. Only one default can exist",
        )
        await api.ok("PUT", f"{CLASSES}/second", {**default, "description": "d"})
        spec = (await api.ok("POST", PODS, pod()))["spec"]
        assert (spec["priorityClassName"], spec["priority"]) == ("second", 5)


async def test_an_update_keeps_the_priority_of_a_pod(tmp_path: Path) -> None:
    """A client that leaves the filled fields out does not change them, and tolerations are added again."""
    async with serving(tmp_path, "pods") as api:
        made = await api.ok("POST", PODS, pod())
        sent = {**made, "spec": {name: value for name, value in made["spec"].items() if name not in {"priority", "preemptionPolicy"}}}
        sent["metadata"] = {**made["metadata"], "labels": {"a": "b"}}
        updated = await api.ok("PUT", f"{PODS}/p", sent)
        assert (updated["spec"], updated["metadata"]["labels"]) == (made["spec"], {"a": "b"})


async def test_plugins_that_are_off_change_nothing(tmp_path: Path) -> None:
    """An operator decides what pods get."""
    off = ("DefaultTolerationSeconds", "Priority", "RuntimeClass", "ServiceAccount")
    async with serving(tmp_path, "pods", disable_admission_plugins=off) as api:
        made = await api.ok("POST", PODS, pod(serviceAccountName="none"))
        assert not {"priority", "preemptionPolicy", "tolerations"} & made["spec"].keys()


async def test_an_operator_chooses_how_long_pods_stay_on_lost_nodes(tmp_path: Path) -> None:
    """The flags of kube-apiserver; what a pod says has precedence."""
    async with serving(tmp_path, "pods", default_not_ready_toleration_seconds=30, default_unreachable_toleration_seconds=0) as api:
        own = {"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 7}
        for given, shown in ((pod(), [30, 0]), (pod(tolerations=[own]), [7, 0])):
            made = await api.ok("POST", PODS, given, params={"dryRun": "All"})
            assert [one["tolerationSeconds"] for one in made["spec"]["tolerations"]] == shown


async def test_images_are_always_pulled_where_that_is_enabled(tmp_path: Path) -> None:
    """In all containers of new pods, and of pods that get another image."""
    async with serving(tmp_path, "pods", enable_admission_plugins=("AlwaysPullImages",)) as api:
        container = {"name": "c", "image": "i:1", "imagePullPolicy": "Never"}
        volume: dict[str, Any] = {"name": "v", "image": {"reference": "r", "pullPolicy": "Never"}}
        made = await api.ok("POST", PODS, pod(containers=[container], initContainers=[{**container, "name": "i"}], volumes=[volume]))
        spec = made["spec"]
        assert [one["imagePullPolicy"] for one in (*spec["containers"], *spec["initContainers"])] == ["Always", "Always"]
        assert spec["volumes"][0]["image"]["pullPolicy"] == "Always"


async def test_a_new_node_is_not_ready(tmp_path: Path) -> None:
    """It has the taint once, with those that it came with."""
    async with serving(tmp_path, "nodes") as api:
        taint = {"key": "node.kubernetes.io/not-ready", "effect": "NoSchedule"}
        other = {"key": "own", "value": "v", "effect": "NoExecute"}
        assert (await api.ok("POST", f"{CORE}/nodes", {"metadata": {"name": "a"}}))["spec"]["taints"] == [taint]
        given = await api.ok("POST", f"{CORE}/nodes", {"metadata": {"name": "b"}, "spec": {"taints": [other, taint]}})
        assert given["spec"]["taints"] == [other, taint]
        added = await api.ok("POST", f"{CORE}/nodes", {"metadata": {"name": "c"}, "spec": {"taints": [other]}})
        assert added["spec"]["taints"] == [other, taint]


def test_tolerations_that_others_include_are_left_out() -> None:
    """Whichever comes first; of equal ones the first remains."""
    every, narrow = {"operator": "Exists"}, {"key": "a", "operator": "Equal", "value": "b", "effect": "NoSchedule"}
    assert merge_tolerations([narrow, every]) == [every]
    assert merge_tolerations([every, narrow]) == [every]
    assert merge_tolerations([narrow, narrow]) == [narrow]
    other = {**narrow, "value": "c"}
    assert merge_tolerations([narrow, other]) == [narrow, other]
    limited = {"key": "a", "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": 10}
    longer = {**limited, "tolerationSeconds": 20}
    assert merge_tolerations([limited, longer]) == [longer]
