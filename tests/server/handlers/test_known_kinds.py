"""Kinds of Kubernetes that came to a cluster as CRDs, as clients meet them."""

from __future__ import annotations

import copy
from typing import Any

import httpx
import pytest

from kcp_py.apimachinery.protobuf import decode, decode_envelope, encode_object
from kcp_py.bootstrap.known import known_kinds
from kcp_py.bootstrap.known_crds import definitions_named
from kcp_py.controlplane import ControlPlane
from tests.corpus import needs_corpus, read, rows
from tests.server.handlers.conftest import Api, options
from tests.server.handlers.widgets import DEFINITIONS, install

pytestmark = pytest.mark.anyio

PROTOBUF = "application/vnd.kubernetes.protobuf"
STRATEGIC = {"Content-Type": "application/strategic-merge-patch+json"}
DEPLOYMENTS = "/clusters/a/apis/apps/v1/namespaces/default/deployments"
PODS = "/clusters/a/api/v1/namespaces/default/pods"
SERVICES = "/clusters/a/api/v1/namespaces/default/services"
APPLY = {"Content-Type": "application/apply-patch+yaml"}


def deployment(name: str = "web", **container: Any) -> dict[str, Any]:
    """A Deployment as people write it."""
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": "web"}},
            "template": {
                "metadata": {"labels": {"app": "web"}},
                "spec": {"containers": [{"name": "a", "image": "nginx:1.2", "ports": [{"containerPort": 80}], **container}]},
            },
        },
    }


def pod(name: str = "one", **spec: Any) -> dict[str, Any]:
    """A Pod as people write it."""
    containers = [{"name": "a", "image": "busybox"}]
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": name}, "spec": {"containers": containers, **spec}}


async def installed(api: Api, *names: str) -> None:
    """Have these kinds in cluster `a`."""
    for crd in definitions_named(names):
        await install(api, crd)


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
    """A CRD of another making keeps its own rules; strategic merge and field ownership come from the kind."""
    (crd,) = copy.deepcopy(definitions_named(["services"]))
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
    (crd,) = copy.deepcopy(definitions_named(["services"]))
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
    """What nobody knows is answered with 415."""
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
    assert {cause["field"] for cause in causes} == {"spec.selector", "spec.template.spec.containers"}


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
    await api.ok("POST", PODS, pod())
    listed = await api.ok("GET", PODS)
    assert "kind" not in listed["items"][0]
    await api.ok("PUT", f"{PODS}/one", pod(nodeName="n1"))
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
    """Elements of lists are owned one by one, told apart by the keys of the kind with their defaults."""
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
    (crd,) = definitions_named(["pods"])
    await install(api, crd, "a")
    await install(api, crd, "b")
    await api.ok("POST", PODS, {**pod(), "metadata": {"name": "one", "finalizers": ["example.com/wait"]}})
    await api.ok("DELETE", f"/clusters/a{DEFINITIONS}/pods.core")
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
    (crd,) = copy.deepcopy(definitions_named(["services"]))
    crd["spec"]["versions"][0]["additionalPrinterColumns"] = [{"name": "T", "type": "string", "jsonPath": ".spec.type"}]
    await install(api, crd)
    table = await api.ok("GET", SERVICES, headers={"Accept": "application/json;as=Table;v=v1;g=meta.k8s.io"})
    assert [column["name"] for column in table["columnDefinitions"]] == ["Name", "T"]


async def test_jobs_leave_their_pods_behind(api: Api):
    """A delete that does not say what is to become of them orphans them, and says so."""
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


async def test_nodes_bring_their_status_along(api: Api):
    """Those that register a node say at once how it is."""
    await installed(api, "nodes")
    node = {"metadata": {"name": "n1"}, "status": {"capacity": {"cpu": "1"}}}
    created = await api.ok("POST", "/clusters/a/api/v1/nodes", node)
    status = created["status"]
    assert (status["capacity"], status["allocatable"]) == ({"cpu": "1"}, {"cpu": "1"})
    assert status["daemonEndpoints"] == {"kubeletEndpoint": {"Port": 0}}


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
            assert (await api.ok("GET", f"/clusters/a{DEFINITIONS}"))["items"] == []
            (crd,) = definitions_named(["pods"])
            await api.fails(422, "POST", f"/clusters/a{DEFINITIONS}", crd)
            assert len((await api.ok("GET", PODS))["items"]) == 1


async def test_versions_of_different_forms(api: Api):
    """An autoscaler is stored once and read in both of its versions, by any way of writing it."""
    await installed(api, "hpa")
    v1, v2 = (f"/clusters/a/apis/autoscaling/{version}/namespaces/default/horizontalpodautoscalers" for version in ("v1", "v2"))
    spec = {"scaleTargetRef": {"kind": "Deployment", "name": "web"}, "maxReplicas": 3, "targetCPUUtilizationPercentage": 50}
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


REFUSED = {
    # What upstream's decoder takes and its validation refuses, besides owners without a uid.
    "APIService/kyverno-v1beta1.external.metrics.k8s.io-c1fec448.yaml": 422,
    "CronJob/kyverno-cronjob-with-labels-e10cc77b.yaml": 422,
    "Pod/istio-custom-gateway-7d51c932.yaml": 422,
    "ValidatingAdmissionPolicyBinding/kyverno-check-deployments-replicas-binding-2e26962f.yaml": 422,
    "ValidatingWebhookConfiguration/kcp-cowboy-intent-validator-ac3b54db.yaml": 400,
}


def expected_code(row: dict[str, Any], obj: dict[str, Any]) -> int:
    """What a real server answers to a strict create."""
    if not row["valid"]:
        return 400
    owners = obj["metadata"].get("ownerReferences") or ()
    return 422 if any(owner.get("uid") == "" for owner in owners) else REFUSED.get(row["path"].removeprefix("manifests/"), 201)


@needs_corpus
async def test_objects_of_the_corpus(tmp_path):
    """Real objects of every kind are taken under strict validation as the index says, and what is read is what was written."""
    async with ControlPlane(options(tmp_path, builtin_kinds=("all",))) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            created = 0
            for row in rows("manifests-index.jsonl"):
                group, _, version = row["api_version"].rpartition("/")
                if (kind := known_kinds().get((group, version, row["kind"]))) is None:
                    continue
                obj = read(row["path"])
                for name in ("resourceVersion", "namespace"):
                    obj.setdefault("metadata", {}).pop(name, None)
                root = f"/clusters/a/{f'apis/{group}' if group else 'api'}/{version}/"
                path = f"{root}{'namespaces/default/' if kind.namespaced else ''}{kind.plural}"
                answer = await api("POST", f"{path}?fieldValidation=Strict", obj)
                assert answer.status_code == expected_code(row, obj), f"{row['path']}: {answer.text}"
                if answer.status_code == 201:
                    created += 1
                    stored = answer.json()
                    assert await api.ok("GET", f"{path}/{stored['metadata']['name']}") == stored
                    patched = await api.ok("PATCH", f"{path}/{stored['metadata']['name']}", {}, headers=STRATEGIC)
                    assert patched["metadata"]["resourceVersion"] == stored["metadata"]["resourceVersion"]
                    await api.ok("DELETE", f"{path}/{stored['metadata']['name']}?propagationPolicy=Background")
            assert created > 600


async def test_status_is_merged_by_the_types_of_conditions(api: Api):
    """Controllers patch one condition and leave the others; through the object itself the status does not change."""
    await installed(api, "pods")
    await api.ok("POST", PODS, pod())
    for kind, value in (("Ready", "False"), ("Initialized", "True"), ("Ready", "True")):
        patch = {"status": {"phase": "Running", "conditions": [{"type": kind, "status": value}]}}
        patched = await api.ok("PATCH", f"{PODS}/one/status", patch, headers=STRATEGIC)
    found = {condition["type"]: condition["status"] for condition in patched["status"]["conditions"]}
    assert found == {"Ready": "True", "Initialized": "True"}
    assert patched["status"]["qosClass"] == "BestEffort"
    await api.ok("PATCH", f"{PODS}/one", {"status": {"phase": "Failed"}}, headers=STRATEGIC)
    assert (await api.ok("GET", f"{PODS}/one"))["status"]["phase"] == "Running"


async def test_unenforced_kinds_warn(api: Api) -> None:
    """Each way to create or update an object that nothing enforces carries a warning; reads, status updates and deletions do not."""
    await installed(api, "networkpolicies.networking.k8s.io")
    policies = "/clusters/a/apis/networking.k8s.io/v1/namespaces/default/networkpolicies"
    policy = {"apiVersion": "networking.k8s.io/v1", "kind": "NetworkPolicy", "metadata": {"name": "p"}, "spec": {"podSelector": {}}}
    text = "networkpolicies.networking.k8s.io: kcp-py stores these objects and does not enforce them: no network traffic is filtered"
    wanted = f'299 - "{text}"'
    quota = {"apiVersion": "v1", "kind": "ResourceQuota", "metadata": {"name": "q"}, "spec": {"hard": {"pods": "1"}}}
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
    quotas = "/clusters/a/api/v1/namespaces/default/resourcequotas"
    created = await api("POST", quotas, quota)
    assert "resourcequotas.core: kcp-py stores" in created.headers["warning"]
    status = {**created.json(), "status": {"hard": {"pods": "1"}}}
    assert (await api("PUT", f"{quotas}/q/status", status)).headers.get_list("warning") == []
    role = {"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": {"name": "r"}, "rules": []}
    created = await api("POST", "/clusters/a/apis/rbac.authorization.k8s.io/v1/clusterroles", role)
    assert (created.status_code, created.headers.get_list("warning")) == (201, [])


async def test_signing_requests_say_who_made_them(api: Api):
    """Who asks is what authentication says, whatever the object says, and cannot be changed afterwards."""
    await installed(api, "certificatesigningrequests")
    requests = "/clusters/a/apis/certificates.k8s.io/v1/certificatesigningrequests"
    forged = {"username": "root", "uid": "0", "groups": ["system:masters"], "extra": {"a": ["b"]}}
    wanted = {"request": "Y\nWJj\r\n", "signerName": "example.com/s", "usages": ["client auth"]}
    body = {"metadata": {"name": "one"}, "spec": {**wanted, **forged}, "status": {"certificate": "YQ=="}}
    bob = {"Impersonate-User": "bob", "Impersonate-Group": "system:masters", "Impersonate-Extra-Scopes": "x"}
    created = await api.ok("POST", requests, body, headers=bob)
    groups = ["system:masters", "system:authenticated"]
    mine = {"username": "bob", "groups": groups, "extra": {"scopes": ["x"]}}
    assert created["spec"] == {**wanted, "request": "YWJj", **mine}
    assert created["status"] == {}
    changed = await api.ok("PUT", f"{requests}/one", {**created, "spec": {**wanted, **forged, "request": "YWI="}})
    assert changed["spec"] == created["spec"]
    patched = await api.ok("PATCH", f"{requests}/one", {"spec": forged}, headers={"Content-Type": "application/merge-patch+json"})
    assert patched["spec"] == created["spec"]
    config = {
        "apiVersion": "certificates.k8s.io/v1",
        "kind": "CertificateSigningRequest",
        "metadata": {"name": "two"},
        "spec": body["spec"],
    }
    applied = await api.ok("PATCH", f"{requests}/two?fieldManager=x", config, headers={**APPLY, "Impersonate-User": "eve"} | bob)
    assert applied["spec"]["username"] == "bob"


FORMS: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    # name -> path, what is created, what has to be in the answer
    "APIService": (
        "apis/apiregistration.k8s.io/v1/apiservices",
        {
            "metadata": {"name": "v1.x.example.com"},
            "spec": {"group": "x.example.com", "version": "v1", "groupPriorityMinimum": 9, "versionPriority": 9},
        },
        {"status": {}},
    ),
    "CronJob": (
        "apis/batch/v1/namespaces/default/cronjobs",
        {"spec": {"schedule": "* * * * *", "jobTemplate": {"spec": {"template": {"spec": {"containers": [{"name": "a"}]}}}}}},
        {
            "spec": {"jobTemplate": {"metadata": {}, "spec": {"template": {"metadata": {}, "spec": {"containers": [{"resources": {}}]}}}}},
            "status": {},
        },
    ),
    "CSINode": ("apis/storage.k8s.io/v1/csinodes", {"spec": {"drivers": None}}, {"spec": {"drivers": None}, "status": {}}),
    "DaemonSet": (
        "apis/apps/v1/namespaces/default/daemonsets",
        {"spec": deployment()["spec"]},
        {"metadata": {"annotations": {"deprecated.daemonset.template.generation": "1"}}, "status": {"numberReady": 0}},
    ),
    "DeviceTaintRule": (
        "apis/resource.k8s.io/v1/devicetaintrules",
        {"spec": {"deviceSelector": {"driver": "d.example.com"}, "taint": {"key": "example.com/k", "effect": "NoSchedule"}}},
        {"status": {}},
    ),
    "EndpointSlice": (
        "apis/discovery.k8s.io/v1/namespaces/default/endpointslices",
        {"addressType": "IPv4"},
        {"endpoints": None, "ports": None},
    ),
    "FlowSchema": (
        "apis/flowcontrol.apiserver.k8s.io/v1/flowschemas",
        {"spec": {"priorityLevelConfiguration": {"name": "p"}}},
        {"status": {}},
    ),
    "Node": ("api/v1/nodes", {}, {"status": {"daemonEndpoints": {"kubeletEndpoint": {"Port": 0}}, "nodeInfo": {"machineID": ""}}}),
    "PodGroup": (
        "apis/scheduling.k8s.io/v1beta1/namespaces/default/podgroups",
        {"spec": {"schedulingPolicy": {"basic": {}}}},
        {"status": {}},
    ),
    "PriorityLevelConfiguration": (
        "apis/flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations",
        {"spec": {"type": "Limited", "limited": {"limitResponse": {"type": "Reject"}}}},
        {"status": {}},
    ),
    "ResourceClaim": (
        "apis/resource.k8s.io/v1/namespaces/default/resourceclaims",
        {"spec": {"devices": {"requests": [{"name": "r", "exactly": {"deviceClassName": "x"}}]}}},
        {"spec": {"devices": {"requests": [{"exactly": {"allocationMode": "ExactCount", "count": 1}}]}}, "status": {}},
    ),
    "ServiceCIDR": ("apis/networking.k8s.io/v1/servicecidrs", {"spec": {"cidrs": ["10.9.0.0/16"]}}, {"status": {}}),
    "StorageVersionMigration": (
        "apis/storagemigration.k8s.io/v1/storageversionmigrations",
        {"spec": {"resource": {"group": "", "resource": "secrets"}}},
        {"spec": {"resource": {"group": ""}}, "status": {}},
    ),
    "ValidatingAdmissionPolicy": (
        "apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies",
        {"spec": {"validations": [{"expression": "true"}]}},
        {"status": {}},
    ),
    "VolumeAttachment": (
        "apis/storage.k8s.io/v1/volumeattachments",
        {"spec": {"attacher": "a", "nodeName": "n", "source": {"persistentVolumeName": "v"}}},
        {"status": {"attached": False}},
    ),
}


def assert_within(expected: Any, found: Any) -> None:
    """All that is expected is found."""
    if isinstance(expected, dict):
        for name, value in expected.items():
            assert name in found, name
            assert_within(value, found[name])
    elif isinstance(expected, list):
        for one, other in zip(expected, found, strict=True):
            assert_within(one, other)
    else:
        assert found == expected


async def test_what_is_always_encoded_is_there(tmp_path):
    """Fields that Go's encoder always writes are in every answer, so that `add /status/conditions` has something to add to."""
    json_patch = {"Content-Type": "application/json-patch+json"}
    async with ControlPlane(options(tmp_path, builtin_kinds=("all",))) as control_plane:
        transport = httpx.ASGITransport(control_plane.app)
        async with httpx.AsyncClient(transport=transport, base_url="https://kcp.test") as client:
            api = Api(client, control_plane)
            for kind, (path, body, expected) in FORMS.items():
                body.setdefault("metadata", {}).setdefault("name", "one")
                created = await api.ok("POST", f"/clusters/a/{path}?fieldManager=me", body)
                assert_within(expected, created)
                name = body["metadata"]["name"]
                assert await api.ok("GET", f"/clusters/a/{path}/{name}") == created, kind
                owned = [entry["fieldsV1"] for entry in created["metadata"].get("managedFields", ())]
                assert "." not in owned[0].get("f:spec", {}) if owned else True, kind
                if "status" in expected and "conditions" in known_status(kind):
                    patch = [{"op": "add", "path": "/status/conditions", "value": []}]
                    await api.ok("PATCH", f"/clusters/a/{path}/{name}/status", patch, headers=json_patch)


def known_status(kind: str) -> Any:
    """The fields of a kind's status."""
    (crd,) = definitions_named([kind])
    return crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["status"]["properties"]


async def test_what_the_status_changes_of_the_metadata(api: Api):
    """Through `/status`, a kind changes what its rules leave to it: no labels of deployments, nothing of taint rules."""
    await installed(api, "deployments", "daemonsets", "devicetaintrules")
    await api.ok("POST", DEPLOYMENTS, deployment())
    daemons = DEPLOYMENTS.replace("deployments", "daemonsets")
    await api.ok("POST", daemons, {**deployment(), "kind": "DaemonSet"})
    rules = "/clusters/a/apis/resource.k8s.io/v1/devicetaintrules"
    taint = {"key": "example.com/k", "effect": "NoSchedule"}
    await api.ok("POST", rules, {"metadata": {"name": "web"}, "spec": {"deviceSelector": {"driver": "d"}, "taint": taint}})
    change = {"metadata": {"labels": {"a": "b"}, "annotations": {"c": "d"}, "finalizers": ["example.com/f"]}, "spec": {"paused": True}}
    found = {}
    for path in (DEPLOYMENTS, daemons, rules):
        patched = await api.ok("PATCH", f"{path}/web/status?fieldManager=me", change, headers=STRATEGIC)
        assert patched["metadata"]["generation"] == 1
        assert "paused" not in patched["spec"]
        metadata = patched["metadata"]
        found[path] = (metadata.get("labels"), metadata["annotations"].get("c"), metadata.get("finalizers"))
        assert await api.ok("GET", f"{path}/web") == patched
    assert found == {
        DEPLOYMENTS: (None, "d", ["example.com/f"]),
        daemons: ({"a": "b"}, "d", ["example.com/f"]),
        rules: (None, None, None),
    }


async def test_generations_count_what_controllers_follow(api: Api):
    """Annotations of deployments are copied to replica sets and count, those of others do not. Templates of daemon sets are counted."""
    await installed(api, "deployments", "daemonsets", "endpointslices")
    daemons = DEPLOYMENTS.replace("deployments", "daemonsets")
    slices = "/clusters/a/apis/discovery.k8s.io/v1/namespaces/default/endpointslices"
    await api.ok("POST", DEPLOYMENTS, deployment())
    await api.ok("POST", daemons, {**deployment(), "kind": "DaemonSet"})
    await api.ok("POST", slices, {"metadata": {"name": "web"}, "addressType": "IPv4", "endpoints": []})
    annotated = {"metadata": {"annotations": {"a": "b", "deprecated.daemonset.template.generation": "9"}}}
    labelled = {"metadata": {"labels": {"a": "b"}}}
    found = []
    for patch in (annotated, labelled, {"spec": {"template": {"metadata": {"labels": {"x": "y"}}}}}):
        generations = []
        for path in (DEPLOYMENTS, daemons, slices):
            if "spec" in patch and path == slices:
                continue
            generations.append((await api.ok("PATCH", f"{path}/web", patch, headers=STRATEGIC))["metadata"]["generation"])
        found.append(generations)
    assert found == [[2, 1, 1], [2, 1, 2], [3, 2]]
    assert (await api.ok("GET", f"{daemons}/web"))["metadata"]["annotations"]["deprecated.daemonset.template.generation"] == "2"


async def test_wrapped_base64(api: Api):
    """Line ends are where the tools that encode put them; they are not stored."""
    await installed(api, "validatingwebhookconfigurations", "apiservices")
    secrets = "/clusters/a/api/v1/namespaces/default/secrets"
    assert (await api.ok("POST", secrets, {"metadata": {"name": "s"}, "data": {"a": "YW\r\nJj\n"}}))["data"] == {"a": "YWJj"}
    maps = "/clusters/a/api/v1/namespaces/default/configmaps"
    assert (await api.ok("POST", maps, {"metadata": {"name": "m"}, "binaryData": {"a": "\nYWJj"}}))["binaryData"] == {"a": "YWJj"}
    hook = {
        "name": "a.b.c",
        "clientConfig": {"url": "https://x.example.com", "caBundle": "YW\nJj"},
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
    }
    hooks = "/clusters/a/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations"
    created = await api.ok("POST", hooks, {"metadata": {"name": "w"}, "webhooks": [hook]})
    assert created["webhooks"][0]["clientConfig"]["caBundle"] == "YWJj"
    refused = await api.fails(400, "POST", secrets, {"metadata": {"name": "t"}, "data": {"a": "YW\nJ"}})
    assert refused["message"] == 'Secret in version "v1" cannot be handled as a Secret: illegal base64 data at input byte 1'


async def test_subresources_of_nodes(api: Api):
    """What a kubelet would answer is refused with the reason, so that nobody looks for the fault in the pod."""
    await installed(api, "pods", "nodes", "services")
    await api.ok("POST", PODS, pod())
    for method, path in (
        ("GET", f"{PODS}/one/log"),
        ("GET", f"{PODS}/one/exec?command=ls"),
        ("POST", f"{PODS}/one/exec?command=ls"),
        ("POST", f"{PODS}/one/attach"),
        ("POST", f"{PODS}/one/portforward"),
        ("GET", f"{PODS}/one/proxy/x/y"),
        ("GET", f"{SERVICES}/one/proxy"),
        ("GET", "/clusters/a/api/v1/nodes/n/proxy/logs"),
    ):
        status = await api.fails(501, method, path)
        assert status["reason"] == "NotImplemented"
        assert status["message"].endswith("is not available: this server stores objects, it has no nodes on which pods could run")
    assert (await api("GET", f"{PODS}/one/other")).status_code == 404


async def test_events_are_selected_by_their_source(api: Api):
    """What has no source is selected by the controller that reports it, in lists and watches of core/v1."""
    events = "/clusters/a/api/v1/namespaces/default/events"
    about = {"involvedObject": {"namespace": "default"}}
    await api.ok("POST", events, {"metadata": {"name": "old"}, "source": {"component": "kubelet"}, **about})
    new = {"reportingComponent": "example.com/kubelet", "reportingInstance": "a", "action": "b", "reason": "c"}
    new["eventTime"] = "2026-01-01T00:00:00.000000Z"
    await api.ok("POST", events, {"metadata": {"name": "new"}, **new, **about})
    both = {**new, "reportingComponent": "example.com/kubelet", "source": {"component": "other"}}
    await api.ok("POST", events, {"metadata": {"name": "both"}, **both, **about})

    async def selected(selector: str) -> list[str]:
        return [item["metadata"]["name"] for item in (await api.ok("GET", events, params={"fieldSelector": selector}))["items"]]

    assert await selected("source=kubelet") == ["old"]
    assert await selected("source=example.com/kubelet") == ["new"]
    assert await selected("source=other") == ["both"]
    assert await selected("source!=kubelet") == ["both", "new"]
