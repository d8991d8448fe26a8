"""`objects_of`: a Hypothesis strategy for objects that a structural schema accepts."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final

from hypothesis import strategies as st

from kcp_py.schema.compilation import compile_schema

_NAMES: Final = st.from_regex(r"[a-z][a-z0-9]{0,5}", fullmatch=True)
_TEXTS: Final = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)
_FREE: Final = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | _TEXTS,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(_NAMES, inner, max_size=2),
    max_leaves=4,
)
_FORMATS: Final = {
    "byte": st.binary(max_size=9).map(lambda value: base64.b64encode(value).decode()),
    "date": st.dates().map(str),
    "date-time": st.datetimes().map(lambda value: value.replace(microsecond=0).isoformat() + "Z"),
    "duration": st.integers(0, 1000).map("{}s".format),
    "ipv4": st.ip_addresses(v=4).map(str),
    "ipv6": st.ip_addresses(v=6).map(str),
    "uri": _NAMES.map("https://{}.example.com/".format),
    "uuid": st.uuids().map(str),
}


def objects_of(schema: Mapping[str, Any], api_version: str, kind: str) -> st.SearchStrategy[dict[str, Any]]:
    """Whole objects, with labels and annotations. Those that the schema refuses for other reasons than its types are left out.

    Args:
        schema: structural, of the object. CEL rules are not evaluated.
        api_version: of the objects.
        kind: of the objects.
    """
    compiled = compile_schema(schema)
    own = {**schema, "properties": {name: one for name, one in schema.get("properties", {}).items() if name not in _HEAD}}
    metadata = st.fixed_dictionaries(
        {"name": _NAMES, "namespace": st.just("default")},
        optional={"labels": _TEXTS_BY_NAME, "annotations": _TEXTS_BY_NAME},
    )
    whole = st.builds(lambda head, rest: {"apiVersion": api_version, "kind": kind, "metadata": head, **rest}, metadata, values_of(own))
    return whole.filter(lambda obj: not compiled.validate(obj))


_HEAD: Final = frozenset({"apiVersion", "kind", "metadata"})
_TEXTS_BY_NAME: Final = st.dictionaries(_NAMES.map("example.com/{}".format), _NAMES, min_size=1, max_size=2)


def values_of(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    """Values of a part of a schema."""
    values = _values(schema)
    return st.none() | values if schema.get("nullable") else values


def _values(schema: Mapping[str, Any]) -> st.SearchStrategy[Any]:
    if "enum" in schema:
        return st.sampled_from(schema["enum"])
    if schema.get("x-kubernetes-int-or-string"):
        amounts = st.integers(0, 1000).map(str)
        return st.integers(0, 1000) | (amounts if "pattern" in schema else amounts.map("{}%".format))
    match schema.get("type"):
        case "boolean":
            return st.booleans()
        case "integer":
            return _integers(schema)
        case "number":
            return st.floats(schema.get("minimum", -1e6), schema.get("maximum", 1e6), width=32)
        case "string":
            return _strings(schema)
        case "array":
            return _arrays(schema)
        case "object":
            return _structures(schema)
        case _:
            return _FREE


def _integers(schema: Mapping[str, Any]) -> st.SearchStrategy[int]:
    bits = 31 if schema.get("format") == "int32" else 53
    step = schema.get("multipleOf", 1)
    low, high = schema.get("minimum", -(2**bits)), schema.get("maximum", 2**bits - 1)
    return st.integers(-int(-low // step), int(high // step)).map(lambda value: value * step)


def _strings(schema: Mapping[str, Any]) -> st.SearchStrategy[str]:
    if "pattern" in schema:
        found = st.from_regex(schema["pattern"]).map(lambda text: text.removesuffix("\n"))
    elif schema.get("format") in _FORMATS:
        found = _FORMATS[schema["format"]]
    else:
        least = schema.get("minLength", 0)
        return st.text(min_size=least, max_size=min(schema.get("maxLength", least + 12), least + 12))
    return found


def _arrays(schema: Mapping[str, Any]) -> st.SearchStrategy[list[Any]]:
    least = schema.get("minItems", 0)
    unique: Any = None
    if schema.get("x-kubernetes-list-type") == "set":
        unique = repr
    elif keys := schema.get("x-kubernetes-list-map-keys"):

        def unique(item: Mapping[str, Any]) -> str:
            return repr([item.get(key) for key in keys])

    return st.lists(
        values_of(schema["items"]), min_size=least, max_size=min(schema.get("maxItems", least + 3), least + 3), unique_by=unique
    )


def _structures(schema: Mapping[str, Any]) -> st.SearchStrategy[dict[str, Any]]:
    least = schema.get("minProperties", 0)
    if "additionalProperties" in schema and isinstance(schema["additionalProperties"], Mapping):
        return st.dictionaries(_NAMES, values_of(schema["additionalProperties"]), min_size=least, max_size=least + 2)
    properties = schema.get("properties") or {}
    if not properties and schema.get("x-kubernetes-preserve-unknown-fields"):
        if schema.get("x-kubernetes-embedded-resource"):
            return st.builds(lambda name: {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}}, _NAMES)
        return st.dictionaries(_NAMES, _FREE, min_size=least, max_size=least + 2)
    required = set(schema.get("required") or ())
    return st.fixed_dictionaries(
        {name: values_of(one) for name, one in properties.items() if name in required},
        optional={name: values_of(one) for name, one in properties.items() if name not in required},
    )
