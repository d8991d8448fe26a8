"""What pods ask for, as upstream's quota sees it."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.registry.quota.podresources import is_best_effort, missing_amounts, pod_usage


def container(
    name: str = "c", *, requests: dict[str, Any] | None = None, limits: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    return {"name": name, "resources": {"requests": requests or {}, "limits": limits or {}}, **more}


def pod(*containers: dict[str, Any], init: tuple[dict[str, Any], ...] = (), phase: str = "", **spec: Any) -> dict[str, Any]:
    return {"spec": {"containers": list(containers), "initContainers": list(init), **spec}, "status": {"phase": phase}}


def usage(obj: dict[str, Any]) -> dict[str, str]:
    return {name: str(amount) for name, amount in pod_usage(obj).items()}


def test_requests_and_limits_are_summed():
    """Under each of the names that quotas have for them."""
    first = container("a", requests={"cpu": "100m", "memory": "1Gi", "ephemeral-storage": "1k"}, limits={"cpu": "1"})
    second = container(
        "b", requests={"cpu": 0.2, "hugepages-2Mi": "2Mi", "nvidia.com/gpu": 1}, limits={"memory": "2Gi", "ephemeral-storage": "2k"}
    )
    assert usage(pod(first, second)) == {
        "count/pods": "1",
        "pods": "1",
        "cpu": "300m",
        "requests.cpu": "300m",
        "limits.cpu": "1",
        "memory": "1Gi",
        "requests.memory": "1Gi",
        "limits.memory": "2Gi",
        "ephemeral-storage": "1k",
        "requests.ephemeral-storage": "1k",
        "limits.ephemeral-storage": "2k",
        "hugepages-2Mi": "2Mi",
        "requests.hugepages-2Mi": "2Mi",
        "requests.nvidia.com/gpu": "1",
    }


@pytest.mark.parametrize("phase", ["Succeeded", "Failed"])
def test_pods_that_ended_only_count_as_objects(phase):
    """They use nothing any more."""
    assert usage(pod(container(requests={"cpu": "1"}), phase=phase)) == {"count/pods": "1"}


def test_init_containers_run_one_after_the_other():
    """The largest counts where it is more than all that follows; sidecars run together with all later ones."""
    large = container("large", requests={"cpu": "3"})
    side = container("side", requests={"cpu": "500m"}, restartPolicy="Always")
    main = container("main", requests={"cpu": "1"})
    assert usage(pod(main, init=(large,)))["cpu"] == "3"
    assert usage(pod(main, init=(side, large)))["cpu"] == "3500m"
    assert usage(pod(main, init=(large, side)))["cpu"] == "3"
    assert usage(pod(main, init=(side,)))["cpu"] == "1500m"


def test_overhead_and_resources_of_the_pod():
    """Resources of the whole pod replace the sum; overhead adds to it, and to limits where there are any."""
    main = container(requests={"cpu": "1", "nvidia.com/gpu": "1"}, limits={"memory": "1Gi"})
    found = usage(pod(main, overhead={"cpu": "250m", "memory": "1Gi"}))
    assert (found["cpu"], found["memory"], found["limits.memory"], "limits.cpu" in found) == ("1250m", "1Gi", "2Gi", False)
    found = usage(pod(main, resources={"requests": {"cpu": "2", "nvidia.com/gpu": "9"}}))
    assert (found["cpu"], found["requests.nvidia.com/gpu"]) == ("2", "1")


def test_every_container_states_what_a_quota_limits():
    """Processor time and memory only, in upstream's words, unless the pod states them as a whole."""
    obj = pod(container("b", requests={"cpu": "1"}), container("a"), init=(container("i", limits={"memory": "1"}),))
    assert (
        missing_amounts(["cpu", "limits.memory", "pods", "ephemeral-storage"], obj) == "must specify cpu for: a,i; limits.memory for: a,b"
    )
    assert missing_amounts(["pods", "requests.nvidia.com/gpu"], obj) == ""
    assert missing_amounts(["cpu"], pod(container(), resources={"limits": {"memory": "1"}})) == ""


@pytest.mark.parametrize(
    ("obj", "wanted"),
    [
        pytest.param(pod(container()), True, id="nothing"),
        pytest.param(pod(container(requests={"nvidia.com/gpu": "1"})), True, id="others do not count"),
        pytest.param(pod(container(requests={"cpu": "0"})), True, id="zero"),
        pytest.param(pod(container(), init=(container(limits={"memory": "1"}),)), False, id="of an init container"),
        pytest.param(pod(container(), resources={"requests": {"cpu": "1"}}), False, id="of the pod"),
    ],
)
def test_best_effort(obj, wanted):
    """Pods that ask for neither processor time nor memory."""
    assert is_best_effort(obj) is wanted


def test_values_that_are_no_quantities_count_for_nothing():
    """Pods are served by definitions of tenants, too, which may allow anything."""
    assert usage({"spec": {"containers": [{"resources": {"requests": {"cpu": "x", "memory": "1"}}}]}})["memory"] == "1"
    assert usage({"spec": None, "status": 5}) == {"count/pods": "1", "pods": "1"}
