"""Upstream's tables of test cases, turned from Go literals back into the JSON that the literals stand for."""

from __future__ import annotations

import base64
import json
import operator
import sys
from typing import Any

from tests.corpus import CORPUS

SPECIAL = {
    "ID": "id",
    "Ref": "$ref",
    "XPreserveUnknownFields": "x-kubernetes-preserve-unknown-fields",
    "XEmbeddedResource": "x-kubernetes-embedded-resource",
    "XIntOrString": "x-kubernetes-int-or-string",
    "XListMapKeys": "x-kubernetes-list-map-keys",
    "XListType": "x-kubernetes-list-type",
    "XMapType": "x-kubernetes-map-type",
    "XValidations": "x-kubernetes-validations",
    "OpenAPIV3Schema": "openAPIV3Schema",
    "JSONPath": "jsonPath",
    "CABundle": "caBundle",
    "URL": "url",
}
CONSTANTS: dict[str, Any] = {
    "apiextensions.ClusterScoped": "Cluster",
    "apiextensions.NamespaceScoped": "Namespaced",
    "apiextensions.Established": "Established",
    "apiextensions.ConditionTrue": "True",
    "apiextensions.ConditionFalse": "False",
    "apiextensions.NoneConverter": "None",
    "apiextensions.WebhookConverter": "Webhook",
    "singleVersionList": [{"name": "version", "served": True, "storage": True}],
    "example": 1,
    "math.MinInt32": -(2**31),
    "math.MaxInt32": 2**31 - 1,
    "math.MinInt64": -(2**63),
    "math.MaxInt64": 2**63 - 1,
    "math.MaxFloat32": float.fromhex("0x1.fffffep+127"),
    "math.MaxFloat64": sys.float_info.max,
}
OPERATORS = {"+": operator.add, "-": operator.sub, "*": operator.mul}
INNER = ("apiextensions.", "pointer.", "utilpointer.", "ptr.", "[]byte", "strPtr", "jsonPtr", "float64Ptr", "int64ptr", "boolPtr")
REASONS = {
    "invalid": "FieldValueInvalid",
    "invalidIndex": "FieldValueInvalid",
    "immutable": "FieldValueInvalid",
    "required": "FieldValueRequired",
    "unsupported": "FieldValueNotSupported",
    "forbidden": "FieldValueForbidden",
    "duplicate": "FieldValueDuplicate",
    "tooMany": "FieldValueTooMany",
    "invalidtypecode": "FieldValueTypeInvalid",
}


class NotLiteralError(Exception):
    """A case is built by Go code."""


class GoTable:
    """One file of tables."""

    def __init__(self, path: str) -> None:
        assert CORPUS is not None
        folder = CORPUS / "tables" / "go-tables" / "kubernetes+apiextensions-apiserver"
        self.tables: list[dict[str, Any]] = json.loads((folder / path).read_text())
        self._named = {table["name"]: table["data"] for table in self.tables if table["rows"] != len(table["data"]) or table.get("const")}
        self._named |= {table["name"]: table["data"] for table in self.tables if isinstance(table["data"], dict)}

    def rows(self, function: str) -> list[dict[str, Any]]:
        """The cases of one test function."""
        return [row for table in self.tables if table["func"] == function and isinstance(table["data"], list) for row in table["data"]]

    def value(self, literal: Any) -> Any:
        """The JSON of a literal.

        Raises:
            NotLiteralError: it is not a literal.
        """
        if isinstance(literal, list):
            return [self.value(part) for part in literal]
        if not isinstance(literal, dict):
            return literal
        if (call := literal.get("$call")) is not None:
            if call == "jsonSlice":
                return self.value(literal["args"])
            if isinstance(call, str) and call.startswith(INNER):
                return self.value(literal["args"][0])
            raise NotLiteralError(str(call))
        if (name := literal.get("$id")) is not None:
            if name in CONSTANTS:
                return json.loads(json.dumps(CONSTANTS[name]))
            if name in self._named:
                return self.value(self._named[name])
            raise NotLiteralError(name)
        if "$op" in literal:
            return OPERATORS[literal["$op"]](self.value(literal["l"]), self.value(literal["r"]))
        if literal.get("$unary") == "-":
            return -self.value(literal["x"])
        if "$pos" in literal:
            return [self._fields(part) if "$type" not in part else self.value(part) for part in literal["$pos"]]
        if any(name.startswith("$") and name != "$type" for name in literal):
            raise NotLiteralError(str(literal)[:60])
        return self._typed(literal)

    def _fields(self, literal: dict[str, Any]) -> dict[str, Any]:
        return {name[0].lower() + name[1:]: self.value(part) for name, part in literal.items()}

    def _typed(self, literal: dict[str, Any]) -> Any:
        kind = literal.get("$type", "")
        fields = {name: self.value(part) for name, part in literal.items() if name != "$type"}
        if kind.endswith("JSONSchemaPropsOrBool"):
            return fields["Schema"] if fields.get("Schema") is not None else fields.get("Allows", False)
        if kind.endswith("JSONSchemaPropsOrArray"):
            return fields["Schema"] if fields.get("Schema") is not None else fields.get("JSONSchemas")
        if kind == "schema.JSON":
            return fields["Object"]
        if not kind:
            return fields
        return {SPECIAL.get(name, name[0].lower() + name[1:]): part for name, part in fields.items()}

    def structural(self, literal: dict[str, Any] | None) -> dict[str, Any]:
        """The JSON schema of a `Structural`, whose keywords are spread over its members."""
        schema: dict[str, Any] = {}
        for member in ("Generic", "Extensions", "ValueValidation"):
            for name, part in ((literal or {}).get(member) or {}).items():
                if name == "Default":
                    schema["default"] = self.value(part["Object"])
                elif name != "$type":
                    schema[SPECIAL.get(name, name[0].lower() + name[1:])] = self.value(part)
        for name, part in (literal or {}).items():
            if name == "Properties":
                schema["properties"] = {field: self.structural(child) for field, child in part.items()}
            elif name == "Items":
                schema["items"] = self.structural(part)
            elif name == "AdditionalProperties":
                inner = part.get("Structural")
                schema["additionalProperties"] = part.get("Bool", False) if inner is None else self.structural(inner)
        return schema

    def definition(self, literal: Any) -> dict[str, Any]:
        """The v1 CRD of an internal one: what the internal type has once, each version has."""
        crd: dict[str, Any] = self.value(literal)
        crd["metadata"] = crd.pop("objectMeta", {})
        spec = crd.setdefault("spec", {})
        spec.setdefault("versions", [])
        if "version" in spec and not spec["versions"]:
            spec["versions"] = [{"name": spec["version"], "served": True, "storage": True}]
        names = {"validation": "schema"}
        for name in ("validation", "subresources", "additionalPrinterColumns", "selectableFields"):
            if name in spec:
                shared = spec.pop(name)
                for version in spec["versions"]:
                    version.setdefault(names.get(name, name), shared)
        if conversion := spec.get("conversion"):
            webhook = {}
            if (client := conversion.pop("webhookClientConfig", None)) is not None:
                webhook["clientConfig"] = client
                if isinstance(bundle := client.get("caBundle"), str):
                    client["caBundle"] = base64.b64encode(bundle.encode()).decode()
            if "conversionReviewVersions" in conversion:
                webhook["conversionReviewVersions"] = conversion.pop("conversionReviewVersions")
            elif conversion.get("strategy") == "Webhook":
                # The test function fills this in too.
                webhook["conversionReviewVersions"] = ["v1beta1"]
            if webhook:
                conversion["webhook"] = webhook
        return crd

    def errors(self, literals: list[dict[str, Any]] | None) -> set[tuple[str, str]]:
        """The reasons and fields that a case expects."""
        expected = set()
        for literal in literals or ():
            args = [self.value(part) for part in literal["args"]]
            path = ".".join(args[1:]) + f"[{args[0]}]" if literal["$call"] == "invalidIndex" else ".".join(args)
            expected.add((REASONS[literal["$call"]], path))
        return expected
