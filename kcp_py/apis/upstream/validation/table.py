"""Which rules hold for which kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import islice
from typing import Any, Final, NamedTuple

from kcp_py.apimachinery.errors import MAX_CAUSES
from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apis.upstream.validation import (
    apiservices,
    autoscaling,
    batch,
    claims,
    endpoints,
    flowschemas,
    jobstatus,
    migrations,
    networking,
    nodes,
    persistentvolumes,
    pods,
    priorityclasses,
    prioritylevels,
    services,
    statuses,
    storage,
    workloads,
)
from kcp_py.apis.upstream.validation.fields import Object, Problems
from kcp_py.apis.upstream.validation.podspec import template_problems


class Validation(NamedTuple):
    """The rules of a kind in one version."""

    create: Callable[[Object], Problems]
    """The problems of a new object."""
    update: Callable[[Object, Object], Problems] | None = None
    """The problems of a changed object, given the stored one; None: those of a new object."""
    status: Callable[[Object, Object], Problems] | None = None
    """The problems of a status that is written, given the stored object; None: every status of the type is taken."""

    def status_problems(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        """The problems of an object whose status is to be stored."""
        return _first(self.status(obj, old)) if self.status is not None else []

    def problems(self, obj: dict[str, Any], old: dict[str, Any] | None) -> list[FieldError]:
        """The problems of an object that is to be stored. Those of a specification that an update does not change are not looked for."""
        if old is None:
            return _first(self.create(obj))
        if self.update is not None:
            return _first(self.update(obj, old))
        return _first(self.create(obj)) if _content(obj) != _content(old) else []


def _first(problems: Problems) -> list[FieldError]:
    """As many problems as are reported, and one more. The others are not looked for."""
    return list(islice(problems, MAX_CAUSES + 1))


def _content(obj: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in obj.items() if key not in {"apiVersion", "kind", "metadata", "status"}}


def _pod_template(obj: Object) -> Problems:
    return template_problems(obj.get("template") or {}, "template")


VALIDATIONS: Final[Mapping[str, Validation]] = {
    "io.k8s.api.apps.v1.DaemonSet": Validation(
        workloads.daemon_set_problems, workloads.changed_daemon_set_problems, status=statuses.daemon_set_status
    ),
    "io.k8s.api.apps.v1.Deployment": Validation(workloads.deployment_problems, status=statuses.deployment_status),
    "io.k8s.api.apps.v1.ReplicaSet": Validation(workloads.replica_set_problems, status=statuses.replica_set_status),
    "io.k8s.api.apps.v1.StatefulSet": Validation(
        workloads.stateful_set_problems, workloads.changed_stateful_set_problems, status=statuses.stateful_set_status
    ),
    "io.k8s.api.autoscaling.v1.HorizontalPodAutoscaler": Validation(
        autoscaling.old_autoscaler_problems, autoscaling.old_autoscaler_problems, status=autoscaling.autoscaler_status_problems
    ),
    "io.k8s.api.autoscaling.v2.HorizontalPodAutoscaler": Validation(
        autoscaling.autoscaler_problems, autoscaling.autoscaler_problems, status=autoscaling.autoscaler_status_problems
    ),
    "io.k8s.api.batch.v1.CronJob": Validation(batch.cron_job_problems, batch.changed_cron_job_problems),
    "io.k8s.api.batch.v1.Job": Validation(batch.job_problems, batch.changed_job_problems, status=jobstatus.job_status_problems),
    "io.k8s.api.core.v1.Endpoints": Validation(endpoints.endpoints_problems, endpoints.changed_endpoints_problems),
    "io.k8s.api.core.v1.Node": Validation(nodes.node_problems, nodes.changed_node_problems, status=nodes.changed_node_problems),
    "io.k8s.api.core.v1.PersistentVolume": Validation(persistentvolumes.volume_problems, persistentvolumes.changed_volume_problems),
    "io.k8s.api.core.v1.PersistentVolumeClaim": Validation(
        claims.claim_problems, claims.changed_claim_problems, status=claims.claim_status_problems
    ),
    "io.k8s.api.core.v1.Pod": Validation(pods.pod_problems, pods.changed_pod_problems),
    "io.k8s.api.core.v1.PodTemplate": Validation(_pod_template),
    "io.k8s.api.core.v1.ReplicationController": Validation(workloads.replication_controller_problems, status=statuses.replica_set_status),
    "io.k8s.api.core.v1.Service": Validation(
        services.service_problems, services.changed_service_problems, status=statuses.service_status_problems
    ),
    "io.k8s.api.discovery.v1.EndpointSlice": Validation(endpoints.slice_problems, endpoints.changed_slice_problems),
    "io.k8s.api.flowcontrol.v1.FlowSchema": Validation(flowschemas.flow_schema_problems, status=flowschemas.condition_types_problems),
    "io.k8s.api.flowcontrol.v1.PriorityLevelConfiguration": Validation(
        prioritylevels.priority_level_problems, status=flowschemas.condition_types_problems
    ),
    "io.k8s.api.networking.v1.IPAddress": Validation(networking.ip_address_problems, networking.changed_ip_address_problems),
    "io.k8s.api.networking.v1.Ingress": Validation(
        networking.ingress_problems, networking.changed_ingress_problems, status=networking.ingress_status_problems
    ),
    "io.k8s.api.networking.v1.IngressClass": Validation(networking.ingress_class_problems, networking.changed_ingress_class_problems),
    "io.k8s.api.networking.v1.NetworkPolicy": Validation(networking.network_policy_problems, networking.network_policy_problems),
    "io.k8s.api.networking.v1.ServiceCIDR": Validation(networking.service_cidr_problems, networking.changed_service_cidr_problems),
    "io.k8s.api.node.v1.RuntimeClass": Validation(nodes.runtime_class_problems, nodes.changed_runtime_class_problems),
    "io.k8s.api.policy.v1.PodDisruptionBudget": Validation(autoscaling.budget_problems, status=statuses.budget_status_problems),
    "io.k8s.api.scheduling.v1.PriorityClass": Validation(
        priorityclasses.priority_class_problems, priorityclasses.changed_priority_class_problems
    ),
    "io.k8s.api.storage.v1.CSIDriver": Validation(storage.driver_problems, storage.changed_driver_problems),
    "io.k8s.api.storage.v1.CSINode": Validation(storage.node_problems, storage.changed_node_problems),
    "io.k8s.api.storage.v1.CSIStorageCapacity": Validation(storage.capacity_problems, storage.changed_capacity_problems),
    "io.k8s.api.storage.v1.StorageClass": Validation(storage.storage_class_problems, storage.changed_storage_class_problems),
    "io.k8s.api.storage.v1.VolumeAttachment": Validation(
        storage.attachment_problems, storage.changed_attachment_problems, status=storage.attachment_status_problems
    ),
    "io.k8s.api.storage.v1.VolumeAttributesClass": Validation(storage.attributes_class_problems, storage.changed_attributes_class_problems),
    "io.k8s.api.storagemigration.v1.StorageVersionMigration": Validation(
        migrations.migration_problems, migrations.changed_migration_problems, status=migrations.migration_status_problems
    ),
    "io.k8s.kube-aggregator.pkg.apis.apiregistration.v1.APIService": Validation(
        apiservices.api_service_problems, apiservices.changed_api_service_problems, status=apiservices.api_service_status_problems
    ),
}
"""By the name of the OpenAPI model. Of all other kinds, the schema alone is checked."""
