"""`Adapter`: the objects of a class as decoded JSON of Kubernetes, and back.

Pydantic has forms of its own for values that JSON does not have. In objects of Kubernetes `bytes` are base64 (`format: byte` of
OpenAPI), and a `timedelta` is a duration of Go (`metav1.Duration`). Fields may have names in camelCase that the classes do not state.
The classes stay as they are: the core schema of Pydantic is changed on its way into an adapter.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from datetime import timedelta
from functools import lru_cache
from typing import Any, Final

from pydantic import TypeAdapter
from pydantic_core import PydanticCustomError, SchemaSerializer, SchemaValidator, core_schema

from kcp_py.client.forms import camel_case, from_duration, to_base64, to_duration
from kcp_py.golang.base64 import decode_base64

_NO_SCHEMAS: Final = frozenset(
    ["default", "metadata", "config", "expected", "cls", "ref", "serialization", "serialization_exclude_if", "function"]
)
"""Members of a core schema that stay as they are: values, and what the program has written."""
_FIELDS: Final = frozenset({"model-field", "dataclass-field"})
_CONTAINERS: Final = frozenset({"model-fields", "dataclass-args", "typed-dict", "list", "set", "frozenset", "tuple", "dict"})


def _bytes(value: Any) -> Any:
    if isinstance(value, bytes):
        return value
    text = _text(value)
    try:
        return decode_base64(text)
    except ValueError:
        raise PydanticCustomError("base64", "must be base64") from None


def _timedelta(value: Any) -> Any:
    if isinstance(value, timedelta):
        return value
    text = _text(value)
    try:
        return from_duration(text)
    except ValueError:
        # Schemas have no format for durations: this error counts as that of a validator of the program.
        raise PydanticCustomError("value_error", 'must be a duration such as "1h30m", "500ms" or "0s"') from None


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise PydanticCustomError("string_type", "Input should be a valid string")
    return value


_FORMS: Final[Mapping[str, tuple[Callable[[Any], Any], Callable[[Any], str]]]] = {
    "bytes": (_bytes, to_base64),
    "timedelta": (_timedelta, to_duration),
}


class Adapter:
    """Makes objects of a class from decoded JSON, and decoded JSON of them."""

    def __init__(self, model: Any) -> None:
        """Read a class. Names are in camelCase where the resource that it describes says so."""
        known = TypeAdapter(model)
        camel = bool(getattr(getattr(model, "__resource__", None), "camel_case", False))
        changed = _changed(known.core_schema, camel=camel)
        self._validator: Any = known.validator
        self._serializer: Any = known.serializer
        if changed != known.core_schema:
            # Validators that Pydantic has made for the classes before would take the place of the changed ones.
            self._validator = SchemaValidator(changed, _use_prebuilt=False)
            self._serializer = SchemaSerializer(changed, _use_prebuilt=False)

    def load(self, obj: object) -> Any:
        """An object of the class.

        Raises:
            ValueError: the JSON does not fit the class (`pydantic.ValidationError`).
        """
        return self._validator.validate_python(obj)

    def dump(self, instance: object, *, set_only: bool = False) -> dict[str, Any]:
        """The decoded JSON of an object, in which fields with None are left out.

        Args:
            instance: of the class.
            set_only: without the fields of a Pydantic model that were not set.
        """
        found: dict[str, Any] = self._serializer.to_python(
            instance, mode="json", by_alias=True, exclude_none=True, exclude_unset=set_only, warnings=False
        )
        return found


@lru_cache(maxsize=1024)
def adapter_of(model: Hashable) -> Adapter:
    """The adapter of a class."""
    return Adapter(model)


def _changed(schema: Any, *, camel: bool, own: bool = False) -> Any:
    """A core schema with the forms of Kubernetes.

    Args:
        schema: of Pydantic.
        camel: whether fields without an alias have one in camelCase.
        own: whether the program has said how the value is written, as `Base64Bytes` does: then it knows the form in which it is read, too.
    """
    if isinstance(schema, list | tuple):
        return type(schema)(_changed(one, camel=camel, own=own) for one in schema)
    if not isinstance(schema, dict):
        return schema
    if not isinstance(kind := schema.get("type"), str):
        return {name: _changed(one, camel=camel, own=own) for name, one in schema.items()}
    own = False if kind in _CONTAINERS else own or "serialization" in schema
    if kind in _FORMS:
        return schema if own else _form(schema, *_FORMS[kind])
    if kind in _FIELDS and _is_optional_bytes(schema["schema"]):
        # Go leaves such fields out (`omitempty`), and the format of bytes has no empty text.
        schema = {**schema, "serialization_exclude_if": _is_empty}
    found = {name: one if name in _NO_SCHEMAS else _changed(one, camel=camel, own=own) for name, one in schema.items()}
    if camel and kind == "model-fields":
        found["fields"] = {name: _named(field, name) for name, field in found["fields"].items()}
    elif camel and kind == "dataclass-args":
        found["fields"] = [_named(field, field["name"]) for field in found["fields"]]
    return found


def _is_optional_bytes(schema: Any) -> bool:
    """Whether a field holds bytes and need not be there."""
    if schema.get("type") != "default":
        return False
    while schema.get("type") in {"default", "nullable"}:
        schema = schema["schema"]
    return bool(schema.get("type") == "bytes")


def _is_empty(value: object) -> bool:
    return value == b""


def _named(field: dict[str, Any], name: str) -> dict[str, Any]:
    """A field with its name in JSON, if it has none."""
    if "validation_alias" in field or "serialization_alias" in field:
        return field
    return {**field, "validation_alias": camel_case(name), "serialization_alias": camel_case(name)}


def _form(schema: Any, load: Callable[[Any], Any], dump: Callable[[Any], str]) -> Any:
    writing = core_schema.plain_serializer_function_ser_schema(dump, when_used="json")
    return core_schema.no_info_before_validator_function(load, schema, serialization=writing)
