"""Plugins about pods and their nodes answer as recorded from kube-apiserver 1.37.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcp_py.admission.configuration import Document
from kcp_py.admission.podnodeselector import parse_selectors
from kcp_py.admission.podtolerationrestriction import parse_tolerations
from kcp_py.options import OptionsError
from tests.admission.serving import CORE, pod, recorded, serving
from tests.server.handlers.answers import step_differences

pytestmark = pytest.mark.anyio

OFF = ("ExtendedResourceToleration", "LimitPodHardAntiAffinityTopology", "PodNodeSelector", "PodTolerationRestriction")
PODS = f"{CORE}/namespaces/default/pods"
SELECTORS = "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: pool=shared\n  t: pool=t,disk=ssd\n"
TOLERATIONS = """
apiVersion: podtolerationrestriction.admission.k8s.io/v1alpha1
kind: Configuration
default:
- {key: own, operator: Exists, effect: NoSchedule}
whitelist:
- {key: own, operator: Exists}
- {key: node.kubernetes.io/not-ready, operator: Exists}
- {key: node.kubernetes.io/unreachable, operator: Exists}
"""


async def test_pods_are_answered_as_by_kube_apiserver(tmp_path: Path) -> None:
    """Selectors, tolerations and anti-affinities, the topology of nodes, and resizes within what they have."""
    found: list[Any] = []
    async with serving(tmp_path, "pods", "nodes", enable_admission_plugins=OFF, disable_admission_plugins=("ServiceAccount",)) as api:
        for scenario in recorded("podnodes"):
            found += await step_differences(api, scenario)
    assert found == []


@pytest.mark.parametrize("spec", [{}, {"containers": []}, {"containers": None, "affinity": {}}, {"containers": [{}], "nodeName": "A b"}])
async def test_incomplete_pods_are_left_to_validation(tmp_path: Path, spec: dict[str, Any]) -> None:
    """Plugins see pods before they are validated."""
    async with serving(tmp_path, "pods", "nodes", enable_admission_plugins=OFF) as api:
        answer = await api("POST", PODS, {"metadata": {"name": "p"}, "spec": spec})
        assert (answer.status_code, answer.json()["reason"]) == (422, "Invalid")


async def test_the_operator_has_lists_for_namespaces(tmp_path: Path) -> None:
    """In the files of kube-apiserver: a default selector, one for a namespace of any cluster, and tolerations."""
    (tmp_path / "selectors.yaml").write_text(SELECTORS)
    (tmp_path / "tolerations.yaml").write_text(TOLERATIONS)
    file = tmp_path / "admission.yaml"
    file.write_text(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n"
        "- {name: PodNodeSelector, path: selectors.yaml}\n- {name: PodTolerationRestriction, path: tolerations.yaml}\n"
    )
    async with serving(tmp_path, "pods", enable_admission_plugins=OFF, admission_control_config_file=file) as api:
        made = (await api.ok("POST", PODS, pod()))["spec"]
        assert made["nodeSelector"] == {"pool": "shared"}
        assert [one["key"] for one in made["tolerations"]][-1] == "own"
        await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "t"}})
        refused = await api("POST", f"{CORE}/namespaces/t/pods", pod())
        assert "labels conflict with its namespace whitelist" in refused.json()["message"]
        annotations = {"scheduler.alpha.kubernetes.io/node-selector": ""}
        merge = {"Content-Type": "application/merge-patch+json"}
        await api.ok("PATCH", f"{CORE}/namespaces/t", {"metadata": {"annotations": annotations}}, headers=merge)
        await api.ok("POST", f"{CORE}/namespaces/t/pods", pod(nodeSelector={"disk": "ssd"}))
        refused = await api("POST", PODS, pod(tolerations=[{"key": "other", "operator": "Exists"}]))
        assert (refused.status_code, refused.json()["message"]) == (
            500,
            "pod tolerations (possibly merged with namespace default tolerations) conflict with its cluster whitelist",
        )


async def test_clusters_without_nodes_resize_pods(tmp_path: Path) -> None:
    """There is nothing to compare with; another cluster's nodes do not count."""
    async with serving(tmp_path, "pods") as api:
        container = {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}
        await api.ok("POST", PODS, pod(nodeName="n", containers=[container]))
        change = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "2"}}}]}}
        headers = {"Content-Type": "application/strategic-merge-patch+json"}
        resized = await api("PATCH", f"{PODS}/p/resize", change, headers=headers)
        assert resized.json()["spec"]["containers"][0]["resources"]["requests"] == {"cpu": "2"}


@pytest.mark.parametrize("content", [{"podNodeSelectorPluginConfig": "a=b"}, {"podNodeSelectorPluginConfig": {"t": "a"}}, [], "x"])
def test_faulty_selectors(content: Any) -> None:
    """The server does not start."""
    with pytest.raises(OptionsError, match="file: "):
        parse_selectors(Document("file", content))


def test_no_selectors() -> None:
    """An empty file configures nothing."""
    assert parse_selectors(None) == parse_selectors(Document("file", None)) == parse_selectors(Document("file", {})) == {}


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"default": [{"key": "a b", "operator": "Exists"}]}, "podtolerationrestriction.default[0].key"),
        ({"whitelist": [{"key": "a", "operator": "Is"}]}, "podtolerationrestriction.whitelist[0].operator"),
        ({"whitelist": [None]}, "operator must be Exists when `key` is empty"),
        ({"whitelist": {}}, "not a list"),
        ({"default": [{"key": 1}]}, "not a string"),
    ],
)
def test_faulty_tolerations(fields: dict[str, Any], problem: str) -> None:
    """The server does not start."""
    kind = {"apiVersion": "podtolerationrestriction.admission.k8s.io/v1alpha1", "kind": "Configuration"}
    with pytest.raises(OptionsError) as raised:
        parse_tolerations(Document("file", {**kind, **fields}))
    assert problem in str(raised.value)
