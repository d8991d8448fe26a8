"""Parts of CRDs in messages."""

from __future__ import annotations

from kcp_py.schema.crd.printing import invalid_struct, members_set, printed_schema, printed_versions

EMPTY = (
    '{"ID":"","Schema":"","Ref":null,"Description":"","Type":"","Nullable":false,"Format":"","Title":"","Default":null,"Maximum":null,'
    '"ExclusiveMaximum":false,"Minimum":null,"ExclusiveMinimum":false,"MaxLength":null,"MinLength":null,"Pattern":"","MaxItems":null,'
    '"MinItems":null,"UniqueItems":false,"MultipleOf":null,"Enum":null,"MaxProperties":null,"MinProperties":null,"Required":null,'
    '"Items":null,"AllOf":null,"OneOf":null,"AnyOf":null,"Not":null,"Properties":null,"AdditionalProperties":null,'
    '"PatternProperties":null,"Dependencies":null,"AdditionalItems":null,"Definitions":null,"ExternalDocs":null,"Example":null,'
    '"XPreserveUnknownFields":null,"XEmbeddedResource":false,"XIntOrString":false,"XListMapKeys":null,"XListType":null,"XMapType":null,'
    '"XValidations":null}'
)


def test_every_member_is_printed_in_the_order_of_the_struct():
    """Under its Go name, set or not."""
    assert invalid_struct("spec", printed_schema({}), "no").text == f"Invalid value: {EMPTY}: no"


def test_schemas_within_schemas():
    """Unions print all their members; maps come in order of their keys, lists as they are."""
    string = EMPTY.replace('"Type":""', '"Type":"string"')

    def shown(**schema: object) -> str:
        return invalid_struct("", printed_schema(schema), "").text

    assert f'"Items":{{"Schema":{string},"JSONSchemas":null}}' in shown(items={"type": "string"})
    assert f'"Items":{{"Schema":null,"JSONSchemas":[{string}]}}' in shown(items=[{"type": "string"}])
    assert '"AdditionalProperties":{"Allows":false,"Schema":null}' in shown(additionalProperties=False)
    assert f'"AdditionalProperties":{{"Allows":true,"Schema":{string}}}' in shown(additionalProperties={"type": "string"})
    assert f'"Properties":{{"a":{EMPTY},"b":{string}}}' in shown(properties={"b": {"type": "string"}, "a": {}})
    assert '"Dependencies":{"a":{"Schema":null,"Property":["b"]}}' in shown(dependencies={"a": ["b"]})
    assert '"Default":{"a":1,"b":[]}' in shown(default={"b": [], "a": 1})
    assert '"ExternalDocs":{"Description":"","URL":"x"}' in shown(externalDocs={"url": "x"})


def test_versions_are_printed_without_what_they_have_in_common():
    """It is a part of the specification then."""
    version = {
        "name": "v1",
        "served": True,
        "schema": {"openAPIV3Schema": {}},
        "subresources": {"status": {}, "scale": {"specReplicasPath": ".spec.a"}},
        "additionalPrinterColumns": [{"name": "A", "type": "string", "jsonPath": ".a"}],
        "selectableFields": [{"jsonPath": ".b"}],
    }
    (printed,) = printed_versions([version], frozenset({"schema"}))
    assert printed == {
        "Name": "v1",
        "Served": True,
        "Storage": False,
        "Deprecated": False,
        "DeprecationWarning": None,
        "Schema": None,
        "Subresources": {
            "Status": {},
            "Scale": {"SpecReplicasPath": ".spec.a", "StatusReplicasPath": "", "LabelSelectorPath": None},
        },
        "AdditionalPrinterColumns": [{"Name": "A", "Type": "string", "Format": "", "Description": "", "Priority": 0, "JSONPath": ".a"}],
        "SelectableFields": [{"JSONPath": ".b"}],
    }


def test_members_that_are_set():
    """Pointers and lists are there when they are not null, flags and texts when they say something."""
    schema = {"$ref": "", "type": "", "nullable": False, "maxProperties": 0, "enum": [], "not": {}, "default": None, "title": "a"}
    assert members_set(schema) == ["Ref", "Title", "Enum", "MaxProperties", "Not"]
