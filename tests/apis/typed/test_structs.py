"""Objects of typed kinds are read as Go reads them and written as Go writes them."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kcp_py.apimachinery.errors import StatusError
from kcp_py.apis.typed.structs import StructCodec, struct_codec
from kcp_py.apis.upstream.crds import crds_of
from kcp_py.bootstrap.kinds import builtin_kinds
from kcp_py.bootstrap.upstream_kinds import upstream_kinds

DEPLOYMENT = StructCodec("io.k8s.api.apps.v1.Deployment")
POD = StructCodec("io.k8s.api.core.v1.Pod")
SECRET = StructCodec("io.k8s.api.core.v1.Secret")
NODE = StructCodec("io.k8s.api.core.v1.Node")


def obj(kind: str, **members: Any) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "metadata": {"name": "a"}, **members}


def decoded(codec: StructCodec, **members: Any) -> dict[str, Any]:
    value = obj("X", **members)
    codec.decode(value)
    return {name: value[name] for name in value if name in members}


def completed(codec: StructCodec, **members: Any) -> dict[str, Any]:
    value = obj("X", **members)
    codec.decode(value)
    codec.complete(value)
    return {name: child for name, child in value.items() if name not in {"apiVersion", "kind", "metadata"}}


def test_every_field_that_is_always_written_is_there():
    """Fields without omitempty are written however little the client says, in nested structures and in lists as well."""
    assert completed(NODE) == {
        "spec": {},
        "status": {
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
            "nodeInfo": dict.fromkeys(
                (
                    "architecture", "bootID", "containerRuntimeVersion", "kernelVersion", "kubeProxyVersion", "kubeletVersion",
                    "machineID", "operatingSystem", "osImage", "systemUUID",
                ),
                "",
            ),
        },
    }  # fmt: skip
    spec = completed(DEPLOYMENT, spec={"template": {"spec": {"containers": [{"name": "c"}, None]}}})["spec"]
    containers = [{"name": "c", "resources": {}}, {"name": "", "resources": {}}]
    assert spec == {"selector": None, "strategy": {}, "template": {"metadata": {}, "spec": {"containers": containers}}}


@pytest.mark.parametrize("value", [None, {}, {"containers": None}, {"containers": [], "nodeName": "", "hostNetwork": False}])
def test_zero_values_are_missing(value):
    """A structure cannot distinguish null, empty and missing, so that defaults apply to each."""
    assert decoded(POD, spec=value) == {}
    assert completed(POD, spec=value) == {"spec": {"containers": None}, "status": {}}


def test_pointers_keep_zero_values():
    """A pointer to zero is present; null points to nothing."""
    spec = {"replicas": 0, "revisionHistoryLimit": None, "template": {"spec": {"securityContext": {}, "priority": 0}}}
    assert decoded(DEPLOYMENT, spec=spec) == {"spec": {"replicas": 0, "template": {"spec": {"securityContext": {}, "priority": 0}}}}


def test_nulls_in_lists_and_maps_are_zero_values():
    """An element cannot be missing."""
    assert decoded(POD, spec={"nodeSelector": {"a": None}, "overhead": {"cpu": None}, "hostAliases": [None]}) == {
        "spec": {"nodeSelector": {"a": ""}, "overhead": {"cpu": "0"}, "hostAliases": [{"ip": ""}]}
    }


@pytest.mark.parametrize(("given", "stored"), [
    ("YWJj", "YWJj"), ("Y\nW\r\nJj\n", "YWJj"), ("", ""), (None, ""), ([97, 98, 99], "YWJj"), ("YR==", "YQ=="),
])  # fmt: skip
def test_bytes_have_one_form(given, stored):
    """Base64 is read with line ends and written without; a list of numbers is bytes, too."""
    assert decoded(SECRET, data={"a": given}) == {"data": {"a": stored}}


def test_quantities_and_times_are_canonical():
    """They are written as they are read back."""
    value = {"allocatable": {"cpu": "1000m", "memory": 1024}, "conditions": [{"lastHeartbeatTime": "2026-01-01T01:00:00.5+01:00"}]}
    assert decoded(NODE, status=value) == {
        "status": {"allocatable": {"cpu": "1", "memory": "1024"}, "conditions": [{"lastHeartbeatTime": "2026-01-01T00:00:00Z"}]}
    }


PROBLEMS: dict[str, tuple[StructCodec, dict[str, Any], str]] = {
    "text for a number": (
        DEPLOYMENT, {"spec": {"replicas": "3"}},
        "json: cannot unmarshal string into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    "number out of range": (
        DEPLOYMENT, {"spec": {"replicas": 2**31}},
        "json: cannot unmarshal number 2147483648 into Go struct field DeploymentSpec.spec.replicas of type int32",
    ),
    "in a list": (
        DEPLOYMENT, {"spec": {"template": {"spec": {"containers": [{"name": 3}]}}}},
        "json: cannot unmarshal number into Go struct field Container.spec.template.spec.containers.name of type string",
    ),
    "an object for a list": (
        DEPLOYMENT, {"spec": {"template": {"spec": {"containers": {}}}}},
        "json: cannot unmarshal object into Go struct field PodSpec.spec.template.spec.containers of type []v1.Container",
    ),
    "a named type": (
        POD, {"spec": {"dnsPolicy": True}}, "json: cannot unmarshal bool into Go struct field PodSpec.spec.dnsPolicy of type v1.DNSPolicy",
    ),
    "in a map": (SECRET, {"data": {"a": 1}}, "json: cannot unmarshal number into Go struct field Secret.data of type []uint8"),
    "base64": (SECRET, {"data": {"a": "YQ==\nx"}}, "illegal base64 data at input byte 5"),
    "int or string": (
        DEPLOYMENT, {"spec": {"strategy": {"rollingUpdate": {"maxSurge": True}}}},
        "json: cannot unmarshal bool into Go struct field RollingUpdateDeployment.spec.strategy.rollingUpdate.maxSurge of type int32",
    ),
    "the first of two": (
        DEPLOYMENT, {"status": {"replicas": ""}, "spec": 1},
        "json: cannot unmarshal string into Go struct field DeploymentStatus.status.replicas of type int32",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("codec", "members", "problem"), PROBLEMS.values(), ids=PROBLEMS)
def test_wrong_types(codec, members, problem):
    """They are refused in the words of upstream's decoder."""
    with pytest.raises(StatusError) as raised:
        codec.decode(obj("X", **members))
    assert raised.value.code == 400
    assert raised.value.message == f'X in version "v1" cannot be handled as a X: {problem}'


def test_validation_sees_zero_as_missing():
    """Missing required fields are found only without the zero values that were added for writing; the object itself stays."""
    value = obj("X", spec={"template": {"spec": {"containers": [{}]}}})
    DEPLOYMENT.complete(value)
    before = repr(value)
    assert DEPLOYMENT.without_zeros(value)["spec"] == {
        "strategy": {},
        "template": {"metadata": {}, "spec": {"containers": [{"resources": {}}]}},
    }
    assert repr(value) == before


def test_free_form_values_may_be_empty():
    """An empty object is something where any object may be."""
    revision = StructCodec("io.k8s.api.apps.v1.ControllerRevision")
    value = obj("X", data={}, revision=1)
    revision.decode(value)
    revision.complete(value)
    assert value["data"] == {}
    assert revision.without_zeros(value)["data"] == {}


def test_every_kind_has_its_structure():
    """The data of structures and of schemas are of the same kinds."""
    names = [kind.model for kind in upstream_kinds().values()] + [kind.model for kind in builtin_kinds()]
    assert [name for name in names if struct_codec(name) is None] == ["io.kcp.core.v1alpha1.LogicalCluster"]


@pytest.mark.parametrize("crd", crds_of(tuple(upstream_kinds().values())), ids=lambda crd: crd["metadata"]["name"])
def test_versions_of_one_form_are_written_alike(crd):
    """Versions that share a definition share stored bytes: they write the same fields."""
    names = [(crd["spec"]["group"], version["name"], crd["spec"]["names"]["kind"]) for version in crd["spec"]["versions"]]
    if crd["spec"]["group"] == "autoscaling":
        return  # its versions are converted
    forms = [completed(StructCodec(upstream_kinds()[name].model)) for name in names]
    assert all(form == forms[0] for form in forms)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["spec", "template", "containers", "data", "a"]), inner),
    max_leaves=10,
)


@given(value=JSON)
def test_any_json_is_decoded_or_refused(value):
    """No value makes the codec fail otherwise, and what it has decoded and completed once is not changed by doing it again."""
    once = obj("X", spec=value)
    try:
        DEPLOYMENT.decode(once)
    except StatusError:
        return
    DEPLOYMENT.complete(once)
    again = obj("X", spec=copy.deepcopy(once["spec"]))
    DEPLOYMENT.decode(again)
    DEPLOYMENT.complete(again)
    assert again["spec"] == once["spec"]
