"""What the constructors of upstream's CEL tests make, as the JSON schemas and values that they stand for.

Source: k8s.io/apiextensions-apiserver `pkg/apiserver/schema/cel/validation_test.go` and `compilation_test.go`.
"""

from __future__ import annotations

import textwrap
from collections.abc import Callable
from typing import Any

import yaml

from tests.schema.go_tables import GoTable, NotLiteralError

Schema = dict[str, Any]


def primitive(kind: str, form: str = "") -> Schema:
    return {"type": kind, **({"format": form} if form else {})}


TYPES: dict[str, Schema] = {
    "stringType": primitive("string"),
    "stringSchema": primitive("string"),
    "byteType": primitive("string", "byte"),
    "booleanType": primitive("boolean"),
    "integerType": primitive("integer"),
    "int32Type": primitive("integer", "int32"),
    "int64Type": primitive("integer", "int64"),
    "numberType": primitive("number"),
    "floatType": primitive("number", "float"),
    "doubleType": primitive("number", "double"),
    "durationFormat": primitive("string", "duration"),
    "dateFormat": primitive("string", "date"),
    "dateTimeFormat": primitive("string", "date-time"),
}
REASONS = {
    "forbiddenReason": "FieldValueForbidden",
    "apiextensions.FieldValueDuplicate": "FieldValueDuplicate",
    "apiextensions.FieldValueRequired": "FieldValueRequired",
    "apiextensions.FieldValueForbidden": "FieldValueForbidden",
    "field.ErrorTypeForbidden": "FieldValueForbidden",
    "field.ErrorTypeInvalid": "FieldValueInvalid",
    "field.ErrorTypeDuplicate": "FieldValueDuplicate",
    "field.ErrorTypeRequired": "FieldValueRequired",
    "celconfig.RuntimeCELCostBudget": 10_000_000,
}


def objects(properties: dict[str, Schema]) -> Schema:
    return {"type": "object", "properties": properties}


def lists(list_type: str, keys: list[str] | None, items: Schema) -> Schema:
    kinds = {"x-kubernetes-list-type": list_type} if list_type else {}
    return {"type": "array", "items": items, **kinds, **({"x-kubernetes-list-map-keys": keys} if keys else {})}


def with_rule(schema: Schema, rule: str, **more: Any) -> Schema:
    return {**schema, "x-kubernetes-validations": [*schema.get("x-kubernetes-validations", ()), {"rule": rule, **more}]}


def numbered(*values: Any) -> dict[str, Any]:
    return {f"val{index + 1}": value for index, value in enumerate(values)}


def formatted(template: str, *values: Any) -> str:
    for value in values:
        mark = next(mark for mark in ("%d", "%f", "%s") if mark in template)
        template = template.replace(mark, f"{value:f}" if mark == "%f" else str(value), 1)
    return template


def selector(rule: str) -> Schema:
    expression = objects(
        {"key": primitive("string"), "operator": primitive("string"), "values": lists("atomic", None, primitive("string"))},
    )
    return with_rule(objects({"matchExpressions": lists("atomic", None, expression)}), rule)


def from_yaml(text: str) -> Any:
    return yaml.safe_load(textwrap.dedent(text.replace("\t", "  ")))


CALLS: dict[str, Callable[..., Any]] = {
    "objs": numbered,
    "schemas": lambda *values: objects(numbered(*values)),
    "objectType": objects,
    "objectTypePtr": objects,
    "listType": lambda items: lists("atomic", None, items),
    "listTypePtr": lambda items: lists("atomic", None, items),
    "listSetType": lambda items: lists("set", None, items),
    "listMapType": lambda keys, items: lists("map", keys, items),
    "listMapTypePtr": lambda keys, items: lists("map", keys, items),
    "arrayType": lists,
    "mapType": lambda values: {"type": "object", "additionalProperties": values},
    "mapTypePtr": lambda values: {"type": "object", "additionalProperties": values},
    "intOrStringType": lambda: {"x-kubernetes-int-or-string": True},
    "withRule": with_rule,
    "withRulePtr": with_rule,
    "cloneWithRule": with_rule,
    "withReasonAndFldPath": lambda schema, rule, path, reason: with_rule(
        schema, rule, fieldPath=path, **({"reason": reason} if reason else {})
    ),
    "withNullable": lambda nullable, schema: {**schema, "nullable": nullable},
    "withNullablePtr": lambda nullable, schema: {**schema, "nullable": nullable},
    "withMaxLength": lambda schema, limit: {**schema, "maxLength": limit},
    "withMaxItems": lambda schema, limit: {**schema, "maxItems": limit},
    "withMaxProperties": lambda schema, limit: {**schema, "maxProperties": limit},
    "withDefault": lambda default, schema: {**schema, "default": default},
    "ValsEqualThemselvesAndDataLiteral": lambda one, other, literal: f"{one} == {literal} && {literal} == {one} && {one} == {other}",
    "fmt.Sprintf": formatted,
    "genString": lambda count, character: character * count,
    "genMatchSelectorSchema": selector,
    "mustSchema": from_yaml,
    "mustUnstructured": from_yaml,
    "float32": float,
    "nilInterfaceOfStringSlice": lambda: None,
}


class CelTable(GoTable):
    """One file of tables whose cases are built by constructors."""

    def value(self, literal: Any) -> Any:
        """The JSON of a literal or of a constructor's call.

        Raises:
            NotLiteralError: it is something else.
        """
        if isinstance(literal, dict):
            if (call := literal.get("$call")) is not None and isinstance(call, str) and call in CALLS:
                return CALLS[call](*map(self.value, literal["args"]))
            if (name := literal.get("$id")) is not None and name in TYPES:
                return dict(TYPES[name])
            if name in REASONS:
                return REASONS[name]
            if "$rune" in literal:
                return literal["$rune"]
            if literal.get("$type") == "schema.Structural":
                return self.schema(literal)
            if "$sel" in literal or "$func" in literal:
                raise NotLiteralError(str(literal)[:60])
            if "$type" not in literal and not any(name.startswith("$") for name in literal):
                return {name: self.value(part) for name, part in literal.items()}
        return super().value(literal)

    def schema(self, literal: dict[str, Any]) -> Schema:
        """The JSON schema of a `Structural` or of a nested one."""
        schema: Schema = {}
        for name, part in literal.items():
            match name:
                case "Properties":
                    schema["properties"] = {field: self._node(child) for field, child in part.items()}
                case "Items":
                    schema["items"] = self._node(part)
                case "AdditionalProperties":
                    inner = part.get("Structural") if part.get("$type", "").endswith("OrBool") else part
                    schema["additionalProperties"] = part.get("Bool", False) if inner is None else self._node(inner)
                case "ValueValidation":
                    junctors = {"AllOf": "allOf", "AnyOf": "anyOf", "OneOf": "oneOf"}
                    for keyword, inner in part.items():
                        if keyword in junctors:
                            parts = inner["$pos"] if isinstance(inner, dict) else inner
                            schema[junctors[keyword]] = [self.schema(child) for child in parts]
                        elif keyword == "Not":
                            schema["not"] = self.schema(inner)
                        elif keyword != "$type":
                            schema |= self.structural({"ValueValidation": {keyword: inner}})
                case "Generic" | "Extensions" | "ValidationExtensions":
                    schema |= self.structural({"Extensions" if name == "ValidationExtensions" else name: part})
        return schema

    def _node(self, literal: dict[str, Any]) -> Schema:
        if not any(name in literal for name in ("$call", "$id", "$type", "$unary")):
            return self.schema(literal)
        if literal.get("$unary") in {"&", "*"}:
            return self._node(literal["x"])
        if literal.get("$type", "").startswith("schema."):
            return self.schema(literal)
        node: Schema = self.value(literal)
        return node
