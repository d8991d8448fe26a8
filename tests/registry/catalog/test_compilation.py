"""A CRD becomes served resources, once for all clusters that have an equal one."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from kcp_py.apimachinery.meta.table import CUSTOM_RESOURCE_COLUMNS
from kcp_py.apimachinery.meta.timestamps import parse_time
from kcp_py.registry.catalog.compilation import CompiledCRDs, is_served
from kcp_py.registry.custom_resources import CustomResourceStrategy, printer_columns
from kcp_py.registry.resource import ALL_VERBS, ServedResource
from tests.client.registry import ROOT, make_crd
from tests.registry.conftest import stored

SIZED = {"schema": {"openAPIV3Schema": {"type": "object", "properties": {"size": {"type": "integer", "default": 3}}}}}


def compiled(crd: dict[str, Any]) -> list[ServedResource]:
    return list(CompiledCRDs(ROOT).compile(crd).resources)


def only(crd: dict[str, Any]) -> ServedResource:
    (resource,) = compiled(crd)
    return resource


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(item) for item in value] if isinstance(value, list) else value


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(stored(uid="2", generation=7, labels={"a": "b"}, annotations={"c": "d"}), id="other metadata"),
        pytest.param(stored(None, "NamesAccepted", "Established", "NonStructuralSchema"), id="another condition"),
        pytest.param(stored(None, "Established"), id="names in conflict since"),
        pytest.param(reordered(stored()), id="members in another order"),
    ],
)
def test_equal_content_is_compiled_once(other: dict[str, Any]) -> None:
    """Only what serving depends on counts."""
    definitions = CompiledCRDs(ROOT)
    first = definitions.compile(stored())
    assert definitions.compile(other) is first
    assert len(definitions) == 1


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(stored(make_crd(shortNames=["wd"])), id="names"),
        pytest.param(stored(versions=[SIZED]), id="schema"),
        pytest.param(stored(versions=[{"additionalPrinterColumns": []}]), id="columns"),
        pytest.param(stored(None, "NamesAccepted"), id="not established"),
        pytest.param(stored(None, "NamesAccepted", "Established", "Terminating"), id="terminating"),
        pytest.param(stored(deletionTimestamp="2026-01-01T00:00:00Z"), id="being deleted"),
        pytest.param(stored() | {"status": {"acceptedNames": {"plural": "widgets", "kind": "Was"}}}, id="accepted names"),
    ],
)
def test_other_content_is_compiled_again(other: dict[str, Any]) -> None:
    """Nothing that is served differently is ever shared."""
    definitions = CompiledCRDs(ROOT)
    first, second = definitions.compile(stored()), definitions.compile(other)
    assert first is not second
    assert first.digest != second.digest


def test_it_goes_with_its_last_user() -> None:
    """What no cluster has any more is not kept, and compiled anew when it comes back."""
    definitions = CompiledCRDs(ROOT)
    users = [definitions.compile(stored(uid=uid)) for uid in ("1", "2")]
    users.pop()
    gc.collect()
    assert len(definitions) == 1
    digest = users.pop().digest
    gc.collect()
    assert len(definitions) == 0
    assert definitions.compile(stored()).digest == digest


@pytest.mark.parametrize(
    ("conditions", "served"),
    [(("Unrelated",), False), (("NamesAccepted",), True), (("Established",), True), (("NamesAccepted", "Established"), True)],
)
def test_served(conditions: tuple[str, ...], *, served: bool) -> None:
    """Requests are answered once the names are accepted, and still when they got into conflict after that."""
    crd = stored(None, *conditions)
    assert is_served(crd) is served
    assert not is_served(crd | {"status": {}})
    assert not is_served({key: value for key, value in crd.items() if key != "status"})


def test_names_and_place() -> None:
    """A resource has the CRD's names, and keys that are distinct from those of built-ins."""
    resource = only(stored(make_crd(shortNames=["wd"], categories=["all"])))
    assert (resource.group_version, resource.resource, resource.singular) == ("example.com/v1", "widgets", "widget")
    assert (resource.kind, resource.list_kind, resource.short_names, resource.categories) == ("Widget", "WidgetList", ("wd",), ("all",))
    assert (resource.keys.prefix, resource.keys.namespaced) == ("/registry/example.com/widgets/customresources/", True)
    assert (resource.namespaced, resource.typed, resource.has_status, resource.verbs) == (True, False, False, ALL_VERBS)


def test_cluster_scope_and_status() -> None:
    """The scope decides about keys, the subresource about `/status`."""
    crd = stored(versions=[{"subresources": {"status": {}}}])
    crd["spec"]["scope"] = "Cluster"
    resource = only(crd)
    assert (resource.namespaced, resource.keys.namespaced, resource.has_status) == (False, False, True)


def test_accepted_names_are_served() -> None:
    """A name that was asked for and is another's is not: as upstream, the resource keeps the one it was given before."""
    crd = stored(make_crd(singular="new", shortNames=["taken"], listKind="News"))
    crd["status"]["acceptedNames"] = {"plural": "widgets", "kind": "Old", "listKind": "OldList", "singular": "old"}
    resource = only(crd)
    assert (resource.kind, resource.list_kind, resource.singular, resource.short_names) == ("Old", "OldList", "old", ())


def test_a_terminating_crd_takes_no_new_objects() -> None:
    """Discovery offers what empties it."""
    resource = only(stored(deletionTimestamp="2026-01-01T00:00:00Z"))
    assert resource.verbs == ("delete", "deletecollection", "get", "list", "watch")


def test_versions() -> None:
    """Only served ones become resources; equal schemas are one, so that objects need no conversion between them."""
    crd = stored(versions=[{"name": "v3", "served": False}, {"name": "v2"}, {"name": "v1", **SIZED}])
    second, first = compiled(crd)
    assert (second.version, first.version) == ("v2", "v1")
    assert {second.storage_version, first.storage_version} == {"v3"}
    assert second.schema is second.storage_schema is first.storage_schema
    assert first.schema is not first.storage_schema
    obj: dict[str, Any] = {}
    first.schema.default(obj)
    assert obj == {"size": 3}
    assert first.document == SIZED["schema"]["openAPIV3Schema"]


def test_a_version_without_a_schema_is_served() -> None:
    """As CRDs that were stored before schemas were required."""
    crd = stored()
    del crd["spec"]["versions"][0]["schema"]
    assert only(crd).document == {}


def test_storage_version_hash() -> None:
    """The hash of upstream's discovery documents, here that of deployments."""
    crd = stored(make_crd("deployments", "apps", kind="Deployment"))
    assert only(crd).storage_version_hash == "8aSe+NMegvE="


@pytest.mark.parametrize(
    ("versions", "warnings"),
    [
        pytest.param([{"name": "v1"}], (), id="not deprecated"),
        pytest.param([{"name": "v1", "deprecated": True}], ("example.com/v1 Widget is deprecated",), id="nothing newer"),
        pytest.param([{"name": "v1", "deprecated": True, "deprecationWarning": "no more"}], ("no more",), id="its own words"),
        pytest.param(
            [{"name": "v1beta1", "deprecated": True}, {"name": "v2"}, {"name": "v1"}, {"name": "v3", "served": False}],
            ("example.com/v1beta1 Widget is deprecated; use example.com/v2 Widget",),
            id="the newest that is served",
        ),
        pytest.param(
            [{"name": "v2", "deprecated": True}, {"name": "v1"}, {"name": "v3", "deprecated": True}],
            ("example.com/v2 Widget is deprecated",),
            id="only older or deprecated ones",
        ),
    ],
)
def test_deprecation(versions: list[dict[str, Any]], warnings: tuple[str, ...]) -> None:
    """A deprecated version warns as upstream's `crdHandler` does."""
    assert compiled(stored(versions=versions))[0].warnings == warnings


def test_selectable_fields() -> None:
    """They are labels of field selectors, without the dot that JSONPath begins with."""
    resource = only(stored(versions=[{"selectableFields": [{"jsonPath": ".spec.color"}, {"jsonPath": ".spec.size"}]}]))
    assert resource.field_labels == {"spec.color": "spec.color", "spec.size": "spec.size"}


def test_columns_by_default() -> None:
    """Name and age, unless the version declares its own: those follow the name alone."""
    assert printer_columns(None) is printer_columns(()) is CUSTOM_RESOURCE_COLUMNS
    declared: list[dict[str, Any]] = [
        {"name": "Size", "type": "integer", "jsonPath": ".spec.size", "description": "how large", "priority": 1, "format": "int32"},
        {"name": "Color", "type": "string", "jsonPath": ".spec.color"},
    ]
    name, size, color = printer_columns(declared)
    assert name is CUSTOM_RESOURCE_COLUMNS[0]
    assert size[:5] == ("Size", "integer", "int32", "how large", 1)
    assert color[:5] == ("Color", "string", "", "Custom resource definition column (in JSONPath format): .spec.color", 0)


NOW = parse_time("2026-01-01T00:05:00Z")


@pytest.mark.parametrize(
    ("kind", "value", "cell"),
    [
        ("string", "red", "red"),
        ("string", True, "true"),
        ("string", False, "false"),
        ("string", 3, "3"),
        ("string", 1000000.0, "1e+06"),
        ("string", [1000000.0], "[1000000]"),
        ("string", {"b": [1], "a": "<&"}, '{"a":"\\u003c\\u0026","b":[1]}'),
        ("string", [], "[]"),
        ("string", None, None),
        ("integer", 3, 3),
        ("integer", 3.0, 3),
        ("integer", -3.5, -3),
        ("integer", 1e300, -(2**63)),
        ("integer", True, None),
        ("integer", "3", None),
        ("number", 3, 3),
        ("number", 3.5, 3.5),
        ("number", False, None),
        ("number", "3", None),
        ("boolean", False, False),
        ("boolean", "false", None),
        ("date", "2026-01-01T00:00:00Z", "5m"),
        ("date", "yesterday", "<invalid>"),
        ("date", "", "<unknown>"),
        ("date", "null", "<unknown>"),
        ("date", 3, None),
    ],
)
def test_cells(kind: str, value: Any, cell: Any) -> None:
    """A cell shows what its column's type allows, and nothing where the object disagrees."""
    _, column = printer_columns([{"name": "X", "type": kind, "jsonPath": ".spec.x"}])
    shown = column.cell({"spec": {"x": value}}, NOW)
    assert (shown, type(shown)) == (cell, type(cell))
    assert column.cell({"spec": {}}, NOW) is None


NO_OBJECT = ".spec.replicas accessor error: text is of the type string, expected map[string]interface{}"
SCALE = {"subresources": {"scale": {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas"}}}


@pytest.mark.parametrize(
    ("spec", "problems"),
    [
        pytest.param({"replicas": 3}, [], id="a count"),
        pytest.param({}, [], id="none"),
        pytest.param(
            "text",
            [".spec.replicas: Invalid value: 0: " + NO_OBJECT],
            id="no object on the way",
        ),
        pytest.param({"replicas": -1}, [".spec.replicas: Invalid value: -1: should be a non-negative integer"], id="negative"),
        pytest.param(
            {"replicas": 2**31},
            [".spec.replicas: Invalid value: 2147483648: should be less than or equal to 2147483647"],
            id="beyond 32 bits",
        ),
    ],
)
def test_replicas_are_a_count(spec: Any, problems: list[str]) -> None:
    """What `/scale` shows has to fit into it; versions without `/scale` take anything."""
    obj = {"metadata": {}, "spec": spec}
    assert [str(problem) for problem in CustomResourceStrategy(SCALE).validate(obj)] == problems
    assert CustomResourceStrategy({}).validate(obj) == []
    for version in (SCALE, {}):
        assert CustomResourceStrategy(version).validate_status_update(obj, obj) == []


def test_reported_replicas_are_a_count() -> None:
    """Writes of the object or of its status return the warning."""
    obj = {"metadata": {}, "status": {"replicas": -1}}
    strategy = CustomResourceStrategy(SCALE)
    for problems in (strategy.validate(obj), strategy.validate_update(obj, obj), strategy.validate_status_update(obj, obj)):
        assert [str(problem) for problem in problems] == [".status.replicas: Invalid value: -1: should be a non-negative integer"]


def test_finalizers_that_others_could_mistake_for_theirs() -> None:
    """A new one without a domain is warned of, one that was there is not."""
    strategy = CustomResourceStrategy({})
    obj = {"metadata": {"finalizers": ["mine"]}}
    (warning,) = strategy.warnings(obj, None)
    assert "prefer a domain-qualified finalizer name" in warning
    assert strategy.warnings(obj, obj) == []
    assert not strategy.allow_unconditional_update
