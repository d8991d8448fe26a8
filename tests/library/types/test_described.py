"""The properties of a resource that follow from `resource` and from the class, and faults that the definition refuses."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict

from kcp_py import Column, ControlPlane, DefinitionError, Options, resource
from kcp_py.client.models import described as described_for_clients
from kcp_py.library.types.described import typed_resource
from kcp_py.library.types.resource import stored_resource


@dataclass
class Spec:
    """The specification."""

    size: int = 0


describe: Any = resource


def thing(**settings: Any) -> type:
    @describe(**{"group": "example.com", "version": "v1", **settings})
    @dataclass
    class Policy:
        """A policy."""

        spec: Spec

    return Policy


def test_names() -> None:
    """They follow from the class, or are given. The class stays the same, and clients know its resource."""
    cls = thing()
    found = typed_resource(cls)
    assert (found.kind, found.plural, found.namespaced, found.status) == ("Policy", "policies", True, False)
    assert described_for_clients(cls).api_version == "example.com/v1"
    given = thing(kind="Rule", plural="rulez", singular="rul", list_kind="Rules", scope="Cluster", categories=["all"], short_names=["r"])
    assert stored_resource(given).definition()["spec"]["names"] == {
        "kind": "Rule", "plural": "rulez", "singular": "rul", "listKind": "Rules", "categories": ["all"], "shortNames": ["r"],
    }  # fmt: skip
    assert stored_resource(given).definition()["spec"]["scope"] == "Cluster"


def test_hooks_are_found_without_reading_the_class_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each write asks for them. A method that is replaced later, and a field with the name of a hook, are taken for what they are."""

    @resource(group="example.com", version="v1")
    @dataclass
    class Ship:
        spec: Spec
        warnings: str = ""

        def default(self) -> None: ...

    found = typed_resource(Ship)
    assert (found.hooks("default"), found.hooks("warnings"), found.hooks("validate_create")) == ((Ship.default,), (), ())
    monkeypatch.setattr("kcp_py.library.types.described.fields_of", None)
    monkeypatch.setattr(Ship, "default", print)
    assert (found.hooks("default"), found.hooks("warnings")) == ((print,), ())


def test_columns() -> None:
    """Names and types follow from the fields."""
    name = Column(".metadata.name", "Called", format="date")
    columns = [".spec.size", ".metadata.creationTimestamp", name, Column(".x[0]", "X", "string")]
    assert [(one["name"], one["type"]) for one in typed_resource(thing(columns=columns)).columns] == [
        ("Size", "integer"),
        ("Age", "date"),
        ("Called", "string"),
        ("X", "string"),
    ]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"group": ""}, r"Policy: a resource has a group, such as example\.com"),
        ({"scope": "namespaced"}, "Policy: the scope is Namespaced or Cluster, not 'namespaced'"),
        ({"columns": [".spec.sice"]}, r"Policy: the column \.spec\.sice is of no field"),
        ({"hub": Spec}, "Spec is not a resource: decorate it with @resource"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    """The message begins with the class."""
    with pytest.raises(DefinitionError, match=message):
        thing(**settings)


def test_what_a_definition_would_be_refused_for() -> None:
    """A definition that a server would refuse names the field when it is made, not when the server starts."""
    for settings, message in (
        ({"version": "1"}, r"Policy: .*spec\.versions\[0\]\.name"),
        ({"plural": "Policies"}, r"Policy: .*spec\.names\.plural"),
        ({"selectable_fields": [".spec.other"]}, r"Policy: .*selectableFields"),
        ({"scale": {"specReplicasPath": ".spec.size"}}, "Policy: scale has the paths"),
    ):
        with pytest.raises(DefinitionError, match=message):
            thing(**settings)


def test_wrong_classes() -> None:
    """Neither a plain class nor one that refuses apiVersion and kind is a resource."""

    class Plain:
        pass

    class Strict(BaseModel):
        model_config = ConfigDict(extra="forbid")

    for cls, message in ((Plain, "Plain: a resource is a Pydantic model or a dataclass"), (Strict, 'Strict: extra="forbid" refuses')):
        with pytest.raises(DefinitionError, match=message):
            resource(group="example.com", version="v1")(cls)


def test_wrong_versions() -> None:
    """The functions of a version come in pairs, and a version has one hub and one number."""

    class Old:
        def convert_to(self) -> Any: ...

        def convert_from(self) -> Any: ...

    hub = thing()
    old: Any = describe(version="v0", hub=hub)(dataclass(type("Old", (), {"__annotations__": {}})))
    half: Any = dataclass(type("Half", (), {"__annotations__": {}, "convert_to": Old.convert_to}))
    functions = {"__annotations__": {}, "convert_to": Old.convert_to, "convert_from": Old.convert_from}
    not_class_method: Any = dataclass(type("Wrong", (), functions))
    for cls, settings, message in (
        (half, {"hub": hub}, "Half: it has convert_to, but no convert_from"),
        (not_class_method, {"hub": hub}, r"Wrong\.convert_from: it is a class method that takes the hub"),
        (Spec, {"hub": old}, "Spec: its hub Old is a further version itself; the hub is Policy"),
        (Spec, {"hub": hub, "version": "v1"}, "Spec: the resource has a version v1 already"),
        (Spec, {"hub": hub, "group": "other.com"}, r"Spec: its group is other\.com, and that of its hub example\.com"),
    ):
        with pytest.raises(DefinitionError, match=message):
            describe(**{"version": "v2", **settings})(cls)
    resource(version="v3", hub=hub, storage=True)(dataclass(type("Three", (), {"__annotations__": {}})))
    assert stored_resource(old).storage_version == "v3"
    resource(version="v4", hub=hub, storage=True)(dataclass(type("Four", (), {"__annotations__": {}})))
    with pytest.raises(DefinitionError, match="Four: v3 is the stored version already"):
        stored_resource(hub)


@pytest.mark.anyio
async def test_a_control_plane_collects_types(tmp_path: Path) -> None:
    """By its decorator and by `add`, before it runs; a further version comes with its hub."""
    control_plane = ControlPlane(Options(storage="memory", root_directory=tmp_path))

    @control_plane.resource(group="example.com", version="v1")
    @dataclass
    class Thing:
        """A thing."""

        metadata: dict[str, Any]
        spec: Spec

    @control_plane.resource(version="v2", hub=Thing)
    @dataclass
    class ThingV2:
        """A thing."""

        metadata: dict[str, Any]
        spec: Spec

    control_plane.add(thing())
    assert [cls.__name__ for cls in control_plane.apis if isinstance(cls, type)] == ["Thing", "Policy"]
    async with control_plane:
        team = control_plane.client.cluster("a")
        made = await team.create(ThingV2({"name": "x", "namespace": "default"}, Spec(size=3)))
        assert (type(made), made.spec.size) == (ThingV2, 3)
        assert (await team.get(Thing, "x")).spec.size == 3
        with pytest.raises(RuntimeError, match="the control plane is running"):
            control_plane.add(Thing)
