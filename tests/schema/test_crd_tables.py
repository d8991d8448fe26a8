"""Upstream's own cases for the rules of definitions, where the corpus is present."""

from __future__ import annotations

from typing import Any

from kcp_py.apimachinery.fielderrors import FieldError
from kcp_py.schema.crd.openapi_schema import SchemaRules
from kcp_py.schema.crd.validation import validate_crd
from kcp_py.schema.crd.versions import VersionRules, validation_errors
from tests.corpus import needs_corpus
from tests.schema.go_tables import GoTable, NotLiteralError

pytestmark = needs_corpus

TABLE = "pkg/apis/apiextensions/validation/validation_test.json"

DIFFERENT = {
    "webhook conversion without preserveUnknownFields=false": "v1 has no unset preserveUnknownFields",
    "bad names 01": "v1 has no spec.version",
    "per-version fields may not all be set to identical values (top-level field should be used instead)": "v1 has them per version",
    "top-level and per-version fields are mutually exclusive": "v1 has no top-level fields",
    "selectableFields with duplicate jsonPaths are invalid": "equal selectable fields of all versions are hoisted on the way from v1",
    "invalid x-kubernetes-validations for escaping (keywords are invalid field names before v1.30)": "the newest environment is used",
}
"""Cases of the internal type that say nothing of v1, and of environments of the past."""


def differences(expected: set[tuple[str, str]], errors: list[FieldError]) -> set[tuple[str, str]]:
    """Missing and surplus errors."""
    return expected ^ {(error.reason, error.field) for error in errors}


def check(function: str, judge: Any) -> int:
    """Run all literal cases of a function; answers with their number."""
    table = GoTable(TABLE)
    checked = 0
    failed = {}
    for row in table.rows(function):
        if row["name"] in DIFFERENT:
            continue
        try:
            expected, errors = judge(table, row)
        except NotLiteralError:
            continue
        checked += 1
        if different := differences(expected, errors):
            failed[row["name"]] = (different, [str(error) for error in errors])
    assert not failed
    return checked


def test_definitions_on_create():
    """Reasons and fields of all errors are upstream's."""

    def judge(table: GoTable, row: dict[str, Any]) -> tuple[set[tuple[str, str]], list[FieldError]]:
        return table.errors(row.get("errors")), validate_crd(table.definition(row["resource"]), builtin_groups=frozenset())

    assert check("TestValidateCustomResourceDefinition", judge) >= 50
    assert check("TestSelectableFields", judge) >= 4


def test_definitions_on_update():
    """Ratcheting and immutability are upstream's."""

    def judge(table: GoTable, row: dict[str, Any]) -> tuple[set[tuple[str, str]], list[FieldError]]:
        old, new = table.definition(row["old"]), table.definition(row["resource"])
        return table.errors(row.get("errors")), validate_crd(new, old)

    assert check("TestValidateCustomResourceDefinitionUpdate", judge) >= 38


def test_schemas():
    """The rules of one schema, each switched on and off."""

    def judge(table: GoTable, row: dict[str, Any]) -> tuple[set[tuple[str, str]], list[FieldError]]:
        options = row.get("opts") or {}
        rules = VersionRules(
            schema=SchemaRules(
                require_valid_types=bool(options.get("requireValidPropertyType")),
                require_atomic_sets=bool(options.get("requireAtomicSetType")),
                require_map_keys=bool(options.get("requireMapListKeysMapSetValidation")),
                defaults_forbidden=None if options.get("allowDefaults") else "",
            ),
            require_structural=bool(options.get("requireStructuralSchema")),
        )
        errors = validation_errors(table.value(row["input"]), "spec.validation", rules, has_status=bool(row.get("statusEnabled")))
        return table.errors(row.get("expectedErrors")), errors

    assert check("TestValidateCustomResourceDefinitionValidation", judge) >= 110
