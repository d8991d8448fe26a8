"""Controller `workload-simulation-controller`: workloads become ready without anything that runs them.

Belongs here: the status that Kubernetes' controllers, the kubelet and cloud providers would write, as pure functions of an object, and the
controller that writes it after a delay. Does not belong here: anything that a server without `--simulate` imports.
"""

from kcp_py.controllers.simulation.simulator import WorkloadSimulator

__all__ = ["WorkloadSimulator"]
