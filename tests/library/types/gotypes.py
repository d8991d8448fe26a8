"""The types of controllergen/*.go in Python: Pydantic models and dataclasses."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from enum import Enum
from typing import Annotated, Any, Literal

from pydantic import Base64Bytes, BaseModel, Field

from kcp_py import Column, Int32, Int64, IntOrString, ObjectMeta, Quantity, Rule, Schema, resource


class Phase(str, Enum):  # noqa: UP042 - the form that older programs have
    """Phase is where a Foo is in its life."""

    PENDING = "Pending"
    PROCESSING = "Processing"
    READY = "Ready"


class Port(BaseModel):
    """Port is one port."""

    name: str
    """Name of the port."""
    number: Annotated[Int32, Field(ge=1, le=65535)]
    target: IntOrString | None = Field(default=None, description="Target is a number or a name.")


@Rule("self.minimum <= self.replicas", message="fewer replicas than the minimum")
class FooSpec(BaseModel):
    """FooSpec is what a user asks for."""

    msg: str = Field(min_length=1, max_length=63, pattern="^[a-z]+$")
    """Msg is the text to show.
    It may have several lines, and it is long enough that a line of a hundred and twenty characters would be folded.
    """
    replicas: Int32 = 1
    """Replicas: how many."""
    minimum: Int64 = 0
    ratio: str | None = None
    ports: Annotated[list[Port], Schema(list_type="map", list_map_keys=["name"])] = []
    tags: Annotated[set[str], Field(max_length=8)] = set()
    args: Annotated[list[str], Schema(list_type="atomic")] = []
    labels: dict[str, str] = {}
    limits: dict[str, Quantity] = {}
    region: Annotated[str | None, Schema(immutable=True)] = None
    owner: str | None
    key: Base64Bytes | None = None
    begin: datetime | None = None
    every: str | None = None
    free: Annotated[int | Port | None, Schema(preserve_unknown_fields=True)] = None
    enabled: bool = True
    nested: dict[str, list[Port]] = {}
    selector: Port | None = None
    main: Port = Port(name="http", number=80)
    zone: Phase


class FooStatus(BaseModel):
    """FooStatus is the observed state."""

    phase: Phase | None = None
    observed_generation: Annotated[Int64 | None, Field(alias="observedGeneration")] = None
    replicas: Int32 | None = None


@resource(
    group="hello.zeng.dev",
    version="v1",
    short_names=["fo"],
    categories=["all", "hello"],
    columns=[".spec.msg", Column(".status.phase", description="Where it is.", priority=1)],
    selectable_fields=[".spec.msg"],
    scale={"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"},
)
class Foo(BaseModel):
    """Foo says hello."""

    metadata: ObjectMeta
    spec: FooSpec
    status: FooStatus | None = None


@dataclass
class Power:
    """Power supply: what it needs, and a sentence that is long enough to be folded by every writer."""

    volts: str = "230"


@resource(group="hello.zeng.dev", version="v1", scope="Cluster", deprecated="use Foo")
@dataclass(kw_only=True)
class Machine:
    """Machine has no namespace."""

    size: int
    cores: Annotated[Int32, Schema(minimum=0, exclusive_minimum=True, multiple_of=4)]
    sockets: Literal[1, 2, 4] | None = None
    notes: Annotated[dict[str, str], Schema(map_type="atomic", max_properties=4)] = field(default_factory=dict)
    template: Annotated[dict[str, Any] | None, Schema(embedded_resource=True, preserve_unknown_fields=True)] = None
    """Template is any object."""
    roles: Annotated[list[Annotated[str, Schema(min_length=2)]], Schema(min_items=1)]
    power: Power = field(default_factory=Power)
    answer: str = "yes"


@dataclass
class GadgetSpec:
    """GadgetSpec has the size."""

    size: Int64


@dataclass
class GadgetStatus:
    """GadgetStatus has nothing."""


@resource(group="hello.zeng.dev", version="v2", columns=[".metadata.creationTimestamp"])
@dataclass
class Gadget:
    """Gadget has a spec now."""

    spec: GadgetSpec
    status: GadgetStatus | None = None


@resource(version="v1", hub=Gadget)
@dataclass
class GadgetV1:
    """Gadget is older than Foo."""

    size: str | None = None
