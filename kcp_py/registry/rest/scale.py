"""Scale, the kind of `/scale`: how bodies become one, and how an object is seen as one.

The object keeps its own kind everywhere below the verbs: a Scale exists in requests and answers alone.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Any, Final

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apimachinery.meta.decoding import mismatch
from kcp_py.registry.rest.conform import cannot_be_handled
from kcp_py.schema.compilation import StructuralSchema, compile_schema
from kcp_py.schema.models import validation_schema
from kcp_py.schema.structural.merge_types import merge_type
from kcp_py.schema.structural.nodes import read_schema

_INT32: Final = "int32"
_STRING: Final = "string"
_STRUCTS: Final[Mapping[str, tuple[str, Mapping[str, str]]]] = {
    "spec": ("ScaleSpec", {"replicas": _INT32}),
    "status": ("ScaleStatus", {"replicas": _INT32, "selector": _STRING}),
}
"""Field -> the struct it is of, and the types of that one's fields (k8s.io/api `autoscaling/v1`)."""
_ROOT_FIELDS: Final = frozenset({"apiVersion", "kind", "metadata", *_STRUCTS})


class _ScaleSchema:
    """A `conform.BodySchema` as strict as the decoder of a typed kind."""

    def type_error(self, obj: dict[str, Any]) -> None:
        """Types are looked at while pruning."""

    def prune(self, obj: dict[str, Any]) -> list[str]:
        """Drop unknown fields and say which.

        Raises:
            StatusError: 400 for values of the wrong type: a decoder meets those first.
        """
        unknown = [field for field in obj if field not in _ROOT_FIELDS]
        for field in unknown:
            del obj[field]
        for field, (struct, types) in _STRUCTS.items():
            value = obj.get(field)
            if value is None:
                obj.pop(field, None)
                continue
            if not isinstance(value, dict):
                raise _mismatch(value, f"Scale.{field}", f"v1.{struct}")
            obj[field] = {name: child for name, child in value.items() if name in types and child is not None}
            for name, child in obj[field].items():
                if not (_is_int32(child) if types[name] is _INT32 else isinstance(child, str)):
                    raise _mismatch(child, f"{struct}.{field}.{name}", types[name])
            unknown += [f"{field}.{name}" for name in value if name not in types]
        return unknown

    def strict_errors(self, document: Any) -> list[str]:
        """See `schema.contract.CompiledSchema.strict_errors`."""
        return _form().strict_errors(document)

    def default(self, obj: dict[str, Any], limit: int = 0) -> None:
        """Missing fields are zero."""


class ScaleKind:
    """A `conform.BodyKind`: autoscaling/v1 Scale."""

    group = "autoscaling"
    version = "v1"
    kind = "Scale"
    group_version = "autoscaling/v1"
    accepts: tuple[str, ...] = ()
    typed = True
    schema = _ScaleSchema()


SCALE: Final = ScaleKind()
_NUMBER: Final = {"type": "integer"}
SCALE_TYPE: Final = merge_type(
    read_schema(
        {
            "type": "object",
            "properties": {
                "spec": {"type": "object", "properties": {"replicas": _NUMBER}},
                "status": {"type": "object", "properties": {"replicas": _NUMBER, "selector": {"type": "string"}}},
            },
        }
    ),
    resource=True,
)


@cache
def _form() -> StructuralSchema:
    """The schema of the kind."""
    document, definitions = validation_schema("io.k8s.api.autoscaling.v1.Scale")
    return compile_schema(document, definitions=definitions, custom=False)


def _is_int32(value: Any) -> bool:
    return type(value) is int and -(2**31) <= value < 2**31


def _mismatch(value: Any, struct_field: str, go_type: str) -> StatusError:
    if go_type is _INT32 and isinstance(value, int | float) and not isinstance(value, bool):
        problem = f"json: cannot unmarshal number {value} into Go struct field {struct_field} of type {go_type}"
    else:
        problem = mismatch(value, struct_field, go_type)
    return cannot_be_handled(SCALE, problem)
