"""The rules of CustomResourceDefinitions."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from kcp_py.schema.crd.validation import default_crd, initial_status, validate_crd, warnings_for_crd

STRING = {"type": "string"}


def crd(schema: dict[str, Any] | None = None, **spec: Any) -> dict[str, Any]:
    """A valid CRD of one version with `schema` below `spec`, and members of the CRD's spec replaced."""
    version = {
        "name": "v1",
        "served": True,
        "storage": True,
        "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": schema or {"type": "object"}}}},
    }
    definition = {
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "widgets", "kind": "Widget"},
            "versions": [version],
            **spec,
        },
    }
    default_crd(definition)
    definition["status"] = initial_status(definition)
    return definition


def root(schema: dict[str, Any], **version: Any) -> dict[str, Any]:
    """A CRD whose whole schema is given."""
    definition = crd()
    definition["spec"]["versions"][0].update(version, schema={"openAPIV3Schema": schema})
    return definition


def messages(definition: dict[str, Any], old: dict[str, Any] | None = None) -> list[str]:
    return [str(error) for error in validate_crd(definition, old)]


SPEC = "spec.validation.openAPIV3Schema.properties[spec]"


def test_defaults():
    """Singular, listKind, conversion and the service's port are filled; scope is not."""
    definition = crd()
    assert definition["spec"]["names"] == {"plural": "widgets", "kind": "Widget", "singular": "widget", "listKind": "WidgetList"}
    assert definition["spec"]["conversion"] == {"strategy": "None"}
    assert messages(definition) == []
    webhook = crd(conversion={"strategy": "Webhook", "webhook": {"clientConfig": {"service": {"name": "a", "namespace": "b"}}}})
    assert webhook["spec"]["conversion"]["webhook"]["clientConfig"]["service"]["port"] == 443


SPECS: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no scope": ({"scope": ""}, ["spec.scope: Required value"]),
    "wrong scope": ({"scope": "x"}, ['spec.scope: Unsupported value: "x": supported values: "Cluster", "Namespaced"']),
    "group without a dot": (
        {"group": "example"},
        [
            'metadata.name: Invalid value: "widgets.example.com": must be spec.names.plural+"."+spec.group',
            'spec.group: Invalid value: "example": should be a domain with at least one dot',
        ],
    ),
    "conversion that must not have a webhook": (
        {"conversion": {"strategy": "None", "webhook": {"clientConfig": {"url": "https://x"}, "conversionReviewVersions": ["v1"]}}},
        [
            "spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook",
            "spec.conversion.conversionReviewVersions: Forbidden: should not be set when strategy is not set to Webhook",
        ],
    ),
    "webhook over http": (
        {"conversion": {"strategy": "Webhook", "webhook": {"clientConfig": {"url": "http://x"}, "conversionReviewVersions": ["v1", "v1"]}}},
        [
            (
                "spec.conversion.webhookClientConfig.url: Invalid value: \"http\": 'https' is the only allowed URL scheme; "
                "desired format: https://host[/path]"
            ),
            'spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version',
        ],
    ),
    "preserveUnknownFields": (
        {"preserveUnknownFields": True},
        [
            (
                "spec.preserveUnknownFields: Invalid value: true: cannot set to true, "
                "set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead"
            )
        ],
    ),
    "kind and listKind": (
        {"names": {"plural": "widgets", "kind": "Widget", "listKind": "Widget"}},
        ['spec.names.listKind: Invalid value: "Widget": kind and listKind may not be the same'],
    ),
}


@pytest.mark.parametrize("case", SPECS)
def test_rules_of_the_spec(case):
    """Each rule is reported with upstream's path and text."""
    spec, expected = SPECS[case]
    assert messages(crd(**spec)) == expected


def test_versions_are_unique_with_one_storage_version_and_a_schema():
    """All three rules speak at once; a version name is a DNS-1035 label."""
    definition = crd(versions=[{"name": "v1.0", "storage": True}, {"name": "v1", "storage": True}, {"name": "v1"}])
    fields = [(error.field, error.text.rpartition(": ")[2]) for error in validate_crd(definition)]
    assert fields[:3] == [(f"spec.versions[{index}].schema.openAPIV3Schema", "Required value") for index in range(3)]
    assert fields[3][0] == "spec.versions[0].name"
    assert fields[4:] == [
        ("spec.versions", "must contain unique version names"),
        ("spec.versions", "must have exactly one version marked as storage version"),
        ("spec.version", fields[3][1]),
        ("status.storedVersions", "must have the storage version v1"),
    ]


STRUCTURAL: dict[str, tuple[dict[str, Any], list[str]]] = {
    "no type": ({"properties": {"a": STRING}}, [f"{SPEC}.type: Required value: must not be empty for specified object fields"]),
    "unknown type": (
        {"type": "bogus"},
        [f'{SPEC}.type: Unsupported value: "bogus": supported values: "array", "boolean", "integer", "number", "object", "string"'],
    ),
    "array without items": ({"type": "array"}, [f"{SPEC}.items: Required value: must be specified"]),
    "items without type": (
        {"type": "array", "items": {}},
        [f"{SPEC}.items.type: Required value: must not be empty for specified array items"],
    ),
    "properties and additionalProperties": (
        {"type": "object", "properties": {"a": STRING}, "additionalProperties": STRING},
        [f"{SPEC}.additionalProperties: Forbidden: additionalProperties and properties are mutual exclusive"],
    ),
    "type in a junctor": (
        {"type": "object", "properties": {"a": STRING}, "anyOf": [{"properties": {"a": {"type": "string"}}}]},
        [f"{SPEC}.anyOf[0].properties[a].type: Forbidden: must be empty to be structural"],
    ),
    "int-or-string with its anyOf": ({"x-kubernetes-int-or-string": True, "anyOf": [{"type": "integer"}, {"type": "string"}]}, []),
    "pattern": (
        {"type": "string", "pattern": "a("},
        [
            (
                f'{SPEC}.pattern: Invalid value: "a(": '
                "must be a valid regular expression, but isn't: error parsing regexp: missing closing ): `a(`"
            )
        ],
    ),
    "uniqueItems": (
        {"type": "array", "items": STRING, "uniqueItems": True},
        [f"{SPEC}.uniqueItems: Forbidden: uniqueItems cannot be set to true since the runtime complexity becomes quadratic"],
    ),
    "reference": (
        {"type": "object", "$ref": "#/definitions/x"},
        [f"{SPEC}.$ref: Forbidden: $ref is not supported"],
    ),
    "default of the wrong type": (
        {"type": "object", "properties": {"a": {"type": "integer", "default": "x"}}},
        [f'{SPEC}.properties[a].default: Invalid value: "string":  in body must be of type integer: "string"'],
    ),
    "default with unknown fields": (
        {"type": "object", "properties": {"a": {"type": "object", "default": {"x": 1}}}},
        [f'{SPEC}.properties[a].default: Invalid value: {{"x":1}}: must not have unknown fields'],
    ),
    "map keys": (
        {
            "type": "array",
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["a"],
            "items": {"type": "object", "properties": {"a": STRING}},
        },
        [
            (
                f"{SPEC}.items.properties[a].default: Required value: this property is in x-kubernetes-list-map-keys, "
                "so it must have a default or be a required property"
            )
        ],
    ),
    "set of objects": (
        {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "properties": {"a": STRING}}},
        [f"{SPEC}.items.x-kubernetes-map-type: Invalid value: null: must be atomic as item of a list with x-kubernetes-list-type=set"],
    ),
    "rule without expression": (
        {"type": "object", "x-kubernetes-validations": [{"rule": " "}, {"rule": "true", "message": "a\nb"}]},
        [
            f"{SPEC}.x-kubernetes-validations[0].rule: Required value: rule is not specified",
            f'{SPEC}.x-kubernetes-validations[1].message: Invalid value: "a\\nb": must not contain line breaks',
        ],
    ),
}


@pytest.mark.parametrize("case", STRUCTURAL)
def test_rules_of_schemas(case):
    """Each rule is reported under the field of the internal type, where the only version's schema is hoisted to."""
    schema, expected = STRUCTURAL[case]
    assert messages(crd(schema)) == expected


def test_rules_of_the_root():
    """metadata is implicit, null is not an object, and with /status only some keywords may stand at the root."""
    schema = {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"labels": {"type": "object"}}}}}
    assert messages(root(schema)) == [
        (
            "spec.validation.openAPIV3Schema.properties[metadata]: Forbidden: must not specify anything other than name and generateName, "
            "but metadata is implicitly specified"
        )
    ]
    for more in ({"example": 1}, {"externalDocs": {"url": "x"}}, {"maxItems": 0}):
        assert len(messages(root({"type": "object", "properties": {"metadata": {"type": "object", **more}}}))) == 1
    assert messages(root({"type": "object", "properties": {"metadata": {"type": "object", "enum": []}}})) == []
    assert messages(root({"type": "object", "nullable": True})) == [
        "spec.validation.openAPIV3Schema.nullable: Forbidden: nullable cannot be true at the root"
    ]
    (message,) = messages(root({"type": "object", "oneOf": [{"required": ["spec"]}]}, subresources={"status": {}}))
    assert message.endswith(
        "XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the status subresource is enabled"
    )


def test_junctors_of_the_root_say_nothing_more_than_the_schema():
    """What a junctor mentions has to be specified outside of it."""
    path = "spec.validation.openAPIV3Schema"
    schema = {"type": "object", "not": {"properties": {"a": {"minLength": 1}}}}
    assert messages(root(schema)) == [f"{path}.properties[a]: Required value: because it is defined in {path}.not.properties[a]"]


def test_top_level_metadata_has_no_defaults():
    """A default of metadata.name is refused."""
    schema = {"type": "object", "properties": {"metadata": {"type": "object", "properties": {"name": {"type": "string", "default": "x"}}}}}
    assert messages(root(schema)) == [
        "spec.validation.openAPIV3Schema.properties[metadata].properties[name].default: Forbidden: must not be set in top-level metadata"
    ]


def test_differing_versions_are_reported_one_by_one():
    """Only what all versions share is hoisted."""
    definition = crd()
    second = copy.deepcopy(definition["spec"]["versions"][0]) | {"name": "v2", "storage": False}
    second["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"type": "array"}
    definition["spec"]["versions"].append(second)
    assert messages(definition) == ["spec.versions[1].schema.openAPIV3Schema.properties[spec].items: Required value: must be specified"]


def test_printer_columns_scale_and_selectable_fields():
    """Their paths are checked, and selectable fields have to exist as scalars."""
    definition = crd({"type": "object", "properties": {"color": STRING, "parts": {"type": "array", "items": STRING}}})
    definition["spec"]["versions"][0] |= {
        "additionalPrinterColumns": [{"name": "A", "type": "x", "format": "y", "jsonPath": "a"}, {}],
        "subresources": {"scale": {"specReplicasPath": ".x", "statusReplicasPath": ".status.x", "labelSelectorPath": "foo,bar"}},
        "selectableFields": [
            {"jsonPath": ".spec.color"},
            {"jsonPath": ".spec.color"},
            {"jsonPath": ".spec.parts"},
            {"jsonPath": ".spec['color']"},
            {"jsonPath": ".spec.nope"},
        ],
    }
    assert messages(definition) == [
        'spec.subresources.scale.specReplicasPath: Invalid value: ".x": should be a json path under .spec',
        'spec.subresources.scale.labelSelectorPath: Invalid value: "foo,bar": must be a simple json path starting with .',
        'spec.additionalPrinterColumns[0].type: Invalid value: "x": must be one of boolean,date,integer,number,string',
        'spec.additionalPrinterColumns[0].format: Invalid value: "y": must be one of byte,date,date-time,double,float,int32,int64,password',
        'spec.additionalPrinterColumns[0].JSONPath: Invalid value: "a": must be a simple json path starting with .',
        "spec.additionalPrinterColumns[1].name: Required value",
        "spec.additionalPrinterColumns[1].type: Required value: must be one of boolean,date,integer,number,string",
        "spec.additionalPrinterColumns[1].JSONPath: Required value",
        'spec.selectableFields[1].jsonPath: Duplicate value: ".spec.color"',
        (
            'spec.selectableFields[2].jsonPath: Invalid value: ".spec.parts": must point to a field of type string, boolean or integer. '
            "Enum string fields and strings with formats are allowed."
        ),
        "spec.selectableFields[3].jsonPath: Invalid value: \".spec['color']\": is an invalid path: array notation is not allowed",
        'spec.selectableFields[4].jsonPath: Invalid value: ".spec.nope": is an invalid path: does not refer to a valid field',
    ]


def test_names_are_immutable():
    """Group and plural always, scope and kind once established."""
    old = crd()
    new = copy.deepcopy(old)
    new["spec"]["scope"] = "Cluster"
    assert messages(new, old) == []
    old["status"]["conditions"] = [{"type": "Established", "status": "True"}]
    new["spec"]["names"]["kind"] = "Gadget"
    assert messages(new, old) == [
        'spec.scope: Invalid value: "Cluster": field is immutable',
        'spec.names.kind: Invalid value: "Gadget": field is immutable',
    ]


def test_stored_versions_must_stay():
    """A version in which objects may be stored cannot be removed."""
    old = crd()
    old["status"]["storedVersions"] = ["v0", "v1"]
    assert messages(old, old) == [
        (
            'status.storedVersions[0]: Invalid value: "v0": missing from spec.versions; '
            "v0 was previously a storage version, and must remain in spec.versions until "
            "a storage migration ensures no data remains persisted in v0 and removes v0 from status.storedVersions"
        )
    ]
    old["status"]["storedVersions"] = []
    assert messages(old) == ["status.storedVersions: Invalid value: []: must have at least one stored version"]


def test_versions_of_one_name_are_stored_once():
    """A second storage version of the same name finds that name taken; no version at all is told as Go prints nothing."""
    definition = crd()
    definition["spec"]["versions"] *= 2
    assert messages(definition)[-1] == 'status.storedVersions: Invalid value: ["v1"]: must have the storage version v1'
    nothing = crd()
    nothing["spec"]["versions"] = None
    nothing["status"]["storedVersions"] = None
    assert messages(nothing) == [
        "spec.versions: Invalid value: null: must have exactly one version marked as storage version",
        "status.storedVersions: Invalid value: null: must have at least one stored version",
    ]


def test_a_conversion_without_strategy_is_not_filled():
    """Only a conversion that is not there becomes None."""
    assert messages(crd(conversion={})) == ["spec.conversion.strategy: Required value"]
    assert crd(conversion=None)["spec"]["conversion"] == {"strategy": "None"}


def test_paths_of_services_are_read_without_their_first_character():
    """As upstream, whatever it is; no path, and a service without names, need no words."""
    client = {"service": {"name": "", "namespace": "", "path": "a"}}
    path = "spec.conversion.webhookClientConfig.service"
    conversion = {"strategy": "Webhook", "webhook": {"clientConfig": client, "conversionReviewVersions": ["v1"]}}
    assert messages(crd(conversion=conversion)) == [
        f"{path}.name: Required value",
        f"{path}.namespace: Required value",
        f"{path}.path: Invalid value: \"a\": must start with a '/'",
        f'{path}.path: Invalid value: "a": segment[0] may not be empty',
    ]
    client["service"] = {"name": "a", "namespace": "b", "path": ""}
    assert messages(crd(conversion=conversion)) == []


def test_a_dialect_of_schemas_is_refused_where_nothing_else_is():
    """`$schema` is the one keyword that only the conversion to a structural schema speaks of; fieldPath is not looked at then either."""
    refused = "spec.validation.openAPIV3Schema: Invalid value: \"\": OpenAPIV3Schema 'schema' is not supported"
    rule = {"rule": "true", "fieldPath": ".x"}
    assert messages(crd({"type": "string", "$schema": "x"})) == [refused]
    assert messages(
        crd({"type": "object", "x-kubernetes-validations": [rule], "properties": {"a": {"type": "string", "$schema": "x"}}})
    ) == [refused]
    assert messages(crd({"type": "object", "properties": {"a": {"type": "string", "$schema": "x", "id": "y"}}})) == [
        f"{SPEC}.properties[a].id: Forbidden: id is not supported"
    ]


def test_selectable_fields_need_the_schema_beside_them():
    """What all versions have in common moves to the specification: fields there and schemas in versions, or the other way, do not meet."""
    definition = crd({"type": "object", "properties": {"a": STRING, "b": STRING}})
    first = definition["spec"]["versions"][0]
    first["selectableFields"] = [{"jsonPath": ".spec.a"}]
    second = {**first, "name": "v2", "storage": False}
    definition["spec"]["versions"].append(second)
    assert messages(definition) == []
    second["selectableFields"] = [{"jsonPath": ".spec.b"}]
    assert messages(definition) == [
        f'spec.versions[{index}].selectableFields: Invalid value: "": may only be set when `version.schema.openAPIV3Schema` is not included'
        for index in range(2)
    ]
    second["selectableFields"] = first["selectableFields"]
    second["schema"] = {"openAPIV3Schema": {"type": "object"}}
    assert messages(definition) == ['spec.selectableFields: Invalid value: "": may only be set when validations.schema is included']


def test_what_was_already_broken_may_stay():
    """Rules that the stored CRD violates are not enforced on its update."""
    broken = crd({"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "properties": {"a": STRING}}})
    assert len(messages(broken)) == 1
    assert messages(broken, broken) == []
    assert len(messages(broken, crd())) == 1


def test_protected_groups_need_approval():
    """The annotation has to be a URL or say unapproved; an unchanged state is let through."""
    definition = crd(group="x.k8s.io")
    definition["metadata"]["name"] = "widgets.x.k8s.io"
    (missing,) = validate_crd(definition)
    assert missing.field == "metadata.annotations[api-approved.kubernetes.io]"
    assert missing.text == (
        'Required value: protected groups must have approval annotation "api-approved.kubernetes.io", '
        "see https://github.com/kubernetes/enhancements/pull/1111"
    )
    assert messages(definition, definition) == []
    for value, count in (("https://github.com/x", 0), ("unapproved, testing", 0), ("yes", 1)):
        definition["metadata"]["annotations"] = {"api-approved.kubernetes.io": value}
        assert len(messages(definition)) == count


def test_kinds_of_kubernetes_may_be_brought_by_definitions():
    """The groups of Kubernetes need no dot, and those of the core group are called after it."""
    core = crd(group="", names={"plural": "pods", "kind": "Pod"})
    core["metadata"]["name"] = "pods.core"
    assert messages(core) == []
    assert messages(crd(group="apps") | {"metadata": {"name": "widgets.apps"}}) == []


def test_warnings():
    """Unrecognised formats are named when they are new, sets of objects always."""
    definition = crd({"type": "string", "format": "made-up"})
    assert warnings_for_crd(definition) == ['unrecognized format "made-up"']
    assert warnings_for_crd(definition, definition) == []
    objects = {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "object", "x-kubernetes-map-type": "atomic"}}
    assert warnings_for_crd(crd(objects)) == [
        'x-kubernetes-list-type: set for items of type "object" is not supported by server-side apply or CEL validation rules'
    ]


@pytest.mark.parametrize(
    "spec",
    [
        [],
        {"versions": {}},
        {"versions": [1]},
        {"names": []},
        {"versions": [{"name": 1, "schema": {"openAPIV3Schema": {"properties": []}}}]},
    ],
)
def test_wrong_types_are_errors_not_failures(spec):
    """A document of any shape is answered with errors."""
    assert messages({"metadata": {"name": "x"}, "spec": spec})


def test_deep_schemas_are_errors_not_failures():
    """Neither too deep for the stack nor too deep for the limit ends in an exception."""
    for depth in (150, 3000):
        schema: dict[str, Any] = {"type": "object"}
        for _ in range(depth):
            schema = {"type": "array", "items": schema}
        assert messages(crd(schema))
