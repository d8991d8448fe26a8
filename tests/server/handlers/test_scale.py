"""`/scale` of custom resources: a Scale is read, replaced and patched, and nothing but the replicas changes."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from tests.server.handlers.conftest import Api, instance, make_crd
from tests.server.handlers.widgets import ALL_WIDGETS, CRDS, MERGE, WIDGETS, install

pytestmark = pytest.mark.anyio

ONE = f"{WIDGETS}/one"
SCALE = f"{ONE}/scale"
JSON_PATCH = {"Content-Type": "application/json-patch+json"}
OPEN = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
PATHS = {"specReplicasPath": ".spec.replicas", "statusReplicasPath": ".status.replicas", "labelSelectorPath": ".status.selector"}


def scalable(**more: Any) -> dict[str, Any]:
    """A CRD with `/status` and `/scale`."""
    return make_crd(schema=OPEN, **{"subresources": {"status": {}, "scale": PATHS}, **more})


async def scaled_one(api: Api, spec: Any = None) -> Any:
    """A widget with three replicas wanted, two reported."""
    await install(api, scalable())
    await api.ok("POST", WIDGETS, instance("one", spec=spec or {"replicas": 3, "size": 1}, labels={"a": "b"}))
    return await api.ok("PATCH", f"{ONE}/status", {"status": {"replicas": 2, "selector": "app=one"}}, headers=MERGE)


def scale(**spec: Any) -> dict[str, Any]:
    return {"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "one"}, "spec": spec}


async def test_a_scale_is_read(api: Api) -> None:
    """It has five fields of the object's metadata and the values at the three paths."""
    one = await scaled_one(api)
    metadata = {key: one["metadata"][key] for key in ("name", "namespace", "uid", "resourceVersion", "creationTimestamp")}
    assert await api.ok("GET", SCALE) == {
        "kind": "Scale",
        "apiVersion": "autoscaling/v1",
        "metadata": metadata,
        "spec": {"replicas": 3},
        "status": {"replicas": 2, "selector": "app=one"},
    }


async def test_zeros_are_left_out_as_in_the_typed_kind(api: Api) -> None:
    """An object without a status has zero replicas in status; zero desired replicas leave the member out."""
    await install(api, scalable())
    await api.ok("POST", WIDGETS, instance("one", spec={"replicas": 0}))
    found = await api.ok("GET", SCALE)
    assert (found["spec"], found["status"]) == ({}, {"replicas": 0})


async def test_a_put_writes_the_replicas_alone(api: Api) -> None:
    """Status, labels and annotations of a Scale are ignored; the generation rises; the answer is the new Scale."""
    one = await scaled_one(api)
    sent = await api.ok("GET", SCALE)
    sent["metadata"] |= {"labels": {"x": "y"}, "annotations": {"x": "y"}}
    answer = await api.ok("PUT", SCALE, {**sent, "spec": {"replicas": 5}, "status": {"replicas": 9, "selector": "x=y"}})
    assert (answer["kind"], answer["spec"], answer["status"]) == ("Scale", {"replicas": 5}, {"replicas": 2, "selector": "app=one"})
    found = await api.ok("GET", ONE)
    assert found["metadata"]["resourceVersion"] == answer["metadata"]["resourceVersion"] != one["metadata"]["resourceVersion"]
    assert (found["spec"], found["status"]) == ({"replicas": 5, "size": 1}, one["status"])
    assert found["metadata"]["generation"] == 2
    assert "labels" not in found["metadata"]
    assert found["metadata"]["annotations"] == one["metadata"]["annotations"]


async def test_the_lock_is_optional(api: Api) -> None:
    """A Scale with a resourceVersion is for that state alone, one without for any; a uid is a precondition."""
    one = await scaled_one(api)
    old = await api.ok("GET", SCALE)
    assert (await api.ok("PUT", SCALE, scale(replicas=4)))["spec"] == {"replicas": 4}
    status = await api.fails(409, "PUT", SCALE, {**old, "spec": {"replicas": 5}})
    assert status["message"] == (
        'Operation cannot be fulfilled on widgets.example.com "one": the object has been modified; '
        "please apply your changes to the latest version and try again"
    )
    stale = {"metadata": {"resourceVersion": old["metadata"]["resourceVersion"]}, "spec": {"replicas": 6}}
    await api.fails(409, "PATCH", SCALE, stale, headers=MERGE)
    other = scale(replicas=5)
    other["metadata"]["uid"] = "other"
    status = await api.fails(409, "PUT", SCALE, other)
    assert f"UID in precondition: other, UID in object meta: {one['metadata']['uid']}" in status["message"]
    assert (await api.ok("GET", SCALE))["spec"] == {"replicas": 4}


@pytest.mark.parametrize(
    ("body", "headers"),
    [
        pytest.param({"spec": {"replicas": 7}}, MERGE, id="merge"),
        pytest.param([{"op": "replace", "path": "/spec/replicas", "value": 7}], JSON_PATCH, id="JSON"),
        pytest.param({"spec": {"replicas": 7}, "status": {"replicas": 9}, "metadata": {"uid": "other"}}, MERGE, id="and the rest"),
    ],
)
async def test_patches(api: Api, body: Any, headers: dict[str, str]) -> None:
    """They apply to the Scale, not to the object, and are answered with it."""
    await scaled_one(api)
    answer = await api.ok("PATCH", SCALE, body, headers=headers)
    assert (answer["kind"], answer["spec"], answer["status"]["replicas"]) == ("Scale", {"replicas": 7}, 2)
    assert (await api.ok("GET", ONE))["spec"] == {"replicas": 7, "size": 1}


@pytest.mark.parametrize(
    ("method", "body", "headers"),
    [
        pytest.param("PUT", scale(replicas=3), {}, id="put"),
        pytest.param("PATCH", {}, MERGE, id="empty patch"),
        pytest.param("PATCH", {"spec": {"replicas": 3}}, MERGE, id="patch"),
    ],
)
async def test_what_changes_nothing_writes_nothing(api: Api, method: str, body: Any, headers: dict[str, str]) -> None:
    """The resourceVersion stays."""
    one = await scaled_one(api)
    answer = await api.ok(method, SCALE, body, headers=headers)
    assert answer["metadata"]["resourceVersion"] == one["metadata"]["resourceVersion"]
    assert await api.ok("GET", ONE) == one


async def test_a_dry_run_answers_and_stores_nothing(api: Api) -> None:
    """The answer has the new replicas and the old resourceVersion."""
    one = await scaled_one(api)
    for method, body, headers in (("PUT", scale(replicas=8), {}), ("PATCH", {"spec": {"replicas": 8}}, MERGE)):
        answer = await api.ok(method, SCALE, body, headers=headers, params={"dryRun": "All"})
        assert answer["spec"] == {"replicas": 8}
        assert answer["metadata"]["resourceVersion"] == one["metadata"]["resourceVersion"]
    assert await api.ok("GET", ONE) == one


async def test_strategic_merge_patches_and_others_are_refused(api: Api) -> None:
    """415: a Scale of a custom resource has no more patches than the resource."""
    await scaled_one(api)
    for kind in ("application/strategic-merge-patch+json", "application/json", "application/yaml"):
        status = await api.fails(415, "PATCH", SCALE, {"spec": {"replicas": 1}}, headers={"Content-Type": kind})
        assert status["reason"] == "UnsupportedMediaType"
    status = await api.fails(415, "PUT", SCALE, scale(replicas=1), headers={"Content-Type": "application/cbor"})
    assert status["reason"] == "UnsupportedMediaType"


HANDLED = 'Scale in version "v1" cannot be handled as a Scale: json: cannot unmarshal'


@pytest.mark.parametrize(
    ("change", "message"),
    [
        pytest.param(
            {"apiVersion": "autoscaling/v2"},
            "the API version in the data (autoscaling/v2) does not match the expected API version (autoscaling/v1)",
            id="version",
        ),
        pytest.param(
            {"kind": "Widget"},
            'Widget in version "v1" cannot be handled as a Scale: no kind "Widget" is registered for version "autoscaling/v1" in scheme ',
            id="kind",
        ),
        pytest.param(
            {"metadata": {"name": "two"}}, "the name of the object (two) does not match the name on the URL (one)", id="another name"
        ),
        pytest.param({"metadata": {}}, "the name of the object (one based on URL) was undeterminable: name must be provided", id="no name"),
        pytest.param(
            {"metadata": {"name": "one", "namespace": "other"}},
            "the namespace of the provided object does not match the namespace sent on the request",
            id="another namespace",
        ),
        pytest.param({"spec": 3}, f"{HANDLED} number into Go struct field Scale.spec of type v1.ScaleSpec", id="spec"),
        pytest.param(
            {"spec": {"replicas": "3"}}, f"{HANDLED} string into Go struct field ScaleSpec.spec.replicas of type int32", id="text"
        ),
        pytest.param(
            {"spec": {"replicas": True}}, f"{HANDLED} bool into Go struct field ScaleSpec.spec.replicas of type int32", id="truth"
        ),
        pytest.param(
            {"spec": {"replicas": 2**31}},
            f"{HANDLED} number 2147483648 into Go struct field ScaleSpec.spec.replicas of type int32",
            id="too many",
        ),
        pytest.param(
            {"spec": {"replicas": 1.5}}, f"{HANDLED} number 1.5 into Go struct field ScaleSpec.spec.replicas of type int32", id="half"
        ),
        pytest.param(
            {"status": {"replicas": 1, "selector": 3}},
            f"{HANDLED} number into Go struct field ScaleStatus.status.selector of type string",
            id="selector",
        ),
        pytest.param(
            {"metadata": {"name": 1}}, f"{HANDLED} number into Go struct field ObjectMeta.metadata.name of type string", id="metadata"
        ),
    ],
)
async def test_bodies_that_are_no_scale_of_this_object(api: Api, change: dict[str, Any], message: str) -> None:
    """400 in the words of the decoder."""
    await scaled_one(api)
    status = await api.fails(400, "PUT", SCALE, {**scale(replicas=1), **change})
    assert status["message"].startswith(message)
    assert status["reason"] == "BadRequest"


async def test_a_patch_that_makes_no_scale(api: Api) -> None:
    """422, with what the patch makes of the Scale."""
    await scaled_one(api)
    status = await api.fails(422, "PATCH", SCALE, {"spec": {"replicas": "many"}}, headers=MERGE)
    (cause,) = status["details"]["causes"]
    assert cause["field"] == "patch"
    assert cause["message"].endswith("json: cannot unmarshal string into Go struct field ScaleSpec.spec.replicas of type int32")


async def test_unknown_fields_are_told_as_the_client_asks(api: Api) -> None:
    """A Scale is a typed kind: Strict refuses with its frame, Warn says it, Ignore is silent."""
    await scaled_one(api)
    body = {**scale(replicas=1, more=1), "other": {}}
    status = await api.fails(400, "PUT", SCALE, body, params={"fieldValidation": "Strict"})
    frame = 'Scale in version "v1" cannot be handled as a Scale: strict decoding error: '
    assert status["message"] == f'{frame}unknown field "spec.more", unknown field "other"'
    response = await api("PUT", SCALE, body)
    assert response.headers.get_list("warning") == ['299 - "unknown field \\"spec.more\\""', '299 - "unknown field \\"other\\""']
    assert "warning" not in (await api("PUT", SCALE, body, params={"fieldValidation": "Ignore"})).headers
    patch = {"spec": {"more": 1}}
    status = await api.fails(422, "PATCH", SCALE, patch, headers=MERGE, params={"fieldValidation": "Strict"})
    assert 'strict decoding error: unknown field "spec.more"' in status["message"]


async def test_negative_replicas(api: Api) -> None:
    """They fit into a Scale, and are refused as the object's."""
    await scaled_one(api)
    for method, body, headers in (("PUT", scale(replicas=-1), {}), ("PATCH", {"spec": {"replicas": -1}}, MERGE)):
        status = await api.fails(422, method, SCALE, body, headers=headers)
        fault = ".spec.replicas: Invalid value: -1: should be a non-negative integer"
        assert status["message"] == f'Widget.example.com "one" is invalid: {fault}'


async def test_objects_are_held_to_what_a_scale_can_show(api: Api) -> None:
    """Create, update and status update refuse counts out of range and values of another type."""
    await scaled_one(api)
    status = await api.fails(422, "POST", WIDGETS, instance("two", spec={"replicas": 2**63 - 1}))
    fault = ".spec.replicas: Invalid value: 9223372036854775807: should be less than or equal to 2147483647"
    assert status["message"] == f'Widget.example.com "two" is invalid: {fault}'
    status = await api.fails(422, "PATCH", ONE, {"spec": {"replicas": "3"}}, headers=MERGE)
    fault = ".spec.replicas: Invalid value: 0: .spec.replicas accessor error: 3 is of the type string, expected int64"
    assert status["message"] == f'Widget.example.com "one" is invalid: {fault}'
    status = await api.fails(422, "PATCH", f"{ONE}/status", {"status": {"replicas": -1, "selector": {}}}, headers=MERGE)
    count = ".status.replicas: Invalid value: -1: should be a non-negative integer"
    selector = "map[] is of the type map[string]interface {}, expected string"
    assert status["message"] == (
        f'Widget.example.com "one" is invalid: [{count}, .status.selector: Invalid value: "": .status.selector accessor error: {selector}]'
    )


async def test_replicas_that_nobody_set(api: Api) -> None:
    """Reading fails. An update has to give the number, and creates missing parents."""
    await install(api, scalable(subresources={"scale": {**PATHS, "specReplicasPath": ".spec.deep.replicas[0]"}}))
    await api.ok("POST", WIDGETS, instance("one"))
    status = await api.fails(500, "GET", SCALE)
    assert status["reason"] == "InternalError"
    assert status["message"] == 'Internal error occurred: the spec replicas field ".spec.deep.replicas[0]" does not exist'
    status = await api.fails(400, "PATCH", SCALE, {"metadata": {"labels": {"a": "b"}}}, headers=MERGE)
    assert status["message"] == 'the spec replicas field ".spec.deep.replicas[0]" cannot be empty'
    await api.ok("PATCH", SCALE, {"spec": {"replicas": 1}}, headers=MERGE)
    assert (await api.ok("GET", ONE))["spec"] == {"deep": {"replicas[0]": 1}}
    await api.ok("POST", WIDGETS, instance("two"))
    assert (await api.ok("PUT", f"{WIDGETS}/two/scale", {**scale(), "metadata": {"name": "two"}}))["spec"] == {}
    assert (await api.ok("GET", f"{WIDGETS}/two"))["spec"] == {"deep": {"replicas[0]": 0}}


async def test_values_of_another_type_from_before_the_definition(api: Api) -> None:
    """500 with the wrong value, until the object is repaired."""
    crd = scalable(subresources={"status": {}})
    await install(api, crd)
    await api.ok("POST", WIDGETS, instance("one", spec={"replicas": "three"}))
    await api.ok("POST", WIDGETS, instance("two", spec="flat"))
    path = f"/clusters/a{CRDS}/widgets.example.com"
    operation = [{"op": "add", "path": "/spec/versions/0/subresources/scale", "value": PATHS}]
    await api.ok("PATCH", path, operation, headers=JSON_PATCH)
    status = await api.fails(500, "GET", SCALE)
    assert status["message"] == ".spec.replicas accessor error: three is of the type string, expected int64"
    assert "reason" not in status
    await api.fails(500, "PUT", SCALE, scale(replicas=1))
    status = await api.fails(500, "PATCH", f"{WIDGETS}/two/scale", {"spec": {"replicas": 1}}, headers=MERGE)
    assert status["message"] == ".spec.replicas accessor error: flat is of the type string, expected map[string]interface{}"
    await api.ok("PATCH", ONE, {"spec": {"replicas": 3}}, headers=MERGE)
    assert (await api.ok("GET", SCALE))["spec"] == {"replicas": 3}


async def test_counts_from_before_the_definition(api: Api) -> None:
    """A status is validated by itself. A write of the object, also through `/scale`, has to correct the faults of the spec."""
    await install(api, scalable(subresources={"status": {}}))
    await api.ok("POST", WIDGETS, instance("one", spec={"replicas": -3}))
    operation = [{"op": "add", "path": "/spec/versions/0/subresources/scale", "value": PATHS}]
    await api.ok("PATCH", f"/clusters/a{CRDS}/widgets.example.com", operation, headers=JSON_PATCH)
    assert (await api.ok("GET", SCALE))["spec"] == {"replicas": -3}
    assert (await api.ok("PATCH", f"{ONE}/status", {"status": {"replicas": 1}}, headers=MERGE))["status"] == {"replicas": 1}
    status = await api.fails(422, "PATCH", ONE, {"spec": {"size": 1}}, headers=MERGE)
    assert status["details"]["causes"][0]["field"] == ".spec.replicas"
    assert (await api.ok("PATCH", SCALE, {"spec": {"replicas": 3}}, headers=MERGE))["spec"] == {"replicas": 3}


async def test_what_is_not_there(api: Api) -> None:
    """404 for a missing object, whatever is done, and without the subresource; 405 for other verbs."""
    await scaled_one(api)
    missing = f"{WIDGETS}/two/scale"
    for method, body, headers in (
        ("GET", None, {}),
        ("PUT", {**scale(replicas=1), "metadata": {"name": "two"}}, {}),
        ("PATCH", {}, MERGE),
    ):
        status = await api.fails(404, method, missing, body, headers=headers)
        assert status["message"] == 'widgets.example.com "two" not found'
    for method, verb in (("POST", "create"), ("DELETE", "delete")):
        status = await api.fails(405, method, SCALE, scale(replicas=1) if method == "POST" else None)
        assert status["message"] == f'{verb} is not supported on resources of kind "widgets.example.com"'
    await install(api, make_crd("gadgets"))
    status = await api.fails(404, "GET", "/clusters/a/apis/example.com/v1/namespaces/default/gadgets/one/scale")
    assert status["message"] == 'gadgets.example.com "one" not found'


async def test_scopes(api: Api) -> None:
    """A cluster-scoped object has its Scale outside of namespaces, and no namespace in it."""
    crd = scalable()
    crd["spec"]["scope"] = "Cluster"
    await install(api, crd)
    base = "/clusters/a/apis/example.com/v1/widgets"
    await api.ok("POST", base, instance("one", spec={"replicas": 1}))
    found = await api.ok("GET", f"{base}/one/scale")
    assert "namespace" not in found["metadata"]
    assert (await api.ok("PUT", f"{base}/one/scale", {**found, "spec": {"replicas": 2}}))["spec"] == {"replicas": 2}
    for method in ("GET", "PUT", "PATCH"):
        body = scale(replicas=1) if method == "PUT" else {} if method == "PATCH" else None
        assert (await api(method, SCALE, body, headers=MERGE)).text == "404 page not found\n"
    assert (await api.fails(405, "GET", f"{ALL_WIDGETS}/one/scale"))["reason"] == "MethodNotAllowed"


async def test_versions_have_scales_of_their_own(api: Api) -> None:
    """Each version has its paths, or no `/scale` at all."""
    crd = scalable()
    (first,) = crd["spec"]["versions"]
    other = {"specReplicasPath": ".spec.count", "statusReplicasPath": ".status.count"}
    crd["spec"]["versions"] = [
        first,
        {**first, "name": "v2", "storage": False, "subresources": {"scale": other}},
        {**first, "name": "v3", "storage": False, "subresources": {"status": {}}},
    ]
    await install(api, crd)
    await api.ok("POST", WIDGETS, instance("one", spec={"replicas": 1, "count": 2}))
    second = SCALE.replace("/v1/", "/v2/")
    assert [(await api.ok("GET", path))["spec"] for path in (SCALE, second)] == [{"replicas": 1}, {"replicas": 2}]
    assert (await api.ok("PATCH", second, {"spec": {"replicas": 5}}, headers=MERGE))["spec"] == {"replicas": 5}
    assert (await api.ok("GET", ONE))["spec"] == {"replicas": 1, "count": 5}
    assert (await api("GET", SCALE.replace("/v1/", "/v3/"))).status_code == 404


async def test_representations(api: Api) -> None:
    """YAML in and out, metadata alone, and the Table with the columns of the resource over the Scale."""
    columns = [
        {"name": "Wanted", "type": "integer", "jsonPath": ".spec.replicas"},
        {"name": "Size", "type": "string", "jsonPath": ".spec.size"},
    ]
    await install(api, scalable(additionalPrinterColumns=columns))
    await api.ok("POST", WIDGETS, instance("one", spec={"replicas": 3, "size": "big"}))
    found = await api.ok("GET", SCALE)
    response = await api("GET", SCALE, headers={"Accept": "application/yaml"})
    assert response.headers["content-type"] == "application/yaml"
    assert yaml.safe_load(response.text)["spec"] == {"replicas": 3}
    body = yaml.safe_dump({**found, "spec": {"replicas": 4}}).encode()
    assert (await api.ok("PUT", SCALE, content=body, headers={"Content-Type": "application/yaml"}))["spec"] == {"replicas": 4}
    table = await api.ok("GET", SCALE, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert [row["cells"] for row in table["rows"]] == [["one", 4, None]]
    partial = await api.ok("GET", SCALE, headers={"Accept": "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io"})
    assert (partial["kind"], partial["metadata"]["uid"]) == ("PartialObjectMetadata", found["metadata"]["uid"])
    assert (await api("GET", SCALE, headers={"Accept": "application/cbor"})).status_code == 406


async def test_discovery(api: Api) -> None:
    """Behind the resource and its status, of a kind of another group, in both forms."""
    await install(api, scalable())
    listed = await api.ok("GET", "/clusters/a/apis/example.com/v1")
    assert [entry["name"] for entry in listed["resources"]] == ["widgets", "widgets/status", "widgets/scale"]
    assert listed["resources"][2] == {
        "name": "widgets/scale",
        "singularName": "",
        "namespaced": True,
        "group": "autoscaling",
        "version": "v1",
        "kind": "Scale",
        "verbs": ["get", "patch", "update"],
    }
    accept = {"Accept": "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"}
    groups = (await api.ok("GET", "/clusters/a/apis", headers=accept))["items"]
    ((version,),) = [group["versions"] for group in groups if group["metadata"]["name"] == "example.com"]
    assert version["resources"][0]["subresources"][1] == {
        "subresource": "scale",
        "responseKind": {"group": "autoscaling", "version": "v1", "kind": "Scale"},
        "verbs": ["get", "patch", "update"],
    }


async def test_publication(api: Api) -> None:
    """Both OpenAPIs have the path, with Scale as the type of bodies and answers, and its model."""
    await install(api, scalable())
    path = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/scale"
    third = await api.ok("GET", "/clusters/a/openapi/v3/apis/example.com/v1")
    operations = third["paths"][path]
    model = {"$ref": "#/components/schemas/io.k8s.api.autoscaling.v1.Scale"}
    assert operations["get"]["responses"]["200"]["content"]["application/json"]["schema"] == model
    assert operations["put"]["requestBody"]["content"]["application/json"]["schema"] == model
    assert operations["put"]["operationId"] == "replaceExampleComV1NamespacedWidgetScale"
    assert set(operations) == {"get", "patch", "put", "parameters"}
    assert "io.k8s.api.autoscaling.v1.ScaleSpec" in third["components"]["schemas"]
    second = await api.ok("GET", "/clusters/a/openapi/v2")
    assert second["paths"][path]["get"]["responses"]["200"]["schema"] == {"$ref": "#/definitions/io.k8s.api.autoscaling.v1.Scale"}
    assert second["definitions"]["io.k8s.api.autoscaling.v1.Scale"]["x-kubernetes-group-version-kind"] == [
        {"group": "autoscaling", "kind": "Scale", "version": "v1"}
    ]
