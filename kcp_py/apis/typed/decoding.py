"""Schemas of built-in kinds: compiled when first needed, and for typed kinds as strict as a decoder.

Upstream decodes a typed kind into a Go struct: a value of the wrong JSON type is refused with 400 before any rule of the kind looks at
the object. So strategies may rely on types.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from kcp_py.apimachinery.errors import DecodingError
from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.apis.typed.structs import StructCodec, struct_codec
from kcp_py.schema.compilation import compile_schema
from kcp_py.schema.contract import CompiledSchema
from kcp_py.schema.structural.default import MAX_FILLED
from kcp_py.schema.structural.nodes import Node

Source = Callable[[str], tuple[Mapping[str, Any], Mapping[str, Mapping[str, Any]]]]
"""The name of a model -> its document and the definitions that it still refers to."""

_GO_TYPES: Final = {
    "integer": "int64",
    "boolean": "bool",
    "object": "map[string]interface {}",
    "array": "[]interface {}",
    "number": "float64",
}
_JSON_TYPES: Final = {"integer": "number", "boolean": "bool"}


class DeferredSchema:
    """A `contract.CompiledSchema` that is compiled at its first use: the start does not wait for kinds that are not used yet."""

    __slots__ = ("_codec", "_compiled", "_name", "_normalize", "_source", "_typed")

    def __init__(self, source: Source, name: str, *, typed: bool, normalize: Callable[[dict[str, Any]], None] | None = None) -> None:
        """Remember what to compile.

        Args:
            source: where schemas come from.
            name: of the model.
            typed: whether clients and upstream know the kind as a struct.
            normalize: brings an object, in place, into the form that the kind's own decoders and encoders make of parts of it.
        """
        self._source = source
        self._name = name
        self._typed = typed
        self._normalize = normalize
        self._compiled: CompiledSchema | None = None
        self._codec: StructCodec | None = None

    @property
    def codec(self) -> StructCodec | None:
        """How Go reads and writes the kind; None where clients do not know it as a struct."""
        if self._codec is None and self._typed:
            self._codec = struct_codec(self._name)
        return self._codec

    @property
    def compiled(self) -> CompiledSchema:
        """The schema itself."""
        if self._compiled is None:
            document, definitions = self._source(self._name)
            self._compiled = compile_schema(document, definitions=definitions, custom=False)
        return self._compiled

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """See `contract.CompiledSchema.prune`."""
        return (self._compiled or self.compiled).prune(obj)

    def strict_errors(self, document: Any) -> list[str]:
        """See `contract.CompiledSchema.strict_errors`."""
        return (self._compiled or self.compiled).strict_errors(document)

    def type_error(self, obj: dict[str, Any]) -> FieldError | None:
        """See `contract.CompiledSchema.type_error`. Objects of typed kinds are decoded, in place.

        Raises:
            StatusError: 400 for values of the wrong type, worded as the decoder of upstream words it.
        """
        if (codec := self._codec or self.codec) is not None:
            codec.decode(obj)
        if self._normalize is not None:
            self._normalize(obj)
        return None

    def default(self, obj: dict[str, Any], limit: int = MAX_FILLED) -> None:
        """See `contract.CompiledSchema.default`. The last step of decoding: it refuses what the codec leaves alone.

        Raises:
            StatusError: 400, worded as the decoder of upstream words it.
        """
        (self._compiled or self.compiled).default(obj, limit)
        if (codec := self._codec or self.codec) is not None and not codec.covers_all:
            for problem in (self._compiled or self.compiled).validate(obj):
                if problem.reason == "FieldValueTypeInvalid":
                    raise as_decoder(obj, problem)

    def complete(self, obj: dict[str, Any]) -> None:
        """See `contract.CompiledSchema.complete`."""
        if (codec := self._codec or self.codec) is not None and codec.writes_zeros:
            codec.complete(obj)

    def restore_defaults(self, obj: dict[str, Any]) -> None:
        """See `contract.CompiledSchema.restore_defaults`."""
        (self._compiled or self.compiled).restore_defaults(obj)
        self.complete(obj)

    def validate(self, obj: dict[str, Any], old: dict[str, Any] | None = None) -> list[FieldError]:
        """See `contract.CompiledSchema.validate`."""
        codec = self._codec or self.codec
        if codec is None:
            return (self._compiled or self.compiled).validate(obj, old)
        return _without_nulls((self._compiled or self.compiled).validate(codec.without_zeros(obj), old))

    def validate_status(self, obj: dict[str, Any], old: dict[str, Any]) -> list[FieldError]:
        """See `contract.CompiledSchema.validate_status`."""
        codec = self._codec or self.codec
        problems = (self._compiled or self.compiled).validate_status(obj if codec is None else codec.without_zeros(obj), old)
        return problems if codec is None else _without_nulls(problems)

    @property
    def settler(self) -> None:
        """See `contract.CompiledSchema.settler`. Objects are decoded in any case."""

    @property
    def pattern_weight(self) -> int:
        """See `contract.CompiledSchema.pattern_weight`."""
        return 0

    @property
    def has_embedded(self) -> bool:
        """See `contract.CompiledSchema.has_embedded`: only the schemas of custom resources tell."""
        return True

    @property
    def root(self) -> Node:
        """See `contract.CompiledSchema.root`."""
        return (self._compiled or self.compiled).root

    @property
    def rules(self) -> None:
        """See `contract.CompiledSchema.rules`: what built-in kinds have of the sort is in their strategies."""


def _without_nulls(problems: list[FieldError]) -> list[FieldError]:
    """Leave out the problems of nulls: null is the zero value of any type, which some are written with."""
    return [problem for problem in problems if not (problem.reason == "FieldValueTypeInvalid" and problem.value == "null")]


def as_decoder(obj: Mapping[str, Any], problem: FieldError) -> DecodingError:
    """The error of Go's decoder for a value of the wrong type."""
    kind = obj.get("kind", "")
    version = str(obj.get("apiVersion", "")).rpartition("/")[2]
    given, wanted = str(problem.value), problem.expected
    if not wanted:
        return DecodingError(kind, version, problem.text)
    detail = (
        f"json: cannot unmarshal {_JSON_TYPES.get(given, given)} into Go struct field {kind}.{problem.field} "
        f"of type {_GO_TYPES.get(wanted, wanted)}"
    )
    return DecodingError(kind, version, detail)
