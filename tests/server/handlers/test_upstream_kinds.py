"""Kinds of Kubernetes that came to a cluster as CRDs, as clients meet them."""

from __future__ import annotations

import copy
from typing import Any

import httpx
import pytest

from kcp_py.apimachinery.serializer.protobuf import decode, decode_envelope, encode_object
from kcp_py.apis.upstream.crds import crds_named
from kcp_py.controlplane import ControlPlane
from tests.server.handlers.conftest import Api, options
from tests.server.handlers.upstreamkinds import APPLY, DEPLOYMENTS, PODS, PROTOBUF, SERVICES, STRATEGIC, deployment, installed, pod
from tests.server.handlers.widgets import CRDS, install

pytestmark = pytest.mark.anyio


async def test_strategic_merge_patch(api: Api):
    """Lists are merged by the keys of the kind, with its directives, as in every Deployment that kubectl applies."""
    await installed(api, "deployments")
    created = await api.ok("POST", DEPLOYMENTS, deployment(env=[{"name": "A", "value": "1"}, {"name": "B", "value": "2"}]))
    patch = {
        "spec": {
            "strategy": {"$retainKeys": ["type"], "type": "Recreate"},
            "template": {
                "spec": {
                    "$setElementOrder/containers": [{"name": "b"}, {"name": "a"}],
                    "containers": [
                        {"name": "b", "image": "busybox"},
                        {"name": "a", "env": [{"name": "A", "$patch": "delete"}], "ports": [{"containerPort": 81}]},
                    ],
                }
            },
        }
    }
    patched = await api.ok("PATCH", f"{DEPLOYMENTS}/web", patch, headers=STRATEGIC)
    assert patched["spec"]["strategy"] == {"type": "Recreate"}
    second, first = patched["spec"]["template"]["spec"]["containers"]
    assert (second["name"], second["imagePullPolicy"]) == ("b", "Always")
    assert first["env"] == [{"name": "B", "value": "2"}]
    assert {port["containerPort"] for port in first["ports"]} == {80, 81}
    assert int(patched["metadata"]["resourceVersion"]) > int(created["metadata"]["resourceVersion"])
    again = await api.ok("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 1}}, headers=STRATEGIC)
    assert again["metadata"]["resourceVersion"] == patched["metadata"]["resourceVersion"]


async def test_a_definition_that_lacks_extensions_is_completed(api: Api):
    """A CRD from another source keeps its own rules; strategic merge and field ownership come from the kind."""
    (crd,) = copy.deepcopy(crds_named(["services"]))
    spec = crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    for keyword in ("x-kubernetes-list-type", "x-kubernetes-list-map-keys"):
        del spec["properties"]["ports"][keyword]
    spec["properties"]["type"]["enum"] = ["ClusterIP", "NodePort"]
    await install(api, crd)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"name": "a", "port": 80}]}}
    await api.ok("POST", SERVICES, service)
    patched = await api.ok("PATCH", f"{SERVICES}/web", {"spec": {"ports": [{"name": "b", "port": 81}]}}, headers=STRATEGIC)
    assert [port["port"] for port in patched["spec"]["ports"]] == [81, 80]
    owned = patched["metadata"]["managedFields"][0]["fieldsV1"]["f:spec"]["f:ports"]
    assert 'k:{"port":80,"protocol":"TCP"}' in owned
    refused = await api.fails(422, "PATCH", f"{SERVICES}/web", {"spec": {"type": "Other"}}, headers=STRATEGIC)
    assert "spec.type: Unsupported value" in refused["message"]


async def test_typed_clients_can_use_a_definition_of_another_making(api: Api):
    """They write protobuf and read it; what does not fit the message they are told, and others go on."""
    (crd,) = copy.deepcopy(crds_named(["services"]))
    version = crd["spec"]["versions"][0]
    del version["selectableFields"]
    version["schema"]["openAPIV3Schema"]["properties"]["spec"] = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    await install(api, crd)
    service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    created = await api("POST", SERVICES, content=encode_object(service), headers={"Content-Type": PROTOBUF, "Accept": PROTOBUF})
    assert created.status_code == 201
    assert created.headers["content-type"] == PROTOBUF
    envelope = decode_envelope(created.content)
    assert decode("io.k8s.api.core.v1.Service", envelope.raw)["spec"]["ports"][0]["port"] == 80
    stored = await api.ok("GET", f"{SERVICES}/web")
    assert stored["spec"]["ports"][0]["port"] == 80
    await api.ok("POST", SERVICES, {**service, "metadata": {"name": "odd"}, "spec": {"ports": "none"}})
    status = await api("GET", f"{SERVICES}/odd", headers={"Accept": PROTOBUF})
    assert status.status_code == 500
    assert b"spec.ports: expected an array" in status.content
    assert (await api.ok("GET", f"{SERVICES}/odd"))["spec"]["ports"] == "none"


async def test_an_ordinary_custom_resource_takes_no_strategic_merge_patch(api: Api):
    """Unknown media types are 415."""
    await install(api)
    await api.ok(
        "POST",
        "/clusters/a/apis/example.com/v1/namespaces/default/widgets",
        {"apiVersion": "example.com/v1", "kind": "Widget", "metadata": {"name": "one"}, "spec": {"size": 1}},
    )
    await api.fails(415, "PATCH", "/clusters/a/apis/example.com/v1/namespaces/default/widgets/one", {}, headers=STRATEGIC)


async def test_decoding_is_that_of_the_kind(api: Api):
    """Types are refused with 400 in the decoder's words, unknown fields as for compiled-in kinds; what must be there, with 422."""
    await installed(api, "deployments")
    wrong = deployment()
    wrong["spec"]["replicas"] = "three"
    refused = await api.fails(400, "POST", DEPLOYMENTS, wrong)
    assert refused["message"].startswith(
        'Deployment in version "v1" cannot be handled as a Deployment: json: cannot unmarshal string into Go struct field'
    )
    unknown = deployment()
    unknown["spec"]["other"] = 1
    refused = await api.fails(400, "POST", f"{DEPLOYMENTS}?fieldValidation=Strict", unknown)
    assert refused["message"] == (
        'Deployment in version "v1" cannot be handled as a Deployment: strict decoding error: unknown field "spec.other"'
    )
    quantity = deployment(resources={"limits": {"cpu": "much"}})
    assert "quantities must match the regular expression" in (await api.fails(400, "POST", DEPLOYMENTS, quantity))["message"]
    empty = {"metadata": {"name": "empty"}}
    causes = (await api.fails(422, "POST", DEPLOYMENTS, empty))["details"]["causes"]
    assert {cause["field"] for cause in causes} == {"spec.selector", "spec.template.metadata.labels", "spec.template.spec.containers"}


async def test_what_upstream_takes_twice_is_taken_twice(api: Api):
    """An environment variable may repeat, a container's name may not."""
    await installed(api, "deployments")
    await api.ok("POST", DEPLOYMENTS, deployment(env=[{"name": "A", "value": "1"}, {"name": "A", "value": "2"}]))
    twice = deployment("twice")
    twice["spec"]["template"]["spec"]["containers"] *= 2
    refused = await api.fails(422, "POST", DEPLOYMENTS, twice)
    assert refused["details"]["causes"][0]["reason"] == "FieldValueDuplicate"


async def test_defaults(api: Api):
    """A read shows what a real server would have filled in, so that applying twice changes nothing."""
    await installed(api, "pods", "services")
    await api.ok("POST", PODS.replace("pods", "serviceaccounts"), {"metadata": {"name": "me"}})
    created = await api.ok("POST", PODS, pod(volumes=[{"name": "v"}], serviceAccountName="me"))
    spec = created["spec"]
    assert (spec["restartPolicy"], spec["dnsPolicy"], spec["enableServiceLinks"]) == ("Always", "ClusterFirst", True)
    assert spec["containers"][0]["imagePullPolicy"] == "Always"
    assert spec["volumes"] == [{"name": "v", "emptyDir": {}}]
    assert spec["serviceAccount"] == "me"
    service = {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 80}]}}
    created = await api.ok("POST", SERVICES, service)
    assert created["spec"]["ports"] == [{"port": 80, "protocol": "TCP", "targetPort": 80}]
    assert (created["spec"]["type"], created["spec"]["internalTrafficPolicy"]) == ("ClusterIP", "Cluster")
    assert "generation" not in created["metadata"]


async def test_scale_shows_the_selector(api: Api):
    """Autoscalers read it as a text."""
    await installed(api, "deployments")
    await api.ok("POST", DEPLOYMENTS, deployment())
    scale = await api.ok("GET", f"{DEPLOYMENTS}/web/scale")
    assert scale["status"] == {"replicas": 0, "selector": "app=web"}
    scale["spec"]["replicas"] = 3
    await api.ok("PUT", f"{DEPLOYMENTS}/web/scale", scale)
    assert (await api.ok("GET", f"{DEPLOYMENTS}/web"))["spec"]["replicas"] == 3


async def test_answers_are_those_of_the_kind(api: Api):
    """Items of lists carry no kind, a deleted pod is returned, an update may leave the resourceVersion out, a PUT may create a service."""
    await installed(api, "pods", "services")
    await api.ok("POST", PODS, pod(nodeName="n1"))
    listed = await api.ok("GET", PODS)
    assert "kind" not in listed["items"][0]
    await api.ok("PUT", f"{PODS}/one", pod(nodeName="n1", serviceAccountName="default"))
    assert [item["metadata"]["name"] for item in (await api.ok("GET", f"{PODS}?fieldSelector=spec.nodeName=n1"))["items"]] == ["one"]
    assert (await api.ok("GET", f"{PODS}?fieldSelector=spec.nodeName=n2"))["items"] == []
    assert len((await api.ok("GET", f"{PODS}?fieldSelector=spec.hostNetwork=false,status.phase=Pending"))["items"]) == 1
    assert (await api.ok("GET", f"{PODS}?fieldSelector=spec.hostNetwork=true"))["items"] == []
    await api.fails(400, "GET", f"{PODS}?fieldSelector=spec.hostname=x")
    assert (await api.ok("DELETE", f"{PODS}/one"))["kind"] == "Pod"
    assert (await api("PUT", f"{SERVICES}/web", {"metadata": {"name": "web"}, "spec": {"ports": [{"port": 1}]}})).status_code == 201


async def test_discovery_is_that_of_the_kind(api: Api):
    """Short names, categories, verbs and subresources stand where clients look for them."""
    await installed(api, "pods", "deployments")
    pods = next(entry for entry in (await api.ok("GET", "/clusters/a/api/v1"))["resources"] if entry["name"] == "pods")
    assert pods == {
        "name": "pods",
        "singularName": "pod",
        "namespaced": True,
        "kind": "Pod",
        "verbs": ["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"],
        "shortNames": ["po"],
        "categories": ["all"],
        "storageVersionHash": "xPOwRZ+Yhw8=",
    }
    scale = next(entry for entry in (await api.ok("GET", "/clusters/a/apis/apps/v1"))["resources"] if entry["name"].endswith("/scale"))
    assert (scale["group"], scale["version"], scale["kind"]) == ("autoscaling", "v1", "Scale")


async def test_published_documents(api: Api):
    """Clients find the kind's own models with their patch keys, and that PATCH takes strategic merge patches."""
    await installed(api, "deployments")
    document = await api.ok("GET", "/clusters/a/openapi/v3/apis/apps/v1")
    models = document["components"]["schemas"]
    containers = models["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"]
    assert (containers["x-kubernetes-patch-merge-key"], containers["x-kubernetes-patch-strategy"]) == ("name", "merge")
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["requestBody"]["content"]
    document = await api.ok("GET", "/clusters/a/openapi/v2")
    patch = document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"]
    assert "application/strategic-merge-patch+json" in patch["consumes"]
    assert "default" not in document["definitions"]["io.k8s.api.apps.v1.DeploymentSpec"]["properties"]["replicas"]


async def test_server_side_apply(api: Api):
    """Elements of lists are owned one by one and distinguished by the keys of the kind with their defaults."""
    await installed(api, "deployments")
    config = deployment()
    await api.ok("PATCH", f"{DEPLOYMENTS}/web?fieldManager=one", config, headers=APPLY)
    other = {**deployment(), "spec": {"template": {"spec": {"containers": [{"name": "a", "ports": [{"containerPort": 81}]}]}}}}
    applied = await api.ok("PATCH", f"{DEPLOYMENTS}/web?fieldManager=two", other, headers=APPLY)
    (container,) = applied["spec"]["template"]["spec"]["containers"]
    assert [port["containerPort"] for port in container["ports"]] == [80, 81]
    again = await api.ok("PATCH", f"{DEPLOYMENTS}/web?fieldManager=two", other, headers=APPLY)
    assert again["metadata"]["resourceVersion"] == applied["metadata"]["resourceVersion"]


async def test_a_definition_that_is_being_deleted(api: Api):
    """It takes no new objects; another cluster's does."""
    (crd,) = crds_named(["pods"])
    await install(api, crd, "a")
    await install(api, crd, "b")
    await api.ok("POST", PODS, {**pod(), "metadata": {"name": "one", "finalizers": ["example.com/wait"]}})
    await api.ok("DELETE", f"/clusters/a{CRDS}/pods.core")
    refused = await api.fails(403, "POST", PODS, pod("two"))
    assert "create not allowed while custom resource definition is terminating" in refused["message"]
    await api.ok("POST", PODS.replace("/a/", "/b/"), pod("two"))


async def test_tables(api: Api):
    """The columns are the kind's own, also in wide output, unless the definition has columns of its own."""
    await installed(api, "pods")
    created = await api.ok("POST", PODS, pod())
    assert created["status"] == {"phase": "Pending", "qosClass": "BestEffort"}
    table = await api.ok("GET", PODS, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    shown = {column["name"]: cell for column, cell in zip(table["columnDefinitions"], table["rows"][0]["cells"], strict=True)}
    assert (shown["Ready"], shown["Status"], shown["Restarts"], shown["Node"]) == ("0/1", "Pending", "0", "<none>")
    (crd,) = copy.deepcopy(crds_named(["services"]))
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = [{"name": "T", "type": "string", "jsonPath": ".spec.type"}]
    await install(api, crd)
    table = await api.ok("GET", SERVICES, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "T"]


async def test_jobs_leave_their_pods_behind(api: Api):
    """A delete without a propagation policy orphans them, with a warning."""
    await installed(api, "jobs")
    jobs = "/clusters/a/apis/batch/v1/namespaces/default/jobs"
    template = {"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "x"}]}}
    await api.ok("POST", jobs, {"metadata": {"name": "one", "finalizers": ["example.com/wait"]}, "spec": {"template": template}})
    answer = await api("DELETE", f"{jobs}/one")
    assert answer.json()["metadata"]["finalizers"] == ["example.com/wait", "orphan"]
    assert "child pods are preserved by default" in answer.headers["Warning"]
    answer = await api("DELETE", f"{jobs}/one?propagationPolicy=Background")
    assert answer.json()["metadata"]["finalizers"] == ["example.com/wait"]
    assert "Warning" not in answer.headers


async def test_kinds_that_every_cluster_has(tmp_path):
    """A server can be told to serve them everywhere: no cluster needs a definition, and lists go over all of them."""
    given = options(tmp_path, builtin_kinds=("pods", "deployments.apps"))
    async with ControlPlane(given) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            await api.ok("POST", PODS, pod())
            await api.ok("POST", PODS.replace("/a/", "/b/"), pod())
            assert len((await api.ok("GET", "/clusters/*/api/v1/pods"))["items"]) == 2
            await api.ok("POST", DEPLOYMENTS, deployment())
            patched = await api.ok("PATCH", f"{DEPLOYMENTS}/web", {"spec": {"replicas": 2}}, headers=STRATEGIC)
            assert patched["spec"]["replicas"] == 2
            assert (await api.ok("GET", f"/clusters/a{CRDS}"))["items"] == []
            (crd,) = crds_named(["pods"])
            await api.fails(422, "POST", f"/clusters/a{CRDS}", crd)
            assert len((await api.ok("GET", PODS))["items"]) == 1


async def test_versions_of_different_forms(api: Api):
    """An autoscaler is stored once and read in both of its versions, by any way of writing it."""
    await installed(api, "hpa")
    v1, v2 = (f"/clusters/a/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers" for version in ("v1", "v2"))
    scaled = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec = {"scaleTargetRef": scaled, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
    created = await api.ok("POST", v1, {"metadata": {"name": "web"}, "spec": spec})
    assert created["spec"] == {**spec, "minReplicas": 1}
    (item,) = (await api.ok("GET", v2))["items"]
    assert item["spec"]["metrics"][0]["resource"]["target"] == {"type": "Utilization", "averageUtilization": 50}
    patch = {
        "spec": {
            "metrics": [{"type": "Resource", "resource": {"name": "memory", "target": {"type": "Utilization", "averageUtilization": 9}}}]
        }
    }
    await api.ok("PATCH", f"{v2}/web", patch, headers=STRATEGIC)
    read = await api.ok("GET", f"{v1}/web")
    assert "targetCPUUtilizationPercentage" not in read["spec"]
    assert "autoscaling.alpha.kubernetes.io/metrics" in read["metadata"]["annotations"]
    await api.ok("PUT", f"{v1}/web", read)
    assert (await api.ok("GET", f"{v2}/web"))["spec"]["metrics"][0]["resource"]["name"] == "memory"


async def test_unenforced_kinds_warn(api: Api) -> None:
    """Each way to create or update an object that nothing enforces carries a warning; reads and deletions do not."""
    await installed(api, "networkpolicies.networking.k8s.io")
    policies = "/clusters/a/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": {"podSelector": {}}}
    text = "networkpolicies.networking.k8s.io: kcp-py stores these objects and does not enforce them: no network traffic is filtered"
    wanted = f'299 - "{text}"'
    applied = {"Content-Type": "application/apply-patch+yaml"}
    merge = {"Content-Type": "application/merge-patch+json"}
    writes: list[tuple[str, str, Any, dict[str, str]]] = [
        ("POST", f"{policies}?dryRun=All", policy, {}),
        ("POST", policies, policy, {}),
        ("PUT", f"{policies}/p", {**policy, "spec": {"podSelector": {"matchLabels": {"a": "b"}}}}, {}),
        ("PATCH", f"{policies}/p", {"metadata": {"labels": {"a": "b"}}}, merge),
        ("PATCH", f"{policies}/p?fieldManager=me&force=true", policy, applied),
    ]
    for method, path, body, headers in writes:
        response = await api(method, path, body, headers=headers)
        assert response.status_code < 300, response.text
        assert response.headers.get_list("warning") == [wanted], (method, path)
    assert (await api("GET", policies)).headers.get_list("warning") == []
    assert (await api("DELETE", f"{policies}/p")).headers.get_list("warning") == []
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []}
    created = await api("POST", "/clusters/a/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    assert (created.status_code, created.headers.get_list("warning")) == (201, [])
