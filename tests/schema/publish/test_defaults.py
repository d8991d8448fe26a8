"""Defaults that v3 publishes of built-in models: those of upstream's generated documents, and no others."""

from __future__ import annotations

from typing import Any

import pytest

from kcp_py.bootstrap.upstream_kinds import upstream_models
from kcp_py.schema.publish.defaults import with_published_defaults

CORE = "io.k8s.api.core.v1."
META = "io.k8s.apimachinery.pkg.apis.meta.v1."


def defaults(name: str) -> dict[str, Any]:
    """Field -> default of a model."""
    published = with_published_defaults(name, upstream_models()[name])
    return {field: schema["default"] for field, schema in published["properties"].items() if "default" in schema}


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        # Neither pointers, times, lists nor maps have any; what the server fills in by code is not published.
        (META + "ObjectMeta", {}),
        ("io.k8s.api.apps.v1.DeploymentSpec", {"selector": None, "strategy": {}, "template": {}}),
        ("io.k8s.api.apps.v1.Deployment", {"metadata": {}, "spec": {}, "status": {}}),
        (CORE + "ConfigMap", {"metadata": {}}),
        (CORE + "Container", {"name": "", "resources": {}}),
        (CORE + "ServicePort", {"port": 0, "protocol": "TCP"}),
        # Of its embedded struct.
        (CORE + "Volume", {"name": ""}),
        (CORE + "ConfigMapVolumeSource", {"name": ""}),
        (CORE + "LimitRangeItem", {"type": ""}),
        (
            CORE + "AzureDiskVolumeSource",
            {"cachingMode": "ReadWrite", "fsType": "ext4", "kind": "Shared", "readOnly": False, "diskName": "", "diskURI": ""},
        ),
        ("io.k8s.api.autoscaling.v1.ScaleSpec", {"replicas": 0}),
    ],
)
def test_defaults_are_upstreams(name: str, wanted: dict[str, Any]) -> None:
    """Zero values of fields that are not pointers, and the defaults of markers."""
    assert defaults(name) == {field: value for field, value in wanted.items() if value is not None}


def test_references_with_a_default_are_in_a_list() -> None:
    """Keywords next to a reference do not count."""
    published = with_published_defaults(CORE + "PodTemplate", {"properties": {"template": {"$ref": "#/x", "description": "d"}}})
    assert published["properties"]["template"] == {"allOf": [{"$ref": "#/x"}], "description": "d", "default": {}}


def test_other_models_keep_what_they_have() -> None:
    """Kinds outside of Kubernetes have defaults of their own."""
    schema = {"properties": {"a": {"type": "string", "default": "b"}}}
    assert with_published_defaults("io.kcp.core.v1alpha1.LogicalCluster", schema) is schema
