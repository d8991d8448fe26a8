"""CustomResourceDefinitions as Go decodes and encodes them: nulls, zero values, repeated rules, unknown fields."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, make_crd
from tests.server.handlers.widgets import CRD, CRDS, MERGE, WIDGETS, install, spec_schema

pytestmark = pytest.mark.anyio

ALL = f"/clusters/a{CRDS}"
STRICT = {"fieldValidation": "Strict"}
NULLS = [
    *("additionalItems", "additionalProperties", "allOf", "anyOf", "default", "definitions", "dependencies", "description", "enum"),
    *("example", "exclusiveMaximum", "externalDocs", "format", "id", "items", "maxItems", "maximum", "not", "nullable", "oneOf"),
    *("pattern", "patternProperties", "properties", "required", "title", "uniqueItems", "x-kubernetes-embedded-resource"),
    *("x-kubernetes-int-or-string", "x-kubernetes-list-map-keys", "x-kubernetes-list-type", "x-kubernetes-map-type"),
    *("x-kubernetes-preserve-unknown-fields", "x-kubernetes-validations"),
]


def schema_of(crd: dict[str, Any]) -> Any:
    """The schema of `spec.a`."""
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"]["a"]


async def test_nulls_in_schemas_are_absent(api: Api) -> None:
    """As some generators write them: accepted, not kept, also in updates and patches, and the kind is served."""
    nulls = dict.fromkeys(NULLS)
    created = await api.ok("POST", ALL, make_crd(schema=spec_schema(a={"type": "string", **nulls})), params=STRICT)
    assert schema_of(created) == {"type": "string"}
    found = await api.ok("GET", CRD)
    schema_of(found).update(nulls, maxLength=3)
    assert schema_of(await api.ok("PUT", CRD, found, params=STRICT)) == {"type": "string", "maxLength": 3}
    where = "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/a/not"
    headers = {"Content-Type": "application/json-patch+json"}
    patched = await api.ok("PATCH", CRD, [{"op": "add", "path": where, "value": None}], headers=headers)
    assert schema_of(patched) == {"type": "string", "maxLength": 3}
    assert patched["metadata"]["generation"] == 2


async def test_a_rule_may_be_there_twice(api: Api) -> None:
    """`x-kubernetes-validations` is a map by rule to those who merge it, and a list to those who check it."""
    rules = [{"rule": "self != 'b'", "message": "one"}, {"rule": "self != 'b'", "message": "two"}]
    created = await install(api, make_crd(schema=spec_schema(a={"type": "string", "x-kubernetes-validations": rules})))
    assert schema_of(created)["x-kubernetes-validations"] == rules
    sent = {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"a": "b"}}
    status = await api.fails(422, "POST", WIDGETS, sent)
    assert [cause["message"] for cause in status["details"]["causes"]] == ['Invalid value: "b": one', 'Invalid value: "b": two']


async def test_schemas_that_go_decodes_apart_may_have_unknown_fields(api: Api) -> None:
    """They are dropped silently; elsewhere strict decoding reports them."""
    items = {"type": "string", "foo": 1, "not": None}
    crd = make_crd(schema=spec_schema(a={"type": "array", "items": items}, b={"type": "object", "additionalProperties": items}))
    created = await api.ok("POST", ALL, crd, params=STRICT)
    assert schema_of(created) == {"type": "array", "items": {"type": "string"}}
    crd = make_crd(plural="gears", schema=spec_schema(a={"type": "string", "foo": 1}))
    status = await api.fails(400, "POST", ALL, crd, params=STRICT)
    where = "spec.versions[0].schema.openAPIV3Schema.properties.spec.properties.a.foo"
    assert status["message"].endswith(f'strict decoding error: unknown field "{where}"')


async def test_a_new_definition_has_no_conditions_yet(api: Api) -> None:
    """The list is null, as Go writes one that is not there."""
    created = await api.ok("POST", ALL, make_crd(), params={"dryRun": "All"})
    assert created["status"]["conditions"] is None


async def test_without_a_storage_version_only_that_is_told(api: Api) -> None:
    """Both rules that need it, and nothing about the type of the empty list."""
    status = await api.fails(422, "POST", ALL, make_crd(storage=False))
    fields = [cause["field"] for cause in status["details"]["causes"]]
    assert fields == ["spec.versions", "status.storedVersions"]
    assert "must be of type" not in status["message"]


async def test_conditions_may_come_from_others(api: Api) -> None:
    """A status that is written with the conditions null is taken."""
    await install(api)
    found = await api.ok("PATCH", f"{CRD}/status", {"status": {"conditions": None}}, headers=MERGE)
    assert found["metadata"]["name"] == "widgets.example.com"


async def test_what_go_leaves_out_is_not_kept(api: Api) -> None:
    """`preserveUnknownFields: false`, columns of priority 0 and other zero values, as `omitempty` has it; plain fields stay."""
    column = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}
    zeros = {"priority": 0, "description": "", "format": ""}
    crd = make_crd(additionalPrinterColumns=[column | zeros], selectableFields=[], deprecated=False, deprecationWarning=None)
    crd["spec"]["preserveUnknownFields"] = False
    crd["spec"]["names"] |= {"shortNames": [], "categories": None}
    created = await api.ok("POST", ALL, crd, params=STRICT)
    assert "preserveUnknownFields" not in created["spec"]
    assert created["spec"]["names"].keys() == {"plural", "singular", "kind", "listKind"}
    (version,) = created["spec"]["versions"]
    assert version["additionalPrinterColumns"] == [column]
    assert version.keys() == {"name", "served", "storage", "schema", "subresources", "additionalPrinterColumns"}
    assert (await api.ok("GET", CRD))["spec"] == created["spec"]
