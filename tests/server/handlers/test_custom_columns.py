"""Tables of custom resources: their own columns, in single objects, lists and watches."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, Watch, instance, make_crd
from tests.server.handlers.widgets import ALL_WIDGETS, CRD, MERGE, WIDGETS, install

pytestmark = pytest.mark.anyio

OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
TABLE = {"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io, application/json"}
BETA = {"Accept": "application/json;as=Table;v=v1beta1;g=meta.k8s.io, application/json"}
COLUMNS: list[dict[str, Any]] = [
    {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
    {"name": "Alpha", "type": "string", "jsonPath": ".spec.alpha"},
    {"name": "Beta", "type": "integer", "jsonPath": ".spec.beta", "description": "the beta field", "format": "int64", "priority": 42},
    {"name": "Gamma", "type": "integer", "jsonPath": ".spec.gamma", "description": "a column with wrongly typed values"},
    {"name": "Epsilon", "type": "string", "jsonPath": ".spec.epsilon", "description": "an array of integers as string"},
    {"name": "Ready", "type": "string", "jsonPath": '.status.conditions[?(@.type=="Ready")].status'},
    {"name": "Since", "type": "date", "jsonPath": ".spec.since"},
]
SPEC = {"alpha": "foo_123", "beta": 10, "gamma": "bar", "epsilon": [1, 2, 3], "since": "never"}


def shown(columns: list[dict[str, Any]] | None = None, **more: Any) -> dict[str, Any]:
    version: dict[str, Any] = {"additionalPrinterColumns": columns} if columns is not None else {}
    return make_crd(schema=OPEN, **version, **more)


async def filled(api: Api) -> None:
    await install(api, shown(COLUMNS))
    await api.ok("POST", WIDGETS, instance("one", spec=SPEC))
    conditions = [{"type": "Synced", "status": "False"}, {"type": "Ready", "status": "True"}]
    await api.ok("PATCH", f"{WIDGETS}/one/status", {"status": {"conditions": conditions}}, headers=MERGE)


def cells(table: dict[str, Any]) -> list[list[Any]]:
    """The cells of each row but the age, which has to be that of a new object."""
    found = []
    for row in table["rows"]:
        name, age, *rest = row["cells"]
        assert age.endswith("s")
        found.append([name, *rest])
    return found


ROW = ["one", "foo_123", 10, None, "[1,2,3]", "True", "<invalid>"]


@pytest.mark.parametrize("headers", [TABLE, BETA], ids=["v1", "v1beta1"])
@pytest.mark.parametrize(
    "path", [WIDGETS, f"{WIDGETS}/one", f"{WIDGETS}/one/status", ALL_WIDGETS], ids=["list", "object", "status", "wildcard"]
)
async def test_columns_and_cells(api: Api, path: str, headers: dict[str, str]) -> None:
    """The name comes first; types, formats, descriptions and priorities are the definition's; wrong types are null, lists are JSON."""
    await filled(api)
    table = await api.ok("GET", path, headers=headers)
    assert (table["kind"], table["apiVersion"].rpartition("/")[0]) == ("Table", "meta.k8s.io")
    definitions = table["columnDefinitions"]
    if path is ALL_WIDGETS:
        assert (definitions.pop(0)["name"], table["rows"][0]["cells"].pop(0)) == ("Cluster", "a")
    assert [column["name"] for column in definitions] == ["Name", *(column["name"] for column in COLUMNS)]
    assert {key: definitions[0][key] for key in ("type", "format", "priority")} == {"type": "string", "format": "name", "priority": 0}
    assert definitions[0]["description"].startswith("Name must be unique within a namespace.")
    assert definitions[2] == {
        "name": "Alpha",
        "type": "string",
        "format": "",
        "description": "Custom resource definition column (in JSONPath format): .spec.alpha",
        "priority": 0,
    }
    assert definitions[3] == {"name": "Beta", "type": "integer", "format": "int64", "description": "the beta field", "priority": 42}
    assert cells(table) == [ROW]
    assert table["rows"][0]["object"]["kind"] == "PartialObjectMetadata"


@pytest.mark.parametrize("columns", [None, []], ids=["none", "an empty list"])
async def test_the_age_is_shown_where_nothing_is_declared(api: Api, columns: list[dict[str, Any]] | None) -> None:
    """Name and age, with the description of the field."""
    await install(api, shown(columns))
    await api.ok("POST", WIDGETS, instance("one"))
    table = await api.ok("GET", WIDGETS, headers=TABLE)
    name, age = table["columnDefinitions"]
    assert (name["name"], age["name"], age["type"]) == ("Name", "Age", "date")
    assert age["description"].startswith("CreationTimestamp is a timestamp representing the server time when this object was created.")
    assert cells(table) == [["one"]]


async def test_watches_send_rows(api: Api) -> None:
    """The first event has the columns, each has a row; a departure has one too."""
    await filled(api)
    async with Watch(api, WIDGETS, headers=TABLE) as watch:
        first = await watch.next()
        await api.ok("PATCH", f"{WIDGETS}/one", {"spec": {"beta": 11}}, headers=MERGE)
        second = await watch.next()
        await api.ok("DELETE", f"{WIDGETS}/one")
        third = await watch.next()
    assert first is not None
    assert second is not None
    assert third is not None
    assert [event["type"] for event in (first, second, third)] == ["ADDED", "MODIFIED", "DELETED"]
    assert [column["name"] for column in first["object"]["columnDefinitions"]][:3] == ["Name", "Age", "Alpha"]
    assert [cells(event["object"]) for event in (first, second, third)] == [[ROW], [[*ROW[:2], 11, *ROW[3:]]], [[*ROW[:2], 11, *ROW[3:]]]]


@pytest.mark.parametrize(
    ("include", "kind"), [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "Widget"), ("None", None)]
)
async def test_what_a_row_carries(api: Api, include: str, kind: str | None) -> None:
    """The metadata, the object as `kubectl --sort-by` needs it, or nothing."""
    await filled(api)
    table = await api.ok("GET", WIDGETS, headers=TABLE, params={"includeObject": include})
    found = table["rows"][0]["object"]
    assert (found and found["kind"]) == kind
    if kind == "Widget":
        assert found["spec"] == SPEC


async def test_changed_columns_are_shown_at_once(api: Api) -> None:
    """Columns can be put in the place of others, and taken away."""
    await filled(api)
    other = [{"name": "Beta", "type": "number", "jsonPath": ".spec.beta"}]
    replace = {"Content-Type": "application/json-patch+json"}
    place = "/spec/versions/0/additionalPrinterColumns"
    await api.ok("PATCH", CRD, [{"op": "replace", "path": place, "value": other}], headers=replace)
    assert [row["cells"] for row in (await api.ok("GET", WIDGETS, headers=TABLE))["rows"]] == [["one", 10]]
    await api.ok("PATCH", CRD, [{"op": "remove", "path": place}], headers=replace)
    assert cells(await api.ok("GET", WIDGETS, headers=TABLE)) == [["one"]]


async def test_each_version_has_its_own_columns(api: Api) -> None:
    """And its own `apiVersion` in the objects of its rows."""
    crd = shown(COLUMNS)
    (first,) = crd["spec"]["versions"]
    own = [{"name": "Beta", "type": "string", "jsonPath": ".spec.beta"}]
    crd["spec"]["versions"] = [first, {**first, "name": "v2", "storage": False, "additionalPrinterColumns": own}]
    await install(api, crd)
    await api.ok("POST", WIDGETS, instance("one", spec=SPEC))
    path = WIDGETS.replace("/v1/", "/v2/")
    table = await api.ok("GET", path, headers=TABLE, params={"includeObject": "Object"})
    assert [row["cells"] for row in table["rows"]] == [["one", "10"]]
    assert table["rows"][0]["object"]["apiVersion"] == "example.com/v2"


async def test_a_list_has_its_pages_as_a_table(api: Api) -> None:
    """The metadata of the list is that of the table."""
    await filled(api)
    await api.ok("POST", WIDGETS, instance("two", spec=SPEC))
    table = await api.ok("GET", WIDGETS, headers=TABLE, params={"limit": "1"})
    assert [row[0] for row in cells(table)] == ["one"]
    assert table["metadata"]["remainingItemCount"] == 1
    rest = await api.ok("GET", WIDGETS, headers=TABLE, params={"limit": "1", "continue": table["metadata"]["continue"]})
    assert [row[0] for row in cells(rest)] == ["two"]
