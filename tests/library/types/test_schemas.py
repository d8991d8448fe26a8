"""Schemas of types, compared with those that controller-gen 0.23 writes for the same shapes in Go, and refused types."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import ipaddress
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Annotated, Any, Generic, Literal, TypeVar

import pytest
from pydantic import AnyUrl, Base64Bytes, BaseModel, ConfigDict, Field, RootModel
from pydantic.alias_generators import to_camel
from pydantic.dataclasses import dataclass as pydantic_dataclass

from kcp_py import DefinitionError, IntOrString, Schema, StoredResource
from kcp_py.cli.definitionyaml import print_definition
from kcp_py.library.types.resource import stored_resource
from kcp_py.library.types.schemas import schema_of_resource
from tests.library.types import gotypes

FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
EXPECTED = Path(__file__).with_name("controllergen")


@pytest.mark.parametrize(("cls", "file"), [(gotypes.Foo, "foos"), (gotypes.Machine, "machines"), (gotypes.Gadget, "gadgets")])
def test_definitions_are_those_of_controller_gen(cls: type, file: str) -> None:
    """To the letter, but for the annotation with its version. The Go types are in the same folder as the YAML."""
    stored = stored_resource(cls)
    assert isinstance(stored, StoredResource)
    assert print_definition(stored.definition()) == (EXPECTED / f"hello.zeng.dev_{file}.yaml").read_text("utf-8")
    stored.served_versions("/registry")


class Node(BaseModel):
    """A tree."""

    children: list[Node] = []


class Inner(BaseModel):
    """A part."""

    size: int = 0


class Color(enum.Enum):
    """Of different types."""

    RED = "red"
    BLUE = 2


T = TypeVar("T")


class Box(BaseModel, Generic[T]):
    """Of anything."""

    content: T


def model(annotation: Any, default: Any = ...) -> type:
    """A resource with one field in its spec."""
    spec = type("Spec", (BaseModel,), {"__annotations__": {"x": annotation}, "__module__": __name__, **_default(default)})
    return type("Thing", (BaseModel,), {"__annotations__": {"spec": spec}, "__module__": __name__})


def _default(default: Any) -> dict[str, Any]:
    return {} if default is ... else {"x": default}


def field_schema(annotation: Any, default: Any = ...) -> Any:
    return schema_of_resource(model(annotation, default))["properties"]["spec"]["properties"]["x"]


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        (str, {"type": "string"}),
        (float, {"type": "number"}),
        (bytes, {"type": "string", "format": "byte"}),
        (Base64Bytes, {"type": "string", "format": "byte"}),
        (bytes | None, {"type": "string", "format": "byte", "nullable": True}),
        (dict[str, bytes], {"type": "object", "additionalProperties": {"type": "string", "format": "byte"}}),
        (dt.timedelta, {"type": "string"}),
        (list[dt.timedelta], {"type": "array", "items": {"type": "string"}}),
        (AnyUrl, {"type": "string", "format": "uri"}),
        (ipaddress.IPv4Address, {"type": "string", "format": "ipv4"}),
        (uuid.UUID, {"type": "string", "format": "uuid"}),
        (dt.date, {"type": "string", "format": "date"}),
        (Any, {"x-kubernetes-preserve-unknown-fields": True}),
        (dict, FREE),
        (dict[str, Any], FREE),
        (dict[str, int], {"type": "object", "additionalProperties": {"type": "integer"}}),
        (list[int | None], {"type": "array", "items": {"type": "integer", "nullable": True}}),
        (tuple[int, ...], {"type": "array", "items": {"type": "integer"}}),
        (frozenset[str], {"type": "array", "items": {"type": "string"}, "x-kubernetes-list-type": "set"}),
        (int | None, {"type": "integer", "nullable": True}),
        (Literal["a", "b"], {"type": "string", "enum": ["a", "b"]}),
        (Annotated[float, Field(gt=0, le=1)], {"type": "number", "minimum": 0, "exclusiveMinimum": True, "maximum": 1}),
        (Annotated[int, Field(multiple_of=5)], {"type": "integer", "multipleOf": 5}),
        (list[Annotated[str, Field(min_length=2)]], {"type": "array", "items": {"type": "string", "minLength": 2}}),
        (Annotated[dict[str, Any], Field(min_length=1)], {**FREE, "minProperties": 1}),
        (Annotated[str, Schema(format="duration")], {"type": "string", "format": "duration"}),
        (
            Annotated[IntOrString | None, Schema(nullable=True)],
            {"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": True, "nullable": True},
        ),
        (Box[int], {"type": "object", "properties": {"content": {"type": "integer"}}, "required": ["content"]}),
    ],
    ids=str,
)  # fmt: skip
def test_types(annotation: Any, expected: dict[str, Any]) -> None:
    """What a type and its constraints are in a schema."""
    found = field_schema(annotation)
    assert {name: value for name, value in found.items() if name != "description" or name in expected} == expected


@pytest.mark.parametrize(
    ("annotation", "message"),
    [
        (Node, "Thing.spec.x.children[]: Node contains itself, and schemas of resources cannot; use dict[str, Any] or Any here"),
        (int | str, "Thing.spec.x: a union has no structural schema (int | str); use IntOrString"),
        (list[Inner | Color], "Thing.spec.x[]: a union has no structural schema (Inner | Color); use one type, or Annotated"),
        (dict[bytes, str], "Thing.spec.x: the keys of an object in JSON are texts, not bytes"),
        (dict[str, bytes | dt.timedelta], "Thing.spec.x{}: a union has no structural schema (bytes | timedelta); use one type"),
        (list[dt.time], "Thing.spec.x[]: time has no schema; use a text"),
        (
            ipaddress.IPv4Network,
            "use a Pydantic model, a dataclass, an Enum, a Literal, list, set, dict[str, ...], str, int, float, bool, bytes",
        ),
        (
            Annotated[dt.timedelta, Field(gt=dt.timedelta.max)],
            "Thing.spec.x: the bound 999999999 days, 23:59:59.999999 is longer than 292 years",
        ),
        (decimal.Decimal, "Thing.spec.x: Decimal has no schema; use Quantity, or a text"),
        (tuple[int, str], "has no schema; use a list, or tuple[X, ...]"),
        (dict[int, str], "Thing.spec.x: the keys of an object in JSON are texts, not int"),
        (Color, "Thing.spec.x: the values 'red', 2 are not all texts or all integers"),
        (Literal["a", 1], "Thing.spec.x: the values 'a', 1 are not all texts or all integers"),
        (complex, "Thing.spec.x: complex has no schema; use a Pydantic model, a dataclass"),
        (Annotated[int, Schema(max_length=3)], ""),
        (Box, "Thing.spec.x.content: ~T has no schema; give the generic class its arguments"),
    ],
    ids=str,
)
def test_types_without_a_schema(annotation: Any, message: str) -> None:
    """The message begins with the path of the field, and says what to use."""
    if not message:
        thing = type("Thing", (BaseModel,), {"__annotations__": {"spec": model(annotation)}, "__module__": __name__})
        assert schema_of_resource(thing)
        return
    with pytest.raises(DefinitionError) as raised:
        field_schema(annotation)
    assert message in str(raised.value)


def test_types_that_only_dataclasses_can_have() -> None:
    """Pydantic refuses them itself."""
    with pytest.raises(DefinitionError, match=r"^Thing\.x: bytearray has no schema; use bytes$"):
        schema_of_resource(dataclasses.make_dataclass("Thing", [("x", bytearray)]))


def test_aliases_and_free_models() -> None:
    """An alias is the name in JSON; a model that keeps unknown fields keeps them in the store, too."""

    class Part(BaseModel):
        model_config = ConfigDict(extra="allow", alias_generator=lambda name: name.upper())

        one: int

    class Thing(BaseModel):
        spec: Part

    spec = schema_of_resource(Thing)["properties"]["spec"]
    assert (list(spec["properties"]), spec["required"], spec["x-kubernetes-preserve-unknown-fields"]) == (["ONE"], ["ONE"], True)

    class Twice(BaseModel):
        one: int = Field(validation_alias="in", serialization_alias="out")

    with pytest.raises(DefinitionError, match=r"Twice\.one: it is read as 'in' and written as 'out'"):
        schema_of_resource(Twice)


class PortDefaults(BaseModel):
    """A model whose fields have no aliases."""

    port_number: int = 80
    tls_mode: Annotated[str | None, Field(alias="tlsPolicy")] = None


@dataclasses.dataclass(kw_only=True)
class ShopSpec:
    """All forms of names."""

    replica_count: int
    from_: str = ""
    already: int = 1
    cluster_ip: Annotated[str, Schema(description="As Kubernetes."), Field(alias="clusterIP")] = ""
    main_port: PortDefaults = dataclasses.field(default_factory=lambda: PortDefaults(port_number=8080))


@dataclasses.dataclass
class Shop:
    """A resource."""

    spec: ShopSpec


def test_names_in_camel_case() -> None:
    """The switch names the fields of all classes that have no alias, in defaults and in `required`, too."""
    spec = schema_of_resource(Shop, camel=True)["properties"]["spec"]
    assert list(spec["properties"]) == ["replicaCount", "from", "already", "clusterIP", "mainPort"]
    assert spec["required"] == ["replicaCount"]
    assert spec["properties"]["mainPort"]["default"] == {"portNumber": 8080}
    assert list(spec["properties"]["mainPort"]["properties"]) == ["portNumber", "tlsPolicy"]
    plain = schema_of_resource(Shop)["properties"]["spec"]
    assert list(plain["properties"]) == ["replica_count", "from_", "already", "clusterIP", "main_port"]


def test_alias_generators() -> None:
    """Those of Pydantic count, in models and in dataclasses of Pydantic."""

    class Camel(BaseModel):
        model_config = ConfigDict(alias_generator=to_camel)

        replica_count: int = 1

    @pydantic_dataclass(config=ConfigDict(alias_generator=to_camel))
    class CamelData:
        replica_count: int = 1
        other_name: int = Field(alias="given", default=2, ge=1)

    assert list(schema_of_resource(Camel, camel=True)["properties"])[3:] == ["replicaCount"]
    found = schema_of_resource(CamelData)["properties"]
    assert list(found)[3:] == ["replicaCount", "given"]
    assert found["given"] == {"type": "integer", "minimum": 1, "default": 2}


class Names(RootModel[list[str]]):
    """Names."""


class Deep(RootModel["list[Deep]"]):
    """A list of itself."""


class Nothing(enum.Enum):
    """No values."""


class WithInit(BaseModel):
    """Reads its arguments itself."""

    secret_key: str = ""

    def __init__(self, **given: Any) -> None:
        super().__init__(**given)


class WithInitAndBytes(WithInit):
    """Would get base64."""

    key: list[bytes] = []


def test_models_of_one_value() -> None:
    """Their schema is that of the value."""
    assert field_schema(dict[str, Names])["additionalProperties"] == {"type": "array", "items": {"type": "string"}}
    with pytest.raises(DefinitionError, match=r"^Thing\.spec\.x\[\]: Deep contains itself"):
        field_schema(Deep)
    with pytest.raises(DefinitionError, match=r"^Thing\.spec\.x: an enumeration without values"):
        field_schema(Nothing)


def test_models_with_a_constructor() -> None:
    """They read names and values themselves, which the forms of kcp-py would pass by."""
    assert field_schema(WithInit)["properties"]["secret_key"] == {"type": "string", "default": ""}
    with pytest.raises(DefinitionError, match=r"^Thing\.spec\.x: WithInitAndBytes has an __init__"):
        field_schema(WithInitAndBytes)
    with pytest.raises(DefinitionError, match=r"^Thing\.x: WithInit has an __init__"):
        schema_of_resource(dataclasses.make_dataclass("Thing", [("x", WithInit)]), camel=True)


def test_names_that_collide() -> None:
    """Two fields with one name are an error that names the second, whether by the switch or by an alias."""
    switched = dataclasses.make_dataclass("Thing", [("a_b", int), ("aB", int)])
    assert "a_b" in schema_of_resource(switched)["properties"]
    with pytest.raises(DefinitionError, match=r"^Thing\.aB: two fields have the name 'aB'$"):
        schema_of_resource(switched, camel=True)
    aliased = dataclasses.make_dataclass("Thing", [("a_b", int), ("x", Annotated[int, Field(alias="aB")])])
    with pytest.raises(DefinitionError, match=r"^Thing\.x: two fields have the name 'aB'$"):
        schema_of_resource(aliased, camel=True)
    with pytest.raises(DefinitionError, match=r"^Thing\.__: the name is nothing but underscores"):
        schema_of_resource(dataclasses.make_dataclass("Thing", [("__", int)]), camel=True)


def test_dataclasses_need_no_pydantic() -> None:
    """Definitions of dataclasses do not import it."""
    code = (
        "import sys, dataclasses, kcp_py\n"
        "from kcp_py.library.types.resource import stored_resource\n"
        "@kcp_py.resource(group='example.com', version='v1')\n"
        "@dataclasses.dataclass\n"
        "class Thing:\n    size: int = 1\n"
        "stored_resource(Thing).served_versions('/registry')\n"
        "print('pydantic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"
