"""`ObjectMeta`, `OwnerReference` and `Condition` as Pydantic models. Fields that they do not name are kept."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, SerializerFunctionWrapHandler, model_serializer
from pydantic.alias_generators import to_camel

from kcp_py.library.types.markers import Schema


class _Model(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, extra="allow")


class OwnerReference(_Model):
    """The object that another one belongs to."""

    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(_Model):
    """The metadata of an object."""

    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    creation_timestamp: str | None = None
    deletion_timestamp: str | None = None
    deletion_grace_period_seconds: int | None = None
    finalizers: list[str] = Field(default_factory=list)
    owner_references: list[OwnerReference] = Field(default_factory=list)
    managed_fields: list[dict[str, Any]] | None = None

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        """An empty value is one that is not there, as everywhere in metadata."""
        return {name: value for name, value in handler(self).items() if value or value is False}


class Condition(BaseModel):
    """One aspect of the state of an object."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)

    type: Annotated[str, Schema(max_length=316)]
    """The aspect, in CamelCase; may begin with a domain and a slash."""
    status: Literal["True", "False", "Unknown"]
    """Whether it holds."""
    observed_generation: Annotated[int, Schema(format="int64", minimum=0)] | None = None
    """The generation of the object that was looked at."""
    last_transition_time: datetime
    """When the status last changed."""
    reason: Annotated[str, Field(min_length=1, max_length=1024, pattern=r"^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """The cause in one word, for programs."""
    message: Annotated[str, Field(max_length=32768)]
    """The cause, for people."""
