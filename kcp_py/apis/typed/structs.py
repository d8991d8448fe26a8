"""`StructCodec`: objects of typed kinds as Go's decoder reads them and as its encoder writes them.

A typed kind is a Go structure for upstream. Its decoder refuses values of another type, takes null for the zero value, and cannot tell
a zero value from a missing one. Its encoder writes every field without `omitempty`, and leaves others out where they are empty. So there
are three forms of an object here:

- as the client sent it,
- *decoded*: without fields that are zero, so that defaults can be filled in,
- *complete*: with every field that the encoder writes. This is the form that is stored, answered and merged.

Source: sigs.k8s.io/json `internal/golang/encoding/json`, k8s.io/apimachinery (`Time`, `MicroTime`, `Quantity`, `IntOrString`).
Empty lists and maps count as missing: objects are stored as protobuf upstream, which cannot distinguish them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from threading import RLock
from typing import Any, Final

from kcp_py.apimachinery.errors import DecodingError
from kcp_py.apis.typed.values import (
    LIMITS,
    SELF_DECODING,
    ZERO,
    Decoder,
    MismatchError,
    any_value,
    boolean,
    floating,
    integer,
    raw_bytes,
    string,
)
from kcp_py.bootstrap.go_fields import GoStructure, find_structure, go_values
from kcp_py.golang.types import json_type

_ELEMENT: Final = re.compile(r"^(?:\*|\[[^]]*\]|\{[^}]*\})+")
"""What precedes the element in the description of a pointer, a list or a map."""
_OWN: Final = frozenset({"apiVersion", "kind", "metadata"})
"""The fields of an object that the generic store takes care of."""


class StructCodec:
    """The rules of one kind. Immutable, shared by all clusters."""

    __slots__ = ("_struct", "covers_all", "writes_zeros")

    def __init__(self, model: str) -> None:
        """Compile the structure of a model, such as `io.k8s.api.core.v1.Pod`.

        Raises:
            KeyError: there is no such structure.
        """
        with _COMPILING:
            self._struct = _struct(model, root=True)
        self.covers_all = _has_no_free_form(model, set())
        """Whether it knows all types: those of schemas in CustomResourceDefinitions are left to others."""
        self.writes_zeros = self._struct.writes_zeros()
        """Whether `complete` may change anything."""

    def decode(self, obj: dict[str, Any]) -> None:
        """Read an object, in place: afterwards it has no zero values but those of pointers, and all values are of their types.

        Raises:
            StatusError: 400, worded as upstream's decoder words it.
        """
        try:
            self._struct.decode(obj)
        except MismatchError as mismatch:
            kind, version = obj.get("kind", ""), str(obj.get("apiVersion", "")).rpartition("/")[2]
            raise DecodingError(kind, version, str(mismatch)) from None

    def complete(self, obj: dict[str, Any]) -> None:
        """Add, in place, the fields that the encoder writes although they are zero. Values that do not fit their types are left alone."""
        self._struct.complete(obj)

    def without_zeros(self, obj: dict[str, Any]) -> dict[str, Any]:
        """A complete object without the fields that are zero. Unchanged parts are shared with `obj`."""
        return self._struct.without_zeros(obj)


@cache
def struct_codec(model: str) -> StructCodec | None:
    """The codec of a model; None where no structure is known for it."""
    return StructCodec(model) if find_structure(model) is not None else None


def _has_no_free_form(model: str, seen: set[str]) -> bool:
    structure = find_structure(model)
    if structure is None or model in seen:
        return model != "any"
    seen.add(model)
    return all(_has_no_free_form(_ELEMENT.sub("", described).rstrip("?!"), seen) for described in structure.fields.values())


class _Struct:
    """A structure. Its fields are compiled after it is known, since structures may contain themselves."""

    __slots__ = ("_always", "_decoders", "_emptied", "_go", "_nested", "_omitted", "go")

    def __init__(self, structure: GoStructure) -> None:
        self.go = structure.go
        self._go = structure.go.rpartition(".")[2]
        self._decoders: dict[str, Decoder] = {}
        self._always: dict[str, Callable[[], Any]] = {}
        """Field -> its zero value, of fields that are always written."""
        self._nested: dict[str, _Shape] = {}
        """Fields that have structures with such fields somewhere below."""
        self._emptied: tuple[str, ...] = ()
        """Those of the fields that are always written of which zero means missing: structures are there in any case."""
        self._omitted: tuple[str, ...] = ()
        """Structures that are left out where they are zero."""

    def compile(self, structure: GoStructure, *, root: bool) -> None:
        """Read the fields."""
        omitted = []
        for name, described in structure.fields.items():
            if root and name in _OWN:
                continue
            shape = _shape(described.rstrip("?!"))
            self._decoders[name] = shape.decode
            if described[-1] == "!" and shape.struct is not None:
                omitted.append(name)
            elif described[-1] not in {"?", "!"}:
                self._always[name] = shape.zero
            if shape.struct is not None:
                self._nested[name] = shape
        self._omitted = tuple(omitted)
        self._emptied = tuple(name for name, zero in self._always.items() if not isinstance(zero(), dict))

    def decode(self, value: dict[str, Any]) -> None:
        decoders = self._decoders
        for name in tuple(value):
            decoder = decoders.get(name)
            if decoder is None:
                continue
            given = value[name]
            if given is None:
                del value[name]
                continue
            try:
                decoded = decoder(given)
            except MismatchError as mismatch:
                mismatch.struct = mismatch.struct or self._go
                mismatch.path.insert(0, name)
                raise
            if decoded is ZERO:
                del value[name]
            elif decoded is not given:
                value[name] = decoded

    def writes_zeros(self) -> bool:
        return bool(self._always or self._nested or self._omitted)

    def complete(self, value: dict[str, Any]) -> None:
        for name, zero in self._always.items():
            if value.get(name) is None:
                value[name] = zero()
        for name, shape in self._nested.items():
            if (child := value.get(name)) is not None:
                shape.each(child, _Struct.complete)
        for name in self._omitted:
            if name in value and not value[name]:
                del value[name]

    def zero(self) -> dict[str, Any]:
        """A structure of which nothing is set."""
        value: dict[str, Any] = {}
        self.complete(value)
        return value

    def without_zeros(self, value: dict[str, Any]) -> dict[str, Any]:
        result = value
        for name in self._nested.keys() & value.keys():
            child = value[name]
            stripped = self._nested[name].without_zeros(child)
            if stripped is not child:
                if result is value:
                    result = dict(value)
                result[name] = stripped
        for name in self._emptied:
            # An empty object or list is a value of a free-form field.
            if name in result and not result[name] and type(result[name]) not in {dict, list}:
                if result is value:
                    result = dict(value)
                del result[name]
        return result


class _Shape:
    """The type of a field or of an element."""

    __slots__ = ("container", "decode", "element", "go", "pointer", "struct", "zero")

    def __init__(self, go: str, decode: Decoder, zero: Callable[[], Any], *, struct: _Struct | None = None, container: str = "") -> None:
        """Note the rules.

        Args:
            go: the name of the Go type.
            decode: see `Decoder`.
            zero: makes the zero value as the encoder writes it.
            struct: what it is, or what it contains.
            container: `list` or `map` for a container of `struct`s, which are then found by `element`.
        """
        self.go = go
        self.decode = decode
        self.zero = zero
        self.struct = struct
        self.container = container
        self.element: _Shape | None = None

    def each(self, value: Any, visit: Callable[[_Struct, dict[str, Any]], None]) -> None:
        """Call `visit` with each structure of a value, of those that are next below."""
        if self.container == "list":
            if type(value) is list and self.element is not None:
                for member in value:
                    self.element.each(member, visit)
        elif self.container == "map":
            if type(value) is dict and self.element is not None:
                for member in value.values():
                    self.element.each(member, visit)
        elif type(value) is dict and self.struct is not None:
            visit(self.struct, value)

    def without_zeros(self, value: Any) -> Any:
        """See `StructCodec.without_zeros`."""
        if self.element is not None:
            strip = self.element.without_zeros
            if type(value) is list:
                members = [strip(member) for member in value]
                return value if all(new is old for new, old in zip(members, value, strict=True)) else members
            if type(value) is dict:
                named = {name: strip(member) for name, member in value.items()}
                return value if all(new is value[name] for name, new in named.items()) else named
        elif type(value) is dict and self.struct is not None:
            return self.struct.without_zeros(value)
        return value


_STRUCTS: Final[dict[tuple[str, bool], _Struct]] = {}
_COMPILING: Final = RLock()
"""Held while structures are compiled: in between, those that contain themselves are known and incomplete."""


def _struct(model: str, *, root: bool = False) -> _Struct:
    """The structure of a model, compiled once; of a root, without the fields that the store takes care of."""
    found = _STRUCTS.get((model, root))
    if found is None:
        structure = find_structure(model)
        if structure is None:
            raise KeyError(model)
        found = _STRUCTS[model, root] = _Struct(structure)
        found.compile(structure, root=root)
    return found


def _shape(described: str) -> _Shape:
    """The type that a description names."""
    match described[0]:
        case "*":
            return _pointer(_shape(described[1:]))
        case "[":
            go, _, element = described[1:].partition("]")
            return _list(go, _shape(element))
        case "{":
            go, _, element = described[1:].partition("}")
            return _map(go, _shape(element))
        case "=":
            return _value(described[1:])
    kind, _, go = described.partition(":")
    if kind == "any":
        return _Shape("interface {}", any_value, lambda: None)
    if kind == "bytes":
        return _Shape("[]uint8", raw_bytes, lambda: None)
    if kind == "string":
        return _Shape(go or kind, string(go or kind), str)
    if kind == "bool":
        return _Shape(go or kind, boolean(go or kind), bool)
    if kind in LIMITS:
        return _Shape(go or kind, integer(go or kind, *LIMITS[kind]), int)
    if kind.startswith("float"):
        return _Shape(go or kind, floating(go or kind), int)
    return _structure(_struct(kind))


def _pointer(to: _Shape) -> _Shape:
    decode_pointed = to.decode

    def decode(value: Any) -> Any:
        decoded = decode_pointed(value)
        # The target of a pointer is written even where it is zero.
        return decoded if decoded is not ZERO else value if type(value) in {list, dict} else to.zero()

    if to.struct is not None and to.element is None:
        struct = to.struct

        def decode_struct(value: Any) -> Any:
            if type(value) is not dict:
                raise MismatchError(json_type(value), struct.go)
            struct.decode(value)
            return value

        decode = decode_struct
    shape = _Shape(to.go, decode, lambda: None, struct=to.struct, container=to.container)
    shape.element = to.element
    return shape


def _structure(struct: _Struct) -> _Shape:
    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise MismatchError(json_type(value), struct.go)
        struct.decode(value)
        return value or ZERO

    return _Shape(struct.go, decode, struct.zero, struct=struct)


def _list(go: str, element: _Shape) -> _Shape:
    go = go or "[]" + element.go
    decode_element, zero = element.decode, element.zero
    unchanged = _unchanged(element)

    def decode(value: Any) -> Any:
        if type(value) is not list:
            raise MismatchError(json_type(value), go)
        for at, member in enumerate(value):
            if type(member) is unchanged:
                continue
            decoded = ZERO if member is None else decode_element(member)
            if decoded is not member:
                value[at] = zero() if decoded is ZERO else decoded
        return value or ZERO

    return _container(go, decode, "list", element)


def _map(go: str, element: _Shape) -> _Shape:
    go = go or "map[string]" + element.go
    decode_element, zero = element.decode, element.zero
    if element.go == "[]uint8":
        zero = str
    unchanged = _unchanged(element)

    def decode(value: Any) -> Any:
        if type(value) is not dict:
            raise MismatchError(json_type(value), go)
        for name, member in value.items():
            if type(member) is unchanged:
                continue
            decoded = ZERO if member is None else decode_element(member)
            if decoded is not member:
                value[name] = zero() if decoded is ZERO else decoded
        return value or ZERO

    return _container(go, decode, "map", element)


def _unchanged(element: _Shape) -> type | None:
    """The type of the elements that a container keeps as they are: of texts all, since an empty one stays, too."""
    return str if element.zero is str else None


def _container(go: str, decode: Decoder, container: str, element: _Shape) -> _Shape:
    shape = _Shape(go, decode, lambda: None, struct=element.struct, container=container)
    shape.element = element if element.struct is not None else None
    return shape


def _value(name: str) -> _Shape:
    known = go_values()[name]
    return _Shape(known.go, SELF_DECODING.get(name, any_value), lambda: known.zero)
