"""Upstream's own cases for who owns what after a sequence of updates and applies, where the corpus is present."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from kcp_py.apimachinery.managedfields.fieldsets import FieldSet, union
from kcp_py.apimachinery.managedfields.merging import DuplicateKeyError
from kcp_py.apimachinery.managedfields.ownership import (
    ConflictsError,
    Manager,
    MissingVersionError,
    Owners,
    Versions,
    apply,
    update,
)
from kcp_py.apimachinery.managedfields.types import DEDUCED, MergeType
from tests.apimachinery.managedfields.tables import Schema, document, field_set, rows
from tests.corpus import CORPUS, needs_corpus

pytestmark = needs_corpus

if CORPUS is None:
    pytest.skip("the corpus is not on this machine", allow_module_level=True)


def _fields(*fields: tuple[str, str]) -> str:
    return "\n".join(f"    - name: {name}\n      type:\n        {kind}" for name, kind in fields)


def _struct(*fields: tuple[str, str]) -> MergeType:
    return Schema("types:\n- name: type\n  map:\n    fields:\n" + _fields(*fields)).named("type")


LEAF = _struct(("numeric", "scalar: numeric"), ("string", "scalar: string"), ("bool", "scalar: boolean"))
SETS = Schema("""types:
- name: sets
  map:
    fields:
    - name: list
      type:
        list:
          elementType:
            scalar: string
          elementRelationship: associative
""").named("sets")
ASSOCIATIVE = Schema("""types:
- name: type
  map:
    fields:
    - name: list
      type:
        namedType: associativeList
- name: associativeList
  list:
    elementType:
      namedType: myElement
    elementRelationship: associative
    keys:
    - name
- name: myElement
  map:
    fields:
    - name: name
      type:
        scalar: string
    - name: value
      type:
        scalar: numeric
""").named("type")
DUPLICATES = Schema("""types:
- name: type
  map:
    fields:
    - name: list
      type:
        list:
          elementType:
            map:
              fields:
              - name: name
                type:
                  scalar: string
              - name: value1
                type:
                  scalar: numeric
              - name: value2
                type:
                  scalar: numeric
          elementRelationship: associative
          keys:
          - name
    - name: unrelated
      type:
        scalar: numeric
    - name: set
      type:
        list:
          elementType:
            scalar: numeric
          elementRelationship: associative
""").named("type")
PORTS = Schema("""types:
- name: v1
  map:
    fields:
    - name: containerPorts
      type:
        list:
          elementType:
            map:
              fields:
              - name: port
                type:
                  scalar: numeric
              - name: protocol
                default: TCP
                type:
                  scalar: string
              - name: name
                type:
                  scalar: string
          elementRelationship: associative
          keys:
          - port
          - protocol
""").named("v1")
BOOK = Schema("""types:
- name: v1
  map:
    fields:
    - name: book
      type:
        list:
          elementType:
            map:
              fields:
              - name: chapter
                default: 1
                type:
                  scalar: numeric
              - name: section
                default: A
                type:
                  scalar: string
              - name: sentences
                type:
                  list:
                    elementType:
                      map:
                        fields:
                        - name: page
                          default: 2.0
                          type:
                            scalar: numeric
                        - name: line
                          default: 3
                          type:
                            scalar: numeric
                        - name: text
                          type:
                            scalar: string
                    elementRelationship: associative
                    keys:
                    - page
                    - line
          elementRelationship: associative
          keys:
          - chapter
          - section
""").named("v1")
NESTED = Schema(rows("typed/remove_test.json", None, "nestedTypesSchema")).named("type")
STRUCT, ATOMIC_STRUCT = (
    Schema(f"""types:
- name: v1
  map:
    fields:
    - name: struct
      type:
        map:
          fields:
          - name: numeric
            type:
              scalar: numeric
          - name: string
            type:
              scalar: string
          elementRelationship: {relationship}
""").named("v1")
    for relationship in ("separable", "atomic")
)
MULTIVERSION = {
    version: Schema(f"""types:
- name: {version}
  map:
    fields:
    - name: struct
      type:
        namedType: struct
    - name: version
      type:
        scalar: string
- name: struct
  map:
    fields:
    - name: name
      type:
        scalar: string
    - name: scalarField_{version}
      type:
        scalar: string
    - name: complexField_{version}
      type:
        namedType: complex
- name: complex
  map:
    fields:
    - name: name
      type:
        scalar: string
""").named(version)
    for version in ("v1", "v2", "v3")
}

SAME_VERSION = [
    ("merge/leaf_test.json", "TestUpdateLeaf", LEAF),
    ("merge/set_test.json", "TestUpdateSet", SETS),
    ("merge/nested_test.json", "TestUpdateNestedType", NESTED),
    ("merge/duplicates_test.json", "TestDuplicates", DUPLICATES),
    ("merge/default_keys_test.json", "TestDefaultKeysFlat", PORTS),
    ("merge/default_keys_test.json", "TestDefaultKeysNested", BOOK),
    ("merge/deduced_test.json", "TestDeduced", DEDUCED),
    ("merge/multiple_appliers_test.json", "TestMultipleAppliersSet", ASSOCIATIVE),
    ("merge/multiple_appliers_test.json", "TestMultipleAppliersNestedType", NESTED),
]


def filled(literal: Any, names: dict[str, str]) -> Any:
    """A literal with the versions that a table has as variables filled in."""
    if isinstance(literal, list):
        return [filled(part, names) for part in literal]
    if not isinstance(literal, dict):
        return literal
    match literal.get("$call"):
        case "fmt.Sprintf":
            pattern, *arguments = filled(literal["args"], names)
            return pattern % tuple(arguments)
        case "typed.YAMLObject":
            return filled(literal["args"][0], names)
    return names[literal["$id"]] if "$id" in literal else {name: filled(part, names) for name, part in literal.items()}


def cases(path: str, function: str, kind: MergeType) -> Iterator[Any]:
    for name, case in rows(path, function, "tests").items():
        yield pytest.param(kind, case, id=f"{function}-{name}")


def same_form(kind: MergeType, version: str) -> Versions:
    """All versions have one form."""
    return Versions(version, kind, lambda obj, _version: (kind, obj))


def renamed(version: str) -> Versions:
    """Each version has fields that carry its name."""

    def convert(obj: Any, wanted: str) -> tuple[MergeType, Any]:
        if wanted not in MULTIVERSION:
            raise MissingVersionError(wanted)
        return MULTIVERSION[wanted], json.loads(re.sub(r"_v\d\b", f"_{wanted}", json.dumps(obj)))

    return Versions(version, MULTIVERSION[version] if version else LEAF, convert)


def repeated(version: str) -> Versions:
    """Names are written once in v1, twice in v2, and so on."""

    def rename(value: Any, times: int) -> Any:
        if not isinstance(value, dict):
            return value
        return {name[:1] * times: rename(child, times) for name, child in value.items()}

    def convert(obj: Any, wanted: str) -> tuple[MergeType, Any]:
        if obj is None:
            return NESTED, None
        return NESTED, {name: rename(child, int(wanted[1:])) for name, child in obj.items()}

    return Versions(version, NESTED, convert)


class State:
    """An object and its owners."""

    def __init__(self, versions: Any) -> None:
        self.versions = versions
        self.obj: Any = None
        self.owners: Owners = {}

    def run(self, operation: dict[str, Any], ignored: FieldSet) -> None:
        version = operation["APIVersion"]
        versions: Versions = self.versions(version)
        given = document(operation["Object"])
        live = self.obj if self.obj is None else versions.convert(self.obj, version)[1]
        kind = operation["$type"].rpartition(".")[2]
        manager = Manager(operation["Manager"], "Update" if kind == "Update" else "Apply")
        before = json.dumps([live, given])
        if kind == "Update":
            self.owners, _ = update(versions, live, given, self.owners, manager, ignored=ignored)
            self.obj = given
        else:
            try:
                new, owners = apply(versions, live, given, self.owners, manager, force=kind == "ForceApply", ignored=ignored)
                assert not operation.get("Conflicts"), "the apply conflicts"
                self.obj, self.owners = new, owners
            except ConflictsError as refused:
                conflicts = refused.conflicts
                wanted: dict[str, FieldSet] = {}
                for conflict in operation["Conflicts"]["$pos"]:
                    path = field_set({"args": [conflict["Path"]]})
                    wanted[conflict["Manager"]] = union(wanted.get(conflict["Manager"], {}), path)
                assert {other.name: owned.fields for other, owned in conflicts.items()} == wanted
        assert json.loads(before) == [live, given], "inputs stay as they are"


def check(case: dict[str, Any], versions: Any, ignored: FieldSet | None = None) -> None:
    state = State(versions)
    for operation in case["Ops"]:
        state.run(operation, ignored or {})
    if "Object" in case:
        wanted, found = document(case["Object"]), state.obj
        if case.get("APIVersion") and found is not None:
            found = versions("").at(found, case["APIVersion"])[1]
        assert found == wanted or (not found and not wanted)
    if "Managed" in case:
        wanted_owners = {
            name: (field_set(literal["args"][0]), literal["args"][1]) for name, literal in case["Managed"].items() if name != "$type"
        }
        assert {manager.name: (owned.fields, owned.api_version) for manager, owned in state.owners.items()} == wanted_owners


@pytest.mark.parametrize(("kind", "case"), [found for table in SAME_VERSION for found in cases(*table)])
def test_one_form(kind: MergeType, case: dict[str, Any]):
    """Object, owners and conflicts are upstream's after every sequence."""
    check(case, lambda version: same_form(kind, version))


@pytest.mark.parametrize(
    "case", [found.values[1] for found in cases("merge/multiple_appliers_test.json", "TestMultipleAppliersRealConversion", NESTED)]
)
def test_other_names_in_other_versions(case: dict[str, Any]):
    """Owners of other versions are followed through conversion."""
    check(case, repeated)


@pytest.mark.parametrize("order", ["123", "132", "213", "231", "312", "321"])
def test_renamed_fields(order: str):
    """Fields that have other names in other versions are unset through conversion."""
    for case in rows("merge/multiple_appliers_test.json", "testMultipleAppliersFieldUnsetting", "tests").values():
        check(filled(case, {f"v{place}": f"v{digit}" for place, digit in enumerate(order, start=1)}), renamed)


@pytest.mark.parametrize("case", [found.values[1] for found in cases("merge/ignore_test.json", "TestIgnoredFields", DEDUCED)])
def test_ignored_fields(case: dict[str, Any]):
    """Fields that an endpoint resets get no owner."""
    check(case, lambda version: same_form(DEDUCED, version), field_set(case["IgnoredFields"]["v1"]))


@pytest.mark.parametrize(
    "case", [found.values[1] for found in cases("merge/schema_change_test.json", "TestGranularToAtomicSchemaChanges", STRUCT)]
)
def test_what_becomes_atomic(case: dict[str, Any]):
    """Owners of parts own the whole, once it can only be owned as a whole."""
    kind = STRUCT
    state = State(lambda version: same_form(kind, version))
    for operation in case["Ops"]:
        if operation["$type"].endswith("ChangeParser"):
            kind = ATOMIC_STRUCT
        else:
            state.run(operation, {})
    assert state.obj == document(case["Object"])
    assert {manager.name: owned.fields for manager, owned in state.owners.items()} == {
        name: field_set(literal["args"][0]) for name, literal in case["Managed"].items() if name != "$type"
    }


@pytest.mark.parametrize(("kind", "case"), list(cases("merge/default_keys_test.json", "TestDefaultKeysFlatErrors", PORTS)))
def test_ambiguous_default_keys(kind: MergeType, case: dict[str, Any]):
    """Two items with the same keys, defaults included, are refused."""
    with pytest.raises(DuplicateKeyError):
        check(case, lambda version: same_form(kind, version))
