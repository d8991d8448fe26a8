"""ValidatingAdmissionPolicies over HTTP. Texts and codes are those of kube-apiserver 1.37.2."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.admission.policy.making import CLUSTER, CONFIG_MAPS, GROUP, binding, config_map, configure, policy, refused, rule
from tests.server.handlers.conftest import Api
from tests.server.handlers.widgets import gone

pytestmark = pytest.mark.anyio

MERGE = {"Content-Type": "application/merge-patch+json"}
POLICIES = f"{CLUSTER}/{GROUP}/validatingadmissionpolicies"
BINDINGS = f"{CLUSTER}/{GROUP}/validatingadmissionpolicybindings"


async def test_refusal(api: Api) -> None:
    """The whole answer (recorded from kube-apiserver 1.37.2). A dry run is refused, too."""
    validation = {"expression": "object.data.size() <= 1", "messageExpression": "'has ' + string(object.data.size())"}
    await configure(api, policy(validations=[validation]), binding())
    message = "ValidatingAdmissionPolicy 'p' with binding 'b' denied request: has 2"
    for params in ({}, {"dryRun": "All"}):
        assert await api.fails(422, "POST", CONFIG_MAPS, config_map("x", a="1", b="2"), params=params) == {
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": f'configmaps "x" is forbidden: {message}',
            "reason": "Invalid",
            "details": {"name": "x", "kind": "configmaps", "causes": [{"message": message}]},
            "code": 422,
        }
    await api.ok("POST", CONFIG_MAPS, config_map("x", a="1"))
    await api.fails(422, "PATCH", f"{CONFIG_MAPS}/x", {"data": {"b": "2"}}, headers=MERGE)


@pytest.mark.parametrize(("reason", "code"), [("Forbidden", 403), ("RequestEntityTooLarge", 413), ("Invalid", 422)])
async def test_reasons(api: Api, reason: str, code: int) -> None:
    """The reason of a validation decides the code."""
    await configure(api, policy(validations=[{"expression": "false", "reason": reason}]), binding())
    status = await api.fails(code, "POST", CONFIG_MAPS, config_map())
    assert status["reason"] == reason


async def test_warnings(api: Api) -> None:
    """`Warn` lets a write through with a warning for each violation; `Deny` of another binding refuses it."""
    await configure(api, policy("p", "object.metadata.name != 'x'", "false"), binding("b", "p", "Warn", "Audit"))
    response = await api("POST", CONFIG_MAPS, config_map())
    assert response.status_code == 201
    prefix = "299 - \"Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': failed expression: "
    assert response.headers.get_list("warning") == [f"{prefix}object.metadata.name != 'x'\"", f'{prefix}false"']
    await configure(api, binding("c"))
    assert await refused(api, config_map("y")) == "'p' with binding 'c' denied request: failed expression: false"


async def test_effective_at_once(api: Api) -> None:
    """Each change of a policy or a binding holds for the first write after its answer, in its cluster alone."""
    await api.ok("POST", CONFIG_MAPS, config_map("first"))
    for turn in range(5):
        await configure(api, policy("p", "false"))
        await api.ok("POST", CONFIG_MAPS, config_map(f"without-binding-{turn}"))
        await configure(api, binding())
        await refused(api, config_map(f"x{turn}"))
        await api.ok("POST", CONFIG_MAPS.replace("/a/", "/b/"), config_map(f"x{turn}"))
        validations = {"spec": {"validations": [{"expression": "true"}]}}
        await api.ok("PATCH", f"{POLICIES}/p", validations, headers=MERGE)
        await api.ok("POST", CONFIG_MAPS, config_map(f"x{turn}"))
        await api.ok("PATCH", f"{POLICIES}/p", {"spec": {"validations": [{"expression": "1 == 2"}]}}, headers=MERGE)
        await refused(api, config_map(f"y{turn}"))
        await api.ok("DELETE", f"{BINDINGS}/b")
        await api.ok("POST", CONFIG_MAPS, config_map(f"y{turn}"))
        await api.ok("DELETE", f"{POLICIES}/p")


async def test_deletions(api: Api) -> None:
    """A deletion has no object and shows the old one. Collections ask for each object."""
    await configure(api, policy("p", "object == null && oldObject.data.keep != 'yes'", rules=[rule("configmaps", operations=("DELETE",))]))
    await configure(api, binding())
    await api.ok("POST", CONFIG_MAPS, config_map("a", keep="yes"))
    await api.ok("POST", CONFIG_MAPS, config_map("b", keep="no"))
    await api.fails(422, "DELETE", f"{CONFIG_MAPS}/a")
    await api.ok("DELETE", f"{CONFIG_MAPS}/b")
    await api.fails(422, "DELETE", CONFIG_MAPS)
    await api.ok("GET", f"{CONFIG_MAPS}/a")


async def test_policies_do_not_apply_to_themselves(api: Api) -> None:
    """A policy that denies everything can be deleted, and access can be reviewed."""
    everything = rule("*/*", "*", group="*", version="*")
    everything["resources"] = ["*/*"]
    await configure(api, policy("p", "false", rules=[everything]), binding())
    await refused(api, config_map())
    review = {"spec": {"resourceAttributes": {"verb": "get", "resource": "pods"}}}
    await api.ok("POST", f"{CLUSTER}/apis/authorization.k8s.io/v1/selfsubjectaccessreviews", review)
    await api.ok("DELETE", f"{POLICIES}/p")
    await api.ok("POST", CONFIG_MAPS, config_map())


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("request.options.kind == 'UpdateOptions'", ""),
        ("!(request.operation == 'CREATE' && request.namespace == 'default' && request.resource.resource == 'configmaps')", ""),
        ("!('system:masters' in request.userInfo.groups)", ""),
        ("has(request.subResource)", ""),
        ("!(namespaceObject.metadata.name == 'default' && namespaceObject.status.phase == 'Active')", ""),
        ("namespaceObject.metadata.creationTimestamp < timestamp('2000-01-01T00:00:00Z')", ""),
        (
            "request.subResource == ''",
            "expression 'request.subResource == ''' resulted in error: no such key: subResource",
        ),
        (
            "oldObject.data.x == 'a'",
            "expression 'oldObject.data.x == 'a'' resulted in error: no such key: data",
        ),
        (
            "authorizer.path('').check('get').allowed()",
            "expression 'authorizer.path('').check('get').allowed()' resulted in error: path must not be empty",
        ),
        ("authorizer.requestResource.check('create').allowed() && !authorizer.requestResource.check('get').allowed()", ""),
        ("authorizer.serviceAccount('default', 'x').group('').resource('secrets').namespace('default').check('get').allowed()", ""),
        ("authorizer.serviceAccount('default', 'x').path('/healthz').check('get').reason() == 'none'", ""),
        (
            "variables.bad == 1",
            "expression 'variables.bad == 1' resulted in error: composited variable \"bad\" fails to evaluate: no such key: nope",
        ),
    ],
)
async def test_variables(api: Api, expression: str, message: str) -> None:
    """The variables of a request, and the texts about missing fields."""
    await configure(api, policy("p", expression, variables=[{"name": "bad", "expression": "object.nope"}]), binding())
    expected = message or f"failed expression: {expression}"
    assert await refused(api, config_map()) == f"'p' with binding 'b' denied request: {expected}"


@pytest.mark.parametrize(
    ("expression"),
    [
        "authorizer.requestResource.check('create').allowed() || false",
        "authorizer.group('apps').resource('deployments').namespace('default').check('list').allowed()",
        "!authorizer.serviceAccount('default', 'x').group('').resource('secrets').check('get').errored()",
        "namespaceObject.metadata.?labels.orValue({}).size() >= 0",
        "request.options.kind == 'CreateOptions' && request.options.fieldValidation in ['Warn', 'Strict']",
        "[0,1,2,3,4,5,6,7,8,9].all(a, [0,1,2,3,4,5,6,7,8,9].all(b, [0,1,2,3,4,5,6,7,8,9].all(c, [0,1,2,3].all(d, a+b+c+d >= 0))))",
    ],
)
async def test_allowed(api: Api, expression: str) -> None:
    """Expressions that hold, some of which ask for permissions or are too large for the event loop."""
    await configure(api, policy("p", expression), binding())
    await api.ok("POST", CONFIG_MAPS, config_map())


SELECTIONS: list[tuple[dict[str, Any], dict[str, Any], bool]] = [
    ({}, {}, True),
    ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "default"}}}, {}, True),
    ({"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "other"}}}, {}, False),
    ({"objectSelector": {"matchLabels": {"a": "b"}}}, {}, True),
    ({"objectSelector": {"matchLabels": {"a": "c"}}}, {}, False),
    ({"excludeResourceRules": [rule("configmaps", operations=("CREATE",))]}, {}, False),
    ({"excludeResourceRules": [rule("configmaps", operations=("UPDATE",))]}, {}, True),
    ({"resourceRules": [rule("configmaps", resourceNames=["x"])]}, {}, True),
    ({"resourceRules": [rule("configmaps", resourceNames=["y"])]}, {}, False),
    ({"resourceRules": [rule("configmaps", scope="Cluster")]}, {}, False),
    ({"resourceRules": [rule("configmaps", scope="Namespaced")]}, {}, True),
    ({"resourceRules": [rule("configmaps/status")]}, {}, False),
    ({}, {"resourceRules": [rule("secrets")]}, False),
    ({}, {"objectSelector": {"matchExpressions": [{"key": "a", "operator": "Exists"}]}}, True),
    ({}, {"namespaceSelector": {"matchExpressions": [{"key": "nope", "operator": "Exists"}]}}, False),
]


@pytest.mark.parametrize(("constraints", "resources", "selected"), SELECTIONS)
async def test_selection(api: Api, constraints: dict[str, Any], resources: dict[str, Any], selected: bool) -> None:  # noqa: FBT001
    """Rules and selectors of the policy and of the binding must both select a write."""
    given = policy("p", "false")
    given["spec"]["matchConstraints"] |= constraints
    await configure(api, given, binding(matchResources=resources))
    obj = config_map()
    obj["metadata"]["labels"] = {"a": "b"}
    response = await api("POST", CONFIG_MAPS, obj)
    assert response.status_code == (422 if selected else 201)


async def test_namespaces_are_selected_by_their_own_labels(api: Api) -> None:
    """The labels of a new namespace decide, and expressions see no `namespaceObject`."""
    constraints = {"resourceRules": [rule("namespaces")], "namespaceSelector": {"matchLabels": {"checked": "yes"}}}
    given = policy("p", "namespaceObject != null", matchConstraints=constraints)
    await configure(api, given, binding())
    path = f"{CLUSTER}/api/v1/namespaces"
    await api.ok("POST", path, {"metadata": {"name": "free"}})
    await api.fails(422, "POST", path, {"metadata": {"name": "checked", "labels": {"checked": "yes"}}})


async def test_equivalent_resources(api: Api) -> None:
    """A rule for one group selects writes of the same objects in another one, and shows them in its form, unless it is `Exact`."""
    place = f"{CLUSTER}/api/v1/namespaces/default/events"
    event = {"metadata": {"name": "e"}, "involvedObject": {"namespace": "default"}, "type": "Normal"}
    expression = "request.kind.group != 'events.k8s.io' || has(object.involvedObject)"
    rules = [rule("events", group="events.k8s.io")]
    await configure(api, policy("p", expression, rules=rules), binding())
    await refused(api, event, path=place)
    await api.ok("PATCH", f"{POLICIES}/p", {"spec": {"matchConstraints": {"matchPolicy": "Exact"}}}, headers=MERGE)
    await api.ok("POST", place, event)


async def test_conditions_and_failure_policy(api: Api) -> None:
    """A policy whose conditions fail, or which cannot be evaluated, is left out with `Ignore`."""
    conditions = [{"name": "c", "expression": "object.data.x == 'y'"}]
    await configure(api, policy("p", "object.data.z == 'y'", matchConditions=conditions), binding())
    expected = "'p' with binding 'b' denied request: expression 'object.data.x == 'y'' resulted in error: no such key: x"
    assert await refused(api, config_map("x", z="n")) == expected
    await api.ok("PATCH", f"{POLICIES}/p", {"spec": {"failurePolicy": "Ignore"}}, headers=MERGE)
    await api.ok("POST", CONFIG_MAPS, config_map("x", z="n"))
    await refused(api, config_map("y", x="y", z="n"))
    await api.ok("POST", CONFIG_MAPS, config_map("y", x="y"))


async def test_metrics(api: Api) -> None:
    """Decisions are counted by upstream's types and actions, and by nothing that a tenant has chosen."""
    name = "apiserver_validating_admission_policy_check_total"

    async def counted() -> dict[str, float]:
        lines = (await api("GET", "/metrics")).text.splitlines()
        samples = [line.rpartition(" ") for line in lines if line.startswith(name)]
        return {labels.removeprefix(name): float(value) for labels, _, value in samples}

    expensive = "true"
    for _ in range(5):
        expensive = f"[0,1,2,3,4,5,6,7,8,9].all(a, {expensive})"
    await configure(api, policy("p", "object.data.k == 'a'"), binding("b", "p", "Deny"), binding("w", "p", "Warn", "Audit"))
    await configure(api, policy("ignored", "object.data.nope == 'x'", failurePolicy="Ignore"), binding("i", "ignored"))
    await configure(api, policy("large", *[expensive] * 30, rules=[rule("secrets")]), binding("l", "large"))
    await api.ok("DELETE", f"{POLICIES}/ignored")
    await api.fails(422, "POST", CONFIG_MAPS, config_map(k="b"))
    await api.ok("POST", CONFIG_MAPS, config_map(k="a"))
    await api.fails(422, "POST", CONFIG_MAPS.replace("configmaps", "secrets"), {"metadata": {"name": "s"}})
    assert await counted() == {
        '{enforcement_action="deny",error_type="invalid_error"}': 1,
        '{enforcement_action="warn",error_type="invalid_error"}': 1,
        '{enforcement_action="audit",error_type="invalid_error"}': 1,
        '{enforcement_action="deny",error_type="out_of_budget"}': 1,
    }
    await configure(api, policy("ignored", "object.data.nope == 'x'", failurePolicy="Ignore"))
    await api.ok("POST", CONFIG_MAPS, config_map("y", k="a"))
    assert (await counted())['{enforcement_action="allow",error_type="invalid_error"}'] == 1


async def test_other_tenants(api: Api) -> None:
    """Equal policies of two clusters are compiled once, and read the parameters, namespaces and permissions of their own cluster."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    expression = "params.data.open == 'yes' && namespaceObject.metadata.labels.tenant == params.data.tenant"
    others = ("/clusters/b", "/clusters/c")
    for cluster in others:
        tenant = cluster[-1]
        await api.ok("POST", f"{cluster}/api/v1/namespaces", {"metadata": {"name": "n", "labels": {"tenant": tenant}}})
        given = policy("p", expression, rules=[rule("secrets")], paramKind=kind)
        await configure(
            api, given, binding(paramRef={"name": "limit", "namespace": "default", "parameterNotFoundAction": "Deny"}), cluster=cluster
        )
    await api.ok("POST", "/clusters/b/api/v1/namespaces/default/configmaps", config_map("limit", open="yes", tenant="b"))
    secret = {"metadata": {"name": "s"}}
    await api.ok("POST", "/clusters/b/api/v1/namespaces/n/secrets", secret)
    assert "no params found" in await refused(api, secret, path="/clusters/c/api/v1/namespaces/n/secrets")
    await api.ok("POST", "/clusters/c/api/v1/namespaces/default/configmaps", config_map("limit", open="yes", tenant="b"))
    assert "failed expression" in await refused(api, secret, path="/clusters/c/api/v1/namespaces/n/secrets")
    await api.ok("POST", f"{CLUSTER}/api/v1/namespaces/default/secrets", secret)


async def test_a_namespace_is_deleted_with_its_parameters(api: Api) -> None:
    """Policies see deletions of the content, and parameters that are gone are missing."""
    kind = {"apiVersion": "v1", "kind": "ConfigMap"}
    await api.ok("POST", f"{CLUSTER}/api/v1/namespaces", {"metadata": {"name": "n"}})
    path = f"{CLUSTER}/api/v1/namespaces/n/configmaps"
    await api.ok("POST", path, config_map("limit", open="yes"))
    rules = [rule("configmaps", operations=("CREATE",))]
    given = policy("p", "params.data.open == 'yes'", rules=rules, paramKind=kind)
    await configure(api, given, binding(paramRef={"name": "limit", "namespace": "n", "parameterNotFoundAction": "Deny"}))
    await api.ok("POST", CONFIG_MAPS, config_map("before"))
    await api.ok("DELETE", f"{CLUSTER}/api/v1/namespaces/n")
    await gone(api, f"{CLUSTER}/api/v1/namespaces/n")
    assert "no params found" in await refused(api, config_map("after"))


async def test_expressions_that_are_too_large(api: Api) -> None:
    """They are refused with the policy, without a word about the server; many requests at once wait for one compilation."""
    for text in ("(" * 3000 + "true" + ")" * 3000, "[" * 2000 + "]" * 2000 + " == []", " || ".join(["true"] * 60_000)):
        status = await api.fails(422, "POST", POLICIES, policy("p", text))
        assert status["reason"] == "Invalid"
    many = " && ".join(f"object.metadata.name != 'n{number}'" for number in range(400))
    await configure(api, policy("p", *[many] * 10), binding())
    codes = await asyncio.gather(*(api("POST", CONFIG_MAPS, config_map(f"n{number}")) for number in range(395, 405)))
    assert sorted(response.status_code for response in codes) == [201] * 5 + [422] * 5


async def test_deletion_of_a_cluster(api: Api) -> None:
    """A cluster whose policies deny every deletion can be deleted with its content."""
    await api.ok("POST", CONFIG_MAPS, config_map())
    everything = {**rule(group="*", version="*"), "resources": ["*/*"]}
    await configure(api, policy("p", "false", rules=[everything]), binding())
    await api.fails(422, "DELETE", f"{CONFIG_MAPS}/x")
    cluster = f"{CLUSTER}/apis/core.kcp.io/v1alpha1/logicalclusters/cluster"
    await api.ok("DELETE", cluster)
    await gone(api, cluster)
