"""Objects of classes from decoded JSON and back, with the forms of Kubernetes."""

from __future__ import annotations

import dataclasses
import enum
import ipaddress
import uuid
from datetime import UTC, date, datetime, timedelta
from types import SimpleNamespace
from typing import Annotated, Any, Literal, NewType

import pytest
from pydantic import (
    AnyUrl,
    Base64Bytes,
    BaseModel,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    field_serializer,
    model_serializer,
    model_validator,
)
from pydantic.dataclasses import dataclass as pydantic_dataclass

from kcp_py.client.adapters import Adapter, adapter_of

Hexadecimal = Annotated[
    bytes, BeforeValidator(lambda text: bytes.fromhex(text) if isinstance(text, str) else text), PlainSerializer(bytes.hex)
]
Key = NewType("Key", bytes)


class Color(enum.Enum):
    RED = "red"


@dataclasses.dataclass
class Window:
    """A dataclass inside of a model."""

    opens_after: timedelta
    salts: dict[str, bytes] = dataclasses.field(default_factory=dict)


@pydantic_dataclass
class Strict:
    """A dataclass of Pydantic."""

    secret_key: bytes = b"\x00"


class Spec(BaseModel):
    """Fields whose names are members of core schemas among them."""

    key: bytes
    maybe: bytes | None = None
    every: list[timedelta] = [timedelta(seconds=5)]
    window: Window | None = None
    strict: Strict = Strict()
    encoded: Base64Bytes = b"eA=="
    hexadecimal: Hexadecimal = b""
    named: Key = Key(b"")
    bounded: Annotated[timedelta, Field(ge=timedelta(seconds=1))] = timedelta(seconds=1)
    schema_: bytes = b"s"
    type: bytes = b"t"
    default: bytes = b"d"
    metadata: timedelta = timedelta()
    serialization: bytes = b""
    color: Color = Color.RED
    mode: Literal["a", "b"] = "a"
    address: ipaddress.IPv4Address | None = None
    at: datetime | None = None
    day: date | None = None
    number: uuid.UUID | None = None
    home_page: AnyUrl | None = None


class Thing(BaseModel):
    """A whole object."""

    spec: Spec


OBJECT: dict[str, Any] = {
    "spec": {
        "key": "+//+IQ==",
        "every": ["1h30m0s", "500ms"],
        "window": {"opens_after": "2s", "salts": {"a": "aGk="}},
        "strict": {"secret_key": "aGk="},
        "encoded": "aGk=",
        "hexadecimal": "ff00",
        "named": "aGk=",
        "bounded": "1m0s",
        "schema_": "aGk=",
        "type": "aGk=",
        "default": "aGk=",
        "metadata": "1s",
        "serialization": "aGk=",
        "color": "red",
        "mode": "b",
        "address": "10.0.0.1",
        "at": "2026-01-02T03:04:05Z",
        "day": "2026-01-02",
        "number": "00000000-0000-0000-0000-000000000001",
        "home_page": "https://example.com/",
    }
}


def test_values_and_back() -> None:
    """Each value has its type in Python, and the same JSON is made of it again."""
    adapter = adapter_of(Thing)
    thing: Thing = adapter.load(OBJECT)
    spec = thing.spec
    assert (spec.key, spec.every) == (b"\xfb\xff\xfe!", [timedelta(minutes=90), timedelta(milliseconds=500)])
    assert spec.window == Window(timedelta(seconds=2), {"a": b"hi"})
    assert (spec.strict.secret_key, spec.encoded, spec.hexadecimal, spec.named) == (b"hi", b"hi", b"\xff\x00", b"hi")
    assert (spec.schema_, spec.type, spec.default, spec.metadata, spec.serialization) == (b"hi", b"hi", b"hi", timedelta(seconds=1), b"hi")
    assert spec.at == datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert adapter.dump(thing) == OBJECT


def test_classes_stay_as_they_are() -> None:
    """The forms are those of adapters alone: a program makes objects with values, and Pydantic's own JSON stays."""
    adapter = adapter_of(Thing)
    made = Thing(spec=Spec(key=b"hi", every=[timedelta(seconds=1)]))
    assert adapter.dump(made)["spec"]["key"] == "aGk="
    assert adapter.dump(made, set_only=True) == {"spec": {"key": "aGk=", "every": ["1s"]}}
    assert made.model_dump(mode="json")["spec"]["key"] == "hi"
    assert Thing.model_validate({"spec": {"key": "hi"}}).spec.key == b"hi"


@pytest.mark.parametrize(
    ("changed", "location", "text"),
    [
        ({"key": "a"}, ("spec", "key"), "must be base64"),
        ({"key": "aGk"}, ("spec", "key"), "must be base64"),
        ({"key": 5}, ("spec", "key"), "valid string"),
        ({"every": ["1s", "90"]}, ("spec", "every", 1), 'must be a duration such as "1h30m", "500ms" or "0s"'),
        ({"every": ["PT1H"]}, ("spec", "every", 0), "must be a duration"),
        ({"every": [60]}, ("spec", "every", 0), "valid string"),
        ({"bounded": "1ms"}, ("spec", "bounded"), "greater than or equal to 1 second"),
        ({"window": {"opens_after": "x"}}, ("spec", "window", "opens_after"), "must be a duration"),
    ],
    ids=str,
)
def test_refused(changed: dict[str, Any], location: tuple[Any, ...], text: str) -> None:
    """The error has the path of the value, without steps of the adapter's own."""
    with pytest.raises(ValidationError) as raised:
        adapter_of(Thing).load({"spec": {**OBJECT["spec"], **changed}})
    (problem,) = raised.value.errors()
    assert problem["loc"] == location
    assert text in problem["msg"]


class Inner(BaseModel):
    """Has no alias but one."""

    port_number: int
    tls_mode: Annotated[str, Field(alias="tls")] = ""


@dataclasses.dataclass
class Outer:
    """A dataclass around a model."""

    inner_parts: list[Inner]
    from_: bytes = b""


def camel(model: type) -> Adapter:
    """The adapter of a class whose resource has names in camelCase."""
    model.__resource__ = SimpleNamespace(camel_case=True)  # type: ignore[attr-defined]
    return Adapter(model)


def test_names_in_camel_case() -> None:
    """The classes inside of the resource have such names, too; aliases have precedence, and the path of an error has the names in JSON."""
    outer = dataclasses.make_dataclass("Camel", [], bases=(Outer,))
    adapter = camel(outer)
    obj = {"innerParts": [{"portNumber": 1, "tls": "on"}], "from": "aGk="}
    made = adapter.load(obj)
    assert (made.inner_parts, made.from_) == ([Inner.model_validate({"port_number": 1, "tls": "on"})], b"hi")
    assert adapter.dump(made) == obj
    with pytest.raises(ValidationError) as raised:
        adapter.load({"inner_parts": [], "innerParts": [{"port_number": 1}]})
    assert [one["loc"] for one in raised.value.errors()] == [("innerParts", 0, "portNumber")]
    assert Adapter(Inner).dump(Inner(port_number=1)) == {"port_number": 1, "tls": ""}


class Written(BaseModel):
    """A class with serializers and validators of its own."""

    parts: list[bytes]
    whole: dict[str, timedelta] = {}

    @field_serializer("parts", when_used="json")
    def _one_text(self, parts: list[bytes]) -> str:
        return ",".join(one.hex() for one in parts)

    @model_validator(mode="before")
    @classmethod
    def _texts(cls, given: Any) -> Any:
        parts = given["parts"]
        return {**given, "parts": [bytes.fromhex(one) for one in parts.split(",")] if isinstance(parts, str) else parts}

    @model_serializer(mode="wrap")
    def _without_empty(self, handler: Any) -> dict[str, Any]:
        return {name: value for name, value in handler(self).items() if value}


def test_own_serializers() -> None:
    """A program that says how a value is written reads it itself; its other fields have the forms of Kubernetes."""
    adapter = Adapter(Written)
    made = adapter.load({"parts": "ff,00", "whole": {"a": "1s"}})
    assert (made.parts, made.whole) == ([b"\xff", b"\x00"], {"a": timedelta(seconds=1)})
    assert adapter.dump(made) == {"parts": "ff,00", "whole": {"a": "1s"}}
    assert adapter.dump(Written(parts=[b"\x01"])) == {"parts": "01"}


class Tree(BaseModel):
    """A class that contains itself, for clients."""

    salt: bytes = b""
    left_side: Tree | None = None


def test_recursive_classes() -> None:
    """Definitions that refer to themselves are changed once."""
    adapter = Adapter(Tree)
    made = adapter.load({"salt": "aGk=", "left_side": {"salt": "aGk=", "left_side": {}}})
    assert made.left_side.salt == b"hi"
    assert adapter.dump(made) == {"salt": "aGk=", "left_side": {"salt": "aGk=", "left_side": {}}}


class Sealed(BaseModel):
    """Bytes that may be empty."""

    required: bytes
    optional: bytes = b"default"
    maybe: bytes | None = None
    many: list[bytes] = []


def test_empty_bytes() -> None:
    """A field that need not be there is left out, since the format has no empty text; a server refuses that of a required one."""
    made = Sealed(required=b"", optional=b"", maybe=b"", many=[b""])
    assert Adapter(Sealed).dump(made) == {"required": "", "many": [""]}
    part = dataclasses.make_dataclass("Part", [("key", bytes, b"")])
    assert Adapter(part).dump(part()) == {}
