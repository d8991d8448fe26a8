"""Kinds of Kubernetes that every cluster has."""

from __future__ import annotations

import pytest

from kcp_py.apis.upstream.resources import upstream_resources


def test_resources():
    """They are those of their definitions, stored where built-in kinds are."""
    pods, services = upstream_resources("/registry", ["pods", "services"])
    assert pods.keys.prefix == "/registry/core/pods/"
    assert (pods.typed, pods.upstream_model, pods.protobuf) == (True, "io.k8s.api.core.v1.Pod", True)
    assert list(services.subresources) == ["status"]
    assert [resource.version for resource in upstream_resources("/registry", ["resourceclaims"])] == ["v1", "v1beta2"]


def test_none():
    """Nothing is asked for by default."""
    assert upstream_resources("/registry", ()) == ()


def test_unknown_names():
    """Names that stand for nothing are refused."""
    with pytest.raises(ValueError, match="is not a kind of Kubernetes"):
        upstream_resources("/registry", ["widgets"])
