"""Parameters of policies. Texts are those of kube-apiserver 1.37.2."""

from __future__ import annotations

from typing import Any

import pytest

from tests.admission.policy.making import CLUSTER, CONFIG_MAPS, binding, config_map, configure, policy, refused, rule
from tests.server.handlers.conftest import Api, established

pytestmark = pytest.mark.anyio

KIND = {"apiVersion": "v1", "kind": "ConfigMap"}
EXPRESSION = "object.data.size() <= int(params.data.max)"
NO_PARAMS = "'p' with binding 'b' denied request: failed to configure binding: no params found for policy binding with `Deny` "
CRDS = f"{CLUSTER}/apis/apiextensions.k8s.io/v1/customresourcedefinitions"


def limited(**reference: Any) -> list[dict[str, Any]]:
    """A policy with parameters and its binding."""
    given = {"parameterNotFoundAction": "Deny", **reference}
    constraints = {
        "resourceRules": [rule("configmaps")],
        "objectSelector": {"matchExpressions": [{"key": "is-limit", "operator": "DoesNotExist"}]},
    }
    return [policy("p", EXPRESSION, matchConstraints=constraints, paramKind=KIND), binding(paramRef=given)]


async def limit(api: Api, name: str, maximum: int, namespace: str = "default", **labels: str) -> None:
    """A parameter, which the policy does not select."""
    obj = config_map(name, max=str(maximum))
    obj["metadata"]["labels"] = {"is-limit": "", **labels}
    await api.ok("POST", f"{CLUSTER}/api/v1/namespaces/{namespace}/configmaps", obj)


async def test_by_name(api: Api) -> None:
    """The parameter is read for each write; without it the binding denies or is skipped."""
    await configure(api, *limited(name="limit"))
    assert await refused(api, config_map()) == f"{NO_PARAMS}parameterNotFoundAction"
    patch = {"spec": {"paramRef": {"parameterNotFoundAction": "Allow"}}}
    merge = {"Content-Type": "application/merge-patch+json"}
    path = f"{CLUSTER}/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/b"
    await api.ok("PATCH", path, patch, headers=merge)
    await api.ok("POST", CONFIG_MAPS, config_map("a", x="1", y="2"))
    await api.ok("DELETE", path)
    await configure(api, limited(name="limit", parameterNotFoundAction="Allow")[1])
    await limit(api, "limit", 1)
    assert await refused(api, config_map("b", x="1", y="2")) == f"'p' with binding 'b' denied request: failed expression: {EXPRESSION}"
    await api.ok("PATCH", f"{CONFIG_MAPS}/limit", {"data": {"max": "2"}}, headers=merge)
    await api.ok("POST", CONFIG_MAPS, config_map("b", x="1", y="2"))


async def test_namespaces(api: Api) -> None:
    """A parameter is in the namespace of the write, or in the one that the binding names."""
    await api.ok("POST", f"{CLUSTER}/api/v1/namespaces", {"metadata": {"name": "other"}})
    await configure(api, *limited(name="limit"), binding("c", "p", paramRef={"name": "limit2", "namespace": "other", **DENY}))
    await limit(api, "limit", 1)
    assert (await refused(api, config_map("x", a="1"))).startswith("'p' with binding 'c' denied request: failed to configure binding: no")


DENY = {"parameterNotFoundAction": "Deny"}


@pytest.mark.parametrize(
    ("place", "illegal"),
    [
        ("../b/x", "may not contain '/'"),
        ("..", "may not be '..'"),
        ("%2e", "may not contain '%'"),
        ("A B\x00", ""),
        ("n" * 300, ""),
    ],
    ids=["path", "dots", "encoded", "NUL", "long"],
)
async def test_places_that_no_parameter_has(api: Api, place: str, illegal: str) -> None:
    """A binding is about a namespace that cannot exist: nothing is read elsewhere, and the write is judged as without the parameter."""
    await configure(api, *limited(name="limit", namespace=place))
    expected = f'invalid namespace "{place}": [{illegal}]' if illegal else f"{NO_PARAMS}parameterNotFoundAction"
    assert (await refused(api, config_map())).endswith(expected)
    path = f"{CLUSTER}/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/b"
    await api.ok("DELETE", path)
    await configure(api, limited(selector={"matchLabels": {}}, namespace=place)[1])
    assert await refused(api, config_map()) == f"{NO_PARAMS}parameterNotFoundAction"
    await api.ok("DELETE", path)
    await configure(api, limited(selector={"matchLabels": {}}, namespace=place, parameterNotFoundAction="Allow")[1])
    await api.ok("POST", CONFIG_MAPS, config_map())


async def test_names_that_no_parameter_has(api: Api) -> None:
    """A parameter whose name no object can have is a missing one."""
    await configure(api, *limited(name="a\x00b"))
    assert await refused(api, config_map()) == f"{NO_PARAMS}parameterNotFoundAction"


async def test_selector(api: Api) -> None:
    """All selected parameters count, and none at all is a missing parameter."""
    await configure(api, *limited(selector={"matchLabels": {"limits": "maps"}}))
    assert await refused(api, config_map()) == f"{NO_PARAMS}parameterNotFoundAction"
    await limit(api, "limit-other", 0)
    assert (await refused(api, config_map())).startswith(NO_PARAMS)
    await api.ok("DELETE", f"{CLUSTER}/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings/b")
    await limit(api, "limit-a", 5, limits="maps")
    await limit(api, "limit-b", 1, limits="maps")
    await configure(api, limited(selector={"matchLabels": {"limits": "maps"}})[1])
    await api.ok("POST", CONFIG_MAPS, config_map("one", a="1"))
    await refused(api, config_map("two", a="1", b="2"))


async def test_cluster_scoped_kinds(api: Api) -> None:
    """A cluster-scoped parameter has no namespace, and one with a namespace is not for cluster-scoped writes."""
    namespaces = {"apiVersion": "v1", "kind": "Namespace"}
    await configure(api, policy("p", "params.metadata.name == 'x'", paramKind=namespaces), binding(paramRef={"name": "default", **DENY}))
    await refused(api, config_map())
    await configure(api, binding("a", paramRef={"name": "default", "namespace": "default", **DENY}))
    expected = "'p' with binding 'a' denied request: failed to configure binding: paramRef.namespace must not be provided for a "
    assert await refused(api, config_map()) == f"{expected}cluster-scoped `paramKind`"
    await configure(api, policy("q", "true", rules=[rule("nodes", "persistentvolumes", "clusterroles", group="*")], paramKind=KIND))
    await configure(api, binding("q", "q", paramRef={"name": "x", **DENY}))
    path = f"{CLUSTER}/apis/rbac.authorization.k8s.io/v1/clusterroles"
    expected = "'q' with binding 'q' denied request: failed to configure binding: cannot use namespaced paramRef in policy binding that "
    assert await refused(api, {"metadata": {"name": "r"}, "rules": []}, path=path) == f"{expected}matches cluster-scoped resources"


async def test_custom_kinds(api: Api) -> None:
    """A kind that the cluster does not serve is a mistake of the policy; from the CRD on it is used."""
    kind = {"apiVersion": "example.com/v1", "kind": "Limit"}
    await configure(api, policy("p", "object.data.size() <= params.most", paramKind=kind), binding(paramRef={"name": "one", **DENY}))
    mistake = "failed to find resource referenced by paramKind: 'example.com/v1, Kind=Limit'"
    assert await refused(api, config_map()) == f"'p' denied request: failed to configure policy: {mistake}"
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"most": {"type": "integer", "default": 1}}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    names = {"plural": "limits", "singular": "limit", "kind": "Limit", "listKind": "LimitList"}
    spec = {"group": "example.com", "names": names, "scope": "Cluster", "versions": [version]}
    await api.ok("POST", CRDS, {"metadata": {"name": "limits.example.com"}, "spec": spec})
    await established(api, "a", "limits.example.com")
    await api.ok("POST", f"{CLUSTER}/apis/example.com/v1/limits", {**kind, "metadata": {"name": "one"}})
    await api.ok("POST", CONFIG_MAPS, config_map("x", a="1"))
    await refused(api, config_map("y", a="1", b="2"))


async def test_no_reference(api: Api) -> None:
    """A binding without parameters evaluates the policy with null."""
    await configure(api, policy("p", "params != null", paramKind=KIND), binding())
    await refused(api, config_map())
