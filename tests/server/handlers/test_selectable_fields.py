"""`selectableFields` of a definition: what lists, watches and deletes of collections can select custom resources by."""

from __future__ import annotations

from typing import Any

import pytest

from tests.server.handlers.conftest import Api, Watch, instance, make_crd
from tests.server.handlers.widgets import ALL_WIDGETS, MERGE, WIDGETS, install, spec_schema

pytestmark = pytest.mark.anyio

FIELDS = [{"jsonPath": f".spec.{name}"} for name in ("color", "quantity", "branded")]
SHIRTS = {
    "blue": {"color": "blue", "quantity": 2, "branded": False},
    "green": {"color": "green", "quantity": 2, "branded": True},
    "plain": {"quantity": 3},
    "none": {"color": None},
}
BRIEF = {"Accept": "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io"}


def shirts(**version: Any) -> dict[str, Any]:
    color = {"type": "string", "nullable": True}
    schema = spec_schema(color=color, quantity={"type": "integer"}, branded={"type": "boolean"}, other={"type": "string"})
    return make_crd(schema=schema, **{"selectableFields": FIELDS, **version})


async def filled(api: Api) -> None:
    await install(api, shirts())
    for name, spec in SHIRTS.items():
        await api.ok("POST", WIDGETS, instance(name, spec=spec))


async def names(api: Api, selector: str, path: str = WIDGETS, **headers: str) -> list[str]:
    listed = await api.ok("GET", path, params={"fieldSelector": selector}, headers=headers)
    return [item["metadata"]["name"] for item in listed["items"]]


@pytest.mark.parametrize(
    ("selector", "selected"),
    [
        ("spec.color=blue", ["blue"]),
        ("spec.color==blue", ["blue"]),
        ("spec.color!=blue", ["green", "none", "plain"]),
        ("spec.quantity=2", ["blue", "green"]),
        ("spec.quantity=2,spec.branded=false", ["blue"]),
        ("spec.branded=true,metadata.name=green", ["green"]),
        ("spec.branded=true,metadata.name=blue", []),
        ("spec.color=", ["none", "plain"]),
        ("spec.quantity=02", []),
        ("metadata.namespace=default,spec.branded=false", ["blue"]),
        ("metadata.namespace=other,spec.branded=false", []),
    ],
)
async def test_lists(api: Api, selector: str, selected: list[str]) -> None:
    """Values are compared as texts, a missing one and null as the empty text; requirements are joined by `and`."""
    await filled(api)
    assert await names(api, selector) == selected
    assert await names(api, selector, ALL_WIDGETS) == selected
    assert await names(api, selector, **BRIEF) == selected


async def test_fields_and_labels_together(api: Api) -> None:
    """An object has to satisfy both selectors."""
    await filled(api)
    for name in ("green", "plain"):
        await api.ok("PATCH", f"{WIDGETS}/{name}", {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    listed = await api.ok("GET", WIDGETS, params={"fieldSelector": "spec.quantity=2", "labelSelector": "a=b"})
    assert [item["metadata"]["name"] for item in listed["items"]] == ["green"]


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("field", ["spec.other", "spec", ".spec.color", "status.color", "metadata.labels"])
async def test_other_fields_are_refused(api: Api, method: str, field: str) -> None:
    """400 in upstream's words, for what exists and for what does not."""
    await filled(api)
    status = await api.fails(400, method, WIDGETS, params={"fieldSelector": f"{field}=blue"})
    assert (status["reason"], status["message"]) == ("BadRequest", f"field label not supported: {field}")
    assert len(await names(api, "")) == len(SHIRTS)


async def test_watches_are_refused_in_the_same_words(api: Api) -> None:
    """Before anything is streamed."""
    await filled(api)
    status = await api.fails(400, "GET", WIDGETS, params={"fieldSelector": "spec.other=a", "watch": "true"})
    assert status["message"] == "field label not supported: spec.other"


async def test_the_namespace_is_no_field_of_cluster_scoped_objects(api: Api) -> None:
    """Only their names are selectable in addition to the declared fields."""
    crd = shirts()
    crd["spec"]["scope"] = "Cluster"
    await install(api, crd)
    path = "/clusters/a/apis/example.com/v1/widgets"
    await api.ok("POST", path, instance("one", spec={"color": "blue"}))
    assert await names(api, "spec.color=blue,metadata.name=one", path) == ["one"]
    status = await api.fails(400, "GET", path, params={"fieldSelector": "metadata.namespace=default"})
    assert status["message"] == "field label not supported: metadata.namespace"


@pytest.mark.parametrize("path", [WIDGETS, ALL_WIDGETS], ids=["one cluster", "wildcard"])
async def test_watches_see_arrivals_and_departures(api: Api, path: str) -> None:
    """An update into the selection is ADDED, one within it MODIFIED, one out of it DELETED."""
    await install(api, shirts())
    async with Watch(api, path, fieldSelector="spec.color=blue") as watch:
        await api.ok("POST", WIDGETS, instance("one", spec={"color": "green"}))
        for spec in ({"color": "blue"}, {"quantity": 1}, {"color": "green"}, {"color": "blue"}):
            await api.ok("PATCH", f"{WIDGETS}/one", {"spec": spec}, headers=MERGE)
        await api.ok("DELETE", f"{WIDGETS}/one")
        assert [(await watch.brief())[0] for _ in range(5)] == ["ADDED", "MODIFIED", "DELETED", "ADDED", "DELETED"]


async def test_collections_are_deleted_as_selected(api: Api) -> None:
    """Objects that are not selected stay; the answer is the list of the deleted ones."""
    await filled(api)
    deleted = await api.ok("DELETE", WIDGETS, params={"fieldSelector": "spec.quantity=2"})
    assert (deleted["kind"], [item["metadata"]["name"] for item in deleted["items"]]) == ("WidgetList", ["blue", "green"])
    assert await names(api, "") == ["none", "plain"]


async def test_each_version_has_its_own(api: Api) -> None:
    """A field that only another version declares is refused."""
    crd = shirts()
    (first,) = crd["spec"]["versions"]
    # As upstream, versions with equal schemas have to have equal fields.
    schema = {"openAPIV3Schema": first["schema"]["openAPIV3Schema"] | {"description": "another one"}}
    crd["spec"]["versions"] = [first, {**first, "name": "v2", "storage": False, "selectableFields": FIELDS[:1], "schema": schema}]
    await install(api, crd)
    await api.ok("POST", WIDGETS, instance("one", spec=SHIRTS["blue"]))
    second = WIDGETS.replace("/v1/", "/v2/")
    assert await names(api, "spec.color=blue", second) == await names(api, "spec.quantity=2") == ["one"]
    await api.fails(400, "GET", second, params={"fieldSelector": "spec.quantity=2"})


async def test_defaults_are_selected_by(api: Api) -> None:
    """An object from before a default is selected by the value that it is shown with."""
    await filled(api)
    operation = [{"op": "add", "path": "/spec/versions/0/schema/openAPIV3Schema/properties/spec/properties/branded/default", "value": True}]
    path = "/clusters/a/apis/apiextensions.k8s.io/v1/customresourcedefinitions/widgets.example.com"
    await api.ok("PATCH", path, operation, headers={"Content-Type": "application/json-patch+json"})
    assert await names(api, "spec.branded=true") == ["green", "none", "plain"]


async def test_publication(api: Api) -> None:
    """Both OpenAPIs name the fields on the model of the kind, and nothing where there are none."""
    await install(api, shirts())
    await install(api, make_crd("gadgets"))
    third = (await api.ok("GET", "/clusters/a/openapi/v3/apis/example.com/v1"))["components"]["schemas"]
    second = (await api.ok("GET", "/clusters/a/openapi/v2"))["definitions"]
    for models in (third, second):
        assert models["com.example.v1.Widget"]["x-kubernetes-selectable-fields"] == [
            {"fieldPath": "spec.color"},
            {"fieldPath": "spec.quantity"},
            {"fieldPath": "spec.branded"},
        ]
        assert "x-kubernetes-selectable-fields" not in models["com.example.v1.Gadget"]
