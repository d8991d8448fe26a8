"""Functions of admission that take objects of a class."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Annotated, Any, NamedTuple

import pytest
from pydantic import BaseModel, Field

from kcp_py import (
    Attributes,
    ControlPlane,
    GroupVersionKind,
    GroupVersionResource,
    ObjectMeta,
    Options,
    ResourceKind,
    WriteRequest,
    errors,
    fielderrors,
    parse_name,
    resource,
)
from kcp_py.client.models import encode

pytestmark = pytest.mark.anyio

TEAM = parse_name("team-a")
SAILS = GroupVersionResource("example.com", "v2", "sails")
OLD_SAILS = GroupVersionResource("example.com", "v1", "sails")
MAPS = GroupVersionResource("", "v1", "configmaps")


@dataclass
class SailSpec:
    """Of version v2."""

    square_metres: int
    drying_time: timedelta = timedelta(hours=1)
    marks: list[bytes] = field(default_factory=list)


@resource(group="example.com", version="v2", camel_case=True)
class Sail(BaseModel):
    """A sail."""

    metadata: ObjectMeta
    spec: SailSpec


@resource(version="v1", hub=Sail, camel_case=False)
class SailV1(BaseModel):
    """A sail with its size as a text."""

    metadata: ObjectMeta
    size: Annotated[str, Field(pattern="^[0-9]+ m2$")]
    drying: timedelta = timedelta(hours=1)

    def convert_to(self) -> Sail:
        return Sail(metadata=self.metadata, spec=SailSpec(int(self.size.removesuffix(" m2")), self.drying))

    @classmethod
    def convert_from(cls, hub: Sail) -> SailV1:
        return cls(metadata=hub.metadata, size=f"{hub.spec.square_metres} m2", drying=hub.spec.drying_time)


class ConfigMap(BaseModel):
    """A kind that the server has built in."""

    metadata: ObjectMeta
    data: dict[str, str] = {}
    binary: Annotated[dict[str, bytes] | None, Field(alias="binaryData")] = None


ConfigMap.__resource__ = ResourceKind("", "v1", "configmaps", "ConfigMap", namespaced=True)  # type: ignore[attr-defined]


@resource(group="example.com", version="v1", scale={"specReplicasPath": ".spec.size", "statusReplicasPath": ".status.size"})
class Fleet(BaseModel):
    """A resource with subresources."""

    spec: dict[str, Any]
    status: dict[str, Any] | None = None


class Seen(NamedTuple):
    """What a function was given."""

    sail: Sail
    old: Sail | None
    operation: str


def control_plane() -> ControlPlane:
    return ControlPlane(Options(storage="memory"), apis=[Sail], batteries=["namespaces", "core"])


def sail(name: str = "one", **spec: Any) -> dict[str, Any]:
    body = {"apiVersion": "example.com/v2", "kind": "Sail", "metadata": {"name": name, "namespace": "default"}}
    return {**body, "spec": {"squareMetres": 10, **spec}}


def old_sail(name: str = "one", size: str = "10 m2") -> dict[str, Any]:
    body = {"apiVersion": "example.com/v1", "kind": "Sail", "metadata": {"name": name, "namespace": "default"}}
    return {**body, "size": size}


async def test_a_mutating_function_changes_the_object() -> None:
    """In place or by its result, with no resource in the decorator. What the class does not know, and texts that stay, are kept."""
    cp = control_plane()

    @cp.mutating()
    def larger(sail: Sail) -> None:
        sail.spec.square_metres += 1
        sail.metadata.labels["larger"] = "yes"

    @cp.mutating(operations=["CREATE"])
    async def marked(sail: Sail) -> Sail:
        return sail.model_copy(update={"spec": SailSpec(sail.spec.square_metres, sail.spec.drying_time, [b"hi"])})

    async with cp:
        made = await cp.client.create(TEAM, SAILS, sail(dryingTime="90m"))
        assert made["spec"] == {"squareMetres": 11, "dryingTime": "90m", "marks": ["aGk="]}
        assert made["metadata"]["labels"] == {"larger": "yes"}
        made["metadata"]["labels"]["other"] = "kept"
        changed = await cp.client.update(TEAM, SAILS, made)
        assert (changed["spec"]["squareMetres"], changed["metadata"]["labels"]) == (12, {"larger": "yes", "other": "kept"})
        assert (await cp.client.create(TEAM, MAPS, {"metadata": {"name": "one", "namespace": "default"}})).get("data") is None


@pytest.mark.parametrize("kind", ["plain", "coroutine", "thread"])
async def test_a_validating_function_sees_objects_of_the_class(kind: str) -> None:
    """The object, the one before, and the attributes; of a deletion the object that goes. A change of the object has no effect."""
    cp = control_plane()
    seen: list[Seen] = []

    def judge(attributes: Attributes, sail: Sail, old: Sail | None = None) -> list[fielderrors.FieldError] | str | None:
        seen.append(Seen(sail, old, attributes.operation))
        sail.spec.square_metres = 99
        if attributes.operation == "DELETE":
            return "it is wet" if sail.spec.drying_time > timedelta(hours=2) else None
        small = old is not None and sail.spec.drying_time < old.spec.drying_time
        return [fielderrors.invalid("spec.dryingTime", "", "a sail dries no faster")] if small else None

    async def later(sail: Sail, old: Sail | None, attributes: Attributes) -> Any:
        return judge(attributes, sail, old)

    decorate = cp.validating(Sail, operations=["CREATE", "UPDATE", "DELETE"], thread=kind == "thread", name="judge")
    decorate(later if kind == "coroutine" else judge)
    async with cp:
        made = await cp.client.create(TEAM, SAILS, sail(dryingTime="3h"))
        assert made["spec"]["squareMetres"] == 10
        with pytest.raises(errors.StatusError) as refused:
            await cp.client.update(TEAM, SAILS, {**made, "spec": {**made["spec"], "dryingTime": "1h"}})
        assert (refused.value.code, "a sail dries no faster" in refused.value.message) == (422, True)
        with pytest.raises(errors.StatusError) as kept:
            await cp.client.delete(TEAM, SAILS, "default", "one")
        assert (kept.value.code, "it is wet" in kept.value.message) == (403, True)
    assert [(one.operation, one.old is None) for one in seen] == [("CREATE", True), ("UPDATE", False), ("DELETE", False)]
    assert all(isinstance(one.sail, Sail) for one in seen)


async def test_writes_in_other_versions_are_converted() -> None:
    """By the functions of the classes, there and back; a field that the conversion does not know is as in a read of that version."""
    cp = control_plane()
    seen: list[Any] = []

    @cp.mutating(operations=["CREATE"])
    def larger(sail: Sail, old: Sail | None) -> None:
        assert old is None
        sail.spec.square_metres += 1

    @cp.validating(SailV1)
    def note(sail) -> None:
        seen.append((type(sail), sail.size))

    async with cp:
        made = await cp.client.create(TEAM, OLD_SAILS, old_sail())
        assert made["size"] == "11 m2"
        await cp.client.create(TEAM, SAILS, sail("two"))
        stored = await cp.client.get(TEAM, SAILS, "default", "one")
        assert stored["spec"]["squareMetres"] == 11
    assert seen == [(SailV1, "11 m2"), (SailV1, "11 m2")]


async def test_objects_that_do_not_fit_are_refused() -> None:
    """With 422 and the field, in the words of the schema: no function is passed over."""
    cp = control_plane()

    @cp.mutating()
    def touch(sail: Sail) -> None:
        sail.spec.square_metres = 1

    async with cp:
        for spec, message in (
            ({"squareMetres": "x"}, "spec.squareMetres in body must be of type integer"),
            ({"dryingTime": "soon"}, 'spec.dryingTime: Invalid value: "soon": must be a duration such as'),
            ({"marks": ["a"]}, "spec.marks[0] in body must be of type byte"),
        ):
            with pytest.raises(errors.StatusError) as refused:
                await cp.client.create(TEAM, SAILS, sail(**spec))
            assert refused.value.code == 422
            assert message in refused.value.message


async def test_built_in_kinds() -> None:
    """A class with a `ResourceKind` stands for a kind that the server has."""
    cp = control_plane()

    @cp.mutating()
    def mark(config: ConfigMap) -> None:
        config.binary = {"mark": b"\xff"}

    async with cp:
        made = await cp.client.create(TEAM, MAPS, {"metadata": {"name": "one", "namespace": "default"}, "data": {"a": "b"}})
        assert (made["data"], made["binaryData"]) == ({"a": "b"}, {"mark": "/w=="})
        await cp.client.create(TEAM, SAILS, sail())


async def test_subresources() -> None:
    """A rule may name some of the resource. Those of the object itself have the object, and a body of another kind is a failure."""
    cp = ControlPlane(Options(storage="memory"), apis=[Fleet], batteries=["namespaces", "core"])
    fleets, seen = GroupVersionResource("example.com", "v1", "fleets"), []

    @cp.subresource("fleets.example.com", "orders", kind=GroupVersionKind("example.com", "v1", "Order"))
    async def give(request: WriteRequest, obj: Any, body: Any) -> Any:
        return {**body, "user": request.context.user.name, "of": obj["metadata"]["name"]}

    @cp.validating("fleets.example.com/status", "fleets.example.com/scale", "fleets.example.com/orders", operations=["CREATE", "UPDATE"])
    def note(fleet: Fleet) -> None:
        seen.append((fleet.spec, fleet.status))

    async with cp:
        made = await cp.client.create(TEAM, fleets, {"metadata": {"name": "one", "namespace": "default"}, "spec": {"size": 1}})
        await cp.client.update(TEAM, fleets, {**made, "status": {"size": 1}}, subresource="status")
        scale = await cp.client.get(TEAM, fleets, "default", "one", subresource="scale")
        await cp.client.update(TEAM, fleets, {**scale, "spec": {"replicas": 2}}, subresource="scale")
        order = {"apiVersion": "example.com/v1", "kind": "Order", "metadata": {"name": "one", "namespace": "default"}}
        with pytest.raises(TypeError, match="note takes Fleet, and the object has the kind Order"):
            await cp.client.create(TEAM, fleets, order, subresource="orders")
    assert seen == [({"size": 1}, {"size": 1}), ({"size": 2}, {"size": 1})]


async def test_results_of_another_class_are_failures() -> None:
    """The message names the function, and the object is not stored."""
    cp = control_plane()
    cp.mutating(Sail)(in_json)
    async with cp:
        with pytest.raises(TypeError, match="in_json returned dict instead of None or Sail"):
            await cp.client.create(TEAM, SAILS, sail())
        assert (await cp.client.list(TEAM, SAILS)).items == []


def in_json(sail: Sail) -> dict[str, Any]:
    return encode(sail)


def two_classes(sail: Sail, other: ConfigMap) -> None: ...
def unfilled(sail: Sail, more: int) -> None: ...
def no_object(attributes: Attributes, old: Sail) -> None: ...
def by_position(sail: Sail, /) -> None: ...
def of_a_sail(sail: Sail) -> None: ...
def unknown(sail: Missing) -> None: ...  # type: ignore[name-defined] # noqa: F821 - as a name for type checkers only
def plain(attributes: Missing.Attributes) -> None: ...  # type: ignore[name-defined] # noqa: F821 - as above


@pytest.mark.parametrize(
    ("resources", "operations", "function", "message"),
    [
        ((), ["CREATE"], two_classes, "takes Sail and ConfigMap: a write has objects of one class"),
        ((), ["CREATE"], unfilled, "nothing to give for the parameter more; there are the object, old and attributes"),
        ((), ["CREATE"], no_object, "no parameter takes the Sail"),
        ((), ["CREATE"], by_position, "the parameter sail must be usable as a keyword"),
        (("configmaps", "sails.example.com"), ["CREATE"], of_a_sail, "takes Sail, which is not the object of configmaps"),
        (("*",), ["CREATE"], of_a_sail, "takes Sail, which is not the object of *"),
        ((), "*", of_a_sail, "takes Sail, which CONNECT does not have: take Attributes"),
        ((), ["CREATE"], unknown, "the annotation Missing is not known at run time (name 'Missing' is not defined)"),
        ((ConfigMap,), ["CREATE"], of_a_sail, "takes ConfigMap and Sail: a write has objects of one class"),
        ((Sail, ConfigMap), ["CREATE"], of_a_sail, "a rule has names of resources, or one class"),
        ((Sail, "configmaps"), ["CREATE"], of_a_sail, "a rule has names of resources, or one class"),
        ((SailSpec,), ["CREATE"], of_a_sail, "describes no resource"),
    ],
)
def test_functions_that_cannot_be_called(resources: tuple[Any, ...], operations: Any, function: Callable[..., Any], message: str) -> None:
    """The decorator says so, and names the function."""
    cp = control_plane()
    with pytest.raises(TypeError) as raised:
        cp.validating(*resources, operations=operations)(function)
    assert message in str(raised.value)


def test_annotations_for_type_checkers_only() -> None:
    """A function that takes `Attributes` needs no annotation at run time; one whose class the decorator names neither."""
    cp = control_plane()
    assert cp.validating("configmaps")(plain) is plain
    assert cp.validating(Sail)(unknown) is unknown
