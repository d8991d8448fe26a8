"""A kind as a Pydantic model and as a dataclass, and its CRD."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from kcp_py.apimachinery.kinds import GroupVersionResource
from kcp_py.testing.client_objects import widget_crd

SHIPS = GroupVersionResource("fleet.example.com", "v1", "ships")
RESOURCE = SimpleNamespace(group=SHIPS.group, version=SHIPS.version, plural=SHIPS.resource, kind="Ship", namespaced=True)


class Meta(BaseModel):
    """Metadata."""

    model_config = ConfigDict(extra="allow")

    name: str
    namespace: str | None = None
    labels: dict[str, str] | None = None
    resourceVersion: str | None = None  # noqa: N815


class ShipSpec(BaseModel):
    """A specification."""

    home_port: str = Field(alias="homePort")
    crew: int = 10
    cargo: list[dict[str, Any]] | None = None


class Ship(BaseModel):
    """A ship."""

    __resource__ = RESOURCE

    metadata: Meta
    spec: ShipSpec
    status: dict[str, Any] | None = None


@dataclass
class RaftSpec:
    """A specification."""

    home_port: Annotated[str, Field(alias="homePort")]
    crew: int = 10


@dataclass
class Raft:
    """A ship as a dataclass."""

    __resource__ = RESOURCE

    metadata: dict[str, Any]
    spec: RaftSpec
    status: dict[str, Any] = field(default_factory=dict)


def ship_crd() -> dict[str, Any]:
    """Of the kind, which keeps unknown fields of its spec."""
    crd = widget_crd()
    spec = crd["spec"]
    crd["metadata"]["name"] = "ships.fleet.example.com"
    spec["group"] = "fleet.example.com"
    spec["names"] = {"plural": "ships", "singular": "ship", "kind": "Ship", "listKind": "ShipList"}
    version = spec["versions"][0]
    del version["selectableFields"]
    version["schema"]["openAPIV3Schema"]["properties"] = {
        "spec": {"type": "object", "x-kubernetes-preserve-unknown-fields": True, "properties": {"crew": {"type": "integer"}}},
        "status": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
    }
    version["subresources"]["scale"] = {"specReplicasPath": ".spec.crew", "statusReplicasPath": ".status.crew"}
    return crd
