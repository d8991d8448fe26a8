"""Pods and claims are filled and judged by the LimitRanges of their namespace, as recorded from kube-apiserver 1.37.2."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcp_py.admission.limitranger import parse_limits, pod_problems, pod_total
from tests.admission.serving import CORE, pod, recorded, serving
from tests.server.handlers.conftest import Api

pytestmark = pytest.mark.anyio


async def limit(api: Api, namespace: str, limits: list[dict[str, Any]], name: str = "limits") -> None:
    """Make a namespace with a LimitRange."""
    await api("POST", f"{CORE}/namespaces", {"metadata": {"name": namespace}})
    await api.ok("POST", f"{CORE}/namespaces/{namespace}/limitranges", {"metadata": {"name": name}, "spec": {"limits": limits}})


async def test_pods_and_claims_are_answered_as_by_kube_apiserver(tmp_path: Path) -> None:
    """Defaults, the annotation about them, the class of the pod, and every refusal."""
    data = recorded("limitranger")
    async with serving(tmp_path, "pods", "persistentvolumeclaims") as api:
        for number, case in enumerate(data["cases"]):
            namespace = f"n{number}"
            await limit(api, namespace, data["ranges"][case["range"]])
            resource = "pods" if "containers" in case["object"]["spec"] else "persistentvolumeclaims"
            answer = await api("POST", f"{CORE}/namespaces/{namespace}/{resource}", case["object"])
            made = answer.json()
            assert (answer.status_code, made.get("message")) == (case["code"], case["answer"] if case["code"] == 403 else None)
            if answer.status_code == 201 and resource == "pods":
                spec = made["spec"]
                containers = [one["resources"] for one in (*spec["containers"], *spec.get("initContainers", ()))]
                annotations = {name: text for name, text in made["metadata"]["annotations"].items() if name != "kcp.io/cluster"}
                assert [annotations or None, containers, made["status"]["qosClass"]] == case["answer"]


async def test_a_limit_has_effect_from_the_answer_to_its_write_on(tmp_path: Path) -> None:
    """And none from the answer to its deletion on; other namespaces and clusters have nothing to do with it."""
    async with serving(tmp_path, "pods") as api:
        pods = f"{CORE}/namespaces/n/pods"
        await limit(api, "n", [{"type": "Container", "max": {"cpu": "1"}}])
        greedy = pod(containers=[{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}])
        for number in range(3):
            assert (await api("POST", pods, greedy)).status_code == 403
            path = f"{CORE}/namespaces/n/limitranges/limits"
            found = await api.ok("GET", path)
            await api.ok("PUT", path, {**found, "spec": {"limits": [{"type": "Container", "max": {"cpu": "2"}}]}})
            await api.ok("POST", pods, {**greedy, "metadata": {"name": f"p{number}"}})
            await api.ok("DELETE", path)
            await api.ok("POST", pods, {**greedy, "metadata": {"name": f"q{number}"}})
            await limit(api, "n", [{"type": "Container", "max": {"cpu": "1"}}])
        await api.ok("POST", f"{CORE}/namespaces/default/pods", greedy)
        await api.ok("POST", "/clusters/b/api/v1/namespaces", {"metadata": {"name": "n"}})
        await api.ok("POST", "/clusters/b/api/v1/namespaces/n/pods", greedy)


async def test_updates_of_pods_are_left_alone_and_those_of_claims_are_not(tmp_path: Path) -> None:
    """The resources of a pod do not change, those of a claim may."""
    async with serving(tmp_path, "pods", "persistentvolumeclaims") as api:
        await api.ok("POST", f"{CORE}/namespaces", {"metadata": {"name": "n"}})
        made = await api.ok("POST", f"{CORE}/namespaces/n/pods", pod())
        storage = {"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": "1Gi"}}}
        claim = await api.ok("POST", f"{CORE}/namespaces/n/persistentvolumeclaims", {"metadata": {"name": "c"}, "spec": storage})
        bounds = [{"type": "Container", "min": {"cpu": "1"}}, {"type": "PersistentVolumeClaim", "min": {"storage": "2Gi"}}]
        await limit(api, "n", bounds)
        await api.ok("PUT", f"{CORE}/namespaces/n/pods/p", {**made, "metadata": {**made["metadata"], "labels": {"a": "b"}}})
        refused = await api(
            "PUT", f"{CORE}/namespaces/n/persistentvolumeclaims/c", {**claim, "metadata": {**claim["metadata"], "labels": {"a": "b"}}}
        )
        assert refused.json()["message"] == (
            'persistentvolumeclaims "c" is forbidden: minimum storage usage per PersistentVolumeClaim is 2Gi, but request is 1Gi'
        )


def test_init_containers_count_by_the_largest_and_sidecars_always() -> None:
    """As the scheduler counts a pod, which values of the whole pod replace."""

    def container(cpu: str, **more: Any) -> dict[str, Any]:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    spec = {
        "containers": [container("100m"), container("200m")],
        "initContainers": [container("1"), container("50m", restartPolicy="Always"), container("400m")],
    }
    assert {name: str(amount) for name, amount in pod_total(spec, "requests").items()} == {"cpu": "1"}
    spec["initContainers"][0] = container("100m")
    assert str(pod_total(spec, "requests")["cpu"]) == "450m"
    whole = {**spec, "resources": {"requests": {"cpu": "2", "example.com/x": "1"}}}
    assert {name: str(amount) for name, amount in pod_total(whole, "requests").items()} == {"cpu": "2"}


def test_values_beyond_64_bits_are_compared_as_whole_numbers() -> None:
    """Thousandths of them would not fit."""
    limits = parse_limits({"spec": {"limits": [{"type": "Container", "max": {"memory": "9E"}}]}})
    small, large = ({"spec": {"containers": [{"resources": {"limits": {"memory": text}}}]}} for text in ("9E", "9000000000000000001"))
    assert not [*pod_problems(small, limits)]
    assert len([*pod_problems(large, limits)]) == 1
