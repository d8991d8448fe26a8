"""Schemas of upstream kinds without references."""

from __future__ import annotations

from kcp_py.apis.upstream.schemas import decoding_schema, structural_schema
from kcp_py.bootstrap.upstream_kinds import upstream_kinds
from kcp_py.schema.compilation import compile_schema

POD = "io.k8s.api.core.v1.Pod"


def container(schema):
    return schema["properties"]["spec"]["properties"]["containers"]["items"]["properties"]


def test_values_of_more_than_one_type():
    """Quantities are numbers or strings, of which a CRD can only say integer or string; a decoder makes strings of them."""
    claims = structural_schema("io.k8s.api.core.v1.PersistentVolumeClaim")["properties"]["spec"]["properties"]
    assert claims["resources"]["properties"]["requests"]["additionalProperties"] == {"x-kubernetes-int-or-string": True}
    port = container(structural_schema(POD))["livenessProbe"]["properties"]["httpGet"]["properties"]["port"]
    assert port == {"x-kubernetes-int-or-string": True}
    limits = container(decoding_schema(POD))["resources"]["properties"]["limits"]
    assert limits["additionalProperties"] == {"type": "string"}


def test_lists_are_unique_where_upstream_checks_it():
    """Names of containers are; environment variables may repeat, whatever the type of their list promises."""
    decoding = decoding_schema(POD)
    assert decoding["properties"]["spec"]["properties"]["containers"]["x-kubernetes-list-map-keys"] == ["name"]
    assert "x-kubernetes-list-type" not in container(decoding)["env"]
    assert container(structural_schema(POD))["env"]["x-kubernetes-list-type"] == "map"


def test_every_schema_compiles():
    """Those of all kinds do, those too that refer to themselves."""
    for kind in upstream_kinds().values():
        compile_schema(decoding_schema(kind.model), custom=False)
    templates = structural_schema("io.k8s.api.scheduling.v1beta1.Workload")["properties"]["spec"]["properties"]
    inner = templates["compositePodGroupTemplates"]["items"]["properties"]["compositePodGroupTemplates"]
    assert inner["items"] == {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
